"""The parts of a report on one evaluation. Each is a function of what it shows and gives a piece of a page.

What is missing is said in words: no part draws a number that is not known. An `Evaluation` is not named as a type here,
because `result.py`, where it lives, writes reports with these parts.
"""

from __future__ import annotations

import math
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import EvenrollError
from evenroll.estimators.imbalance import Imbalance, imbalance
from evenroll.evaluation.diagnosis import Cell, cells_of, worst_by_chance
from evenroll.evaluation.noise_picture import svg
from evenroll.evaluation.page_axes import NARROW, WIDE
from evenroll.evaluation.page_figures import FEW, running_picture, spread_picture
from evenroll.evaluation.running_estimate import running
from evenroll.policies import External, Policy, TabularSoftmax
from evenroll.text.numbers import precise
from evenroll.text.page import Html, element, html, joined, table

NO_DATA = "This result was read from JSON or unpickled, without its episodes"
TOO_LARGE = "The numbers span more than a picture can show."
SHOWN = 6  # cells that are listed; a choice
MOST_STEPS = 300_000  # steps in which places that are off are looked for: a second's work
KEYS = {
    "band": "band",
    "plain-band": "plain-band",
    "estimate": "estimate",
    "second": "second-line",
    "dot": "dot",
    "bar": "bar",
}


# ---- pieces that every report is made of ----------------------------------------------------------------------------


def section(title: str, *children: object, name: str | None = None) -> Html:
    return element("section", element("h2", title), *children, id=name)


def paragraph(*text: object, kind: str | None = None) -> Html:
    return element("p", *text, class_=kind)


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def figure(picture: Html | None, caption: str, keys: Sequence[tuple[str, str]] = (), words: str = TOO_LARGE) -> Html:
    """A picture with its caption and what its colours mean: (colour, meaning). Without a picture there are words."""
    if picture is None:
        return element("figure", element("figcaption", caption), paragraph(words, kind="missing"))
    legend = [element("span", element("i", class_=KEYS[key]), text, class_="key") for key, text in keys]
    return element("figure", element("figcaption", caption), picture, element("p", joined(legend, " "), class_="legend"))


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """A row of small cards, each a name and what is known of it."""
    return element("dl", *(element("div", element("dt", k), element("dd", v)) for k, v in pairs), class_="facts")


def alerts(warnings: Sequence[str], notes: Sequence[str]) -> Html:
    """Warnings in a box that cannot be overlooked, and notes in a quieter one. Where there is no warning, that is said."""

    def box(title: str, texts: Sequence[str], kind: str) -> Html:
        items = element("ul", *(element("li", sentence(text)) for text in dict.fromkeys(texts)))
        return element("section", element("h2", title), items, class_=kind)

    warned = box("Warnings", warnings, "warnings together") if warnings else paragraph("There are no warnings.", kind="soft")
    return joined([warned, *([box("Notes", notes, "notes together")] if notes else [])])


def warnings_of(result: Any) -> list[str]:
    """What a reader must know before the number: warnings, that there is no interval, that there is less data."""
    told = list(result.warnings)
    if result.low is None:
        told.append(f"There is no interval: {result.why or 'the reason is not known'}")
    if result.interrupted:
        told.append("Collecting was interrupted, so that there is less data than was asked for")
    return told


def notes_of(result: Any) -> list[str]:
    """What is good to know: about the interval, about the policy, about the starts."""
    told = [text for text in (result.note, result.remark, result.no_resets) if text]
    if result.fallback:
        told.append("The interval is wider than its method alone would make it, because data is scarce")
    if result.resets:
        told.append(f"{result.resets:,} further resets, without a step, showed which starts there are")
    return told


def interval_of(result: Any) -> tuple[float, float] | None:
    return None if result.low is None or result.high is None else (result.low, result.high)


def level(result: Any) -> str:
    return f"{100 * result.confidence:g} %"


# ---- one evaluation -------------------------------------------------------------------------------------------------


def settled(result: Any) -> Html:
    """The running estimate with its interval."""
    caption = "How the estimate settled"
    if result._looked is None:
        return figure(None, caption, words=f"{NO_DATA}: how its estimate settled cannot be drawn.")
    try:
        with single_threaded_blas():
            seen, look = result._looked
            run = running(seen, look, result.confidence)
    except EvenrollError as error:
        return figure(None, caption, words=f"It is not drawn: {error}.")
    keys = [
        ("estimate", "running estimate"),
        ("band", f"its {level(result)} interval"),
        ("plain-band", f"{level(result)} of as many plain on-policy episodes"),
    ]
    return figure(running_picture(run, f"its {level(result)} interval"), caption, keys)


def returns(result: Any, shared: tuple[float, float] | None = None) -> Html:
    """How the returns spread. `shared` is the range of the axis where it is that of several pictures."""
    caption = "The returns"
    if result.rollouts is None:
        return figure(None, caption, words=f"{NO_DATA}: its returns cannot be drawn.")
    values = result.rollouts.returns
    if len(values) == 0:
        return figure(None, caption, words="No episode has finished.")
    if float(np.ptp(values)) == 0.0:
        count = f"All {len(values):,} returns were equal" if len(values) > 1 else "There is one return"
        return figure(None, caption, words=f"{count}: {float(values[0]):.10g}. They have no spread to draw.")
    keys = [("dot", "an episode") if len(values) <= FEW else ("bar", "episodes"), ("estimate", "estimate")]
    keys += [("band", f"its {level(result)} interval")] if interval_of(result) else []
    return figure(spread_picture(values, result.value, interval_of(result), "return", "episodes", shared), caption, keys)


def noise(result: Any) -> Html:
    """The strip of the noise budget, and what it says."""
    caption = "Where the variance of one return comes from"
    if result.exact:
        return figure(None, caption, words="The value is exact up to rounding: there is no noise left to share out.")
    if result.noise is None:
        return figure(None, caption, words="It is not known: there are too few episodes, or their returns are all equal.")
    strips = [Html(svg(result.noise, width).replace("<svg ", f'<svg class="{kind}" ', 1)) for width, kind in
              ((WIDE, "wide"), (NARROW, "narrow"))]  # fmt: skip
    said = result.noise_in_words()
    words = paragraph(sentence(said), kind="said") if said else ""
    return element("figure", element("figcaption", caption), element("div", element("div", *strips), words, class_="noise"))


def endings(result: Any) -> Html:
    """How episodes ended."""
    n, data = result.episodes, result.rollouts
    rows: list[Sequence[object]] = [
        (_named("terminated", "the environment ended them"), f"{result.terminated:,}", _share(result.terminated, n)),
        (_named("truncated", "a time limit cut them"), f"{result.truncated:,}", _share(result.truncated, n)),
    ]
    rows.append((_named("unfinished", "begun, not ended; does not count"), f"{result.unfinished:,}", "–"))
    if data is not None and data.success is not None:
        good = int(np.count_nonzero(data.success))
        rows.append((_named("successful", "as the environment reports"), f"{good:,}", _share(good, n)))
    elif "success" in result.quantities:
        rows.append((_named("successful", "as the environment reports"), "–", f"{result.quantities['success'].value:.1%}"))
    else:
        rows.append((_named("successful", "the environment reports no success"), "not known", "–"))
    return table(("ended", "episodes", "share"), rows)


def quantities(result: Any) -> Html:
    """The value and the other means over the same episodes, with their intervals."""
    rows = [("value", result.value, result.low, result.high)]
    rows += (
        [] if result.mean is None else [("plain mean of the returns", result.mean.value, result.mean.low, result.mean.high)]
    )
    rows += [(f"{name}, undiscounted", q.value, q.low, q.high) for name, q in result.quantities.items()]
    return table(("mean of", "estimate", f"{level(result)} interval"), [_quantity(*row) for row in rows])


def balance(result: Any) -> Html:
    """How far the data is from on-policy, by every measure that is known."""
    rows = [
        (
            _named("KL of the data", "from the policy that fits the data best to the policy itself, nats a step"),
            _number(result.kl, "not known: no table or network of the policy's can be fitted here"),
        ),
        (
            _named("mean |∇|", "of the log-likelihood; 0 if every action came out in its proportion"),
            _number(result.gradient, "not known: the policy's action probabilities are not known"),
        ),
        (
            _named("KL of the behaviour", "how far sampling strayed from the policy on average, nats a step"),
            _number(result.behavior_kl, "not known"),
        ),
        (
            _named("largest |log π_b/π_e|", "of an action that was looked at"),
            _number(result.behavior_largest, "not known"),
        ),
    ]  # fmt: skip
    if result.effective_sample_size is not None:
        weighted = "equally weighted trajectories that the importance weights are worth"
        rows.append((_named("effective sample size", weighted), f"{result.effective_sample_size:.1f}"))
    if result.largest_weight is not None:
        rows.append((_named("largest weight", "its share of all weight"), f"{100 * result.largest_weight:.2g} %"))
    return table(("measure", "found"), rows)


def places(result: Any) -> Html:
    """Where the data is off: the states and actions that are farthest from their expected counts."""
    if result._looked is None:
        return paragraph(f"{NO_DATA}: where it is off is not known.", kind="missing")
    seen = result._looked[0]
    data, policy = seen.data, seen.policy
    if policy is None:
        return paragraph("The policy's action probabilities are not known, so nothing can be off.", kind="missing")
    if data.steps == 0 or data.steps > MOST_STEPS or data.observations is None or data.actions is None:
        why = f"there are {data.steps:,} steps" if data.observations is not None else "the observations were not kept"
        return paragraph(f"Where it is off is not looked at here: {why}. `evenroll diagnose` does.", kind="missing")
    with single_threaded_blas():
        found, cells = imbalance(data, policy), _cells(data, policy)
    chance = worst_by_chance(len(cells))
    worst = _told_once(sorted(cells, key=lambda cell: -abs(cell.z)))[:SHOWN]
    if not worst:
        return paragraph(_balanced(found))
    rows = [(_named(cell.where, cell.action), f"{cell.taken:.4g}", f"{cell.expected:.4g}", _z(cell.z)) for cell in worst]
    said = (
        f"Of {len(cells):,} cells the {len(worst)} that are farthest off, in standard deviations z of on-policy chance, "
        f"which alone would give the worst a |z| of about {chance:.1f}."
    )
    said += "" if isinstance(policy, TabularSoftmax) else " x0 is the first number of an observation."
    return joined([paragraph(_balanced(found)), table(("where", "taken", "expected", "z"), rows, said)])


def settings(result: Any, policies: Mapping[str, str | None] | None = None) -> Html:
    """What the numbers depend on. `policies` are how several policies were run, by their names."""
    run = {"policy": result.policy} if policies is None else policies
    rows: list[tuple[str, str]] = [("environment", result.domain)]
    rows += [(name, how or "not known") for name, how in run.items()]
    rows += [
        ("sampler", result.sampler),
        ("estimator", result.estimator),
        ("interval", f"{level(result)}, {result.interval or 'none'}"),
        ("discount γ", f"{result.gamma:g}"),
        ("seed", f"{result.seed}"),
        *versions().items(),
    ]
    return table(("setting", "value"), rows)


def versions() -> dict[str, str]:
    """What this page was made with."""
    ours = getattr(sys.modules.get("evenroll"), "__version__", "not known")
    return {
        "evenroll": ours, "NumPy": np.__version__, "Gymnasium": gymnasium.__version__, "Python": platform.python_version(),
    }  # fmt: skip


def repeated(result: Any, command: str | None) -> Html:
    """The command or the line of Python that gives the same numbers again."""
    again = (
        "begins again, and without an interruption ends with more episodes"
        if result.interrupted
        else "gives the same numbers"
    )
    if command is not None:
        return joined([paragraph(f"This command {again}:"), _code(command)])
    if result._call is not None:
        told = f"This line {again}; names without quotation marks are objects of your own program:"
        return joined([paragraph(told), _code(f"import evenroll\n\nresult = {result._call}")])
    return paragraph(
        "The call that made it is not known here: it was a loop of your own, it was interrupted, or the result was read "
        "from JSON or unpickled. The settings above and the same data give the same numbers.",
        kind="missing",
    )


def _code(text: str) -> Html:
    return element("pre", element("code", text), tabindex="0")


def _named(name: str, meaning: str) -> Html:
    return joined([name, element("small", meaning)])


def _share(part: int, whole: int) -> Html:
    """A share in percent, with a bar. Nothing has no share of nothing."""
    if whole == 0:
        return html("–")
    width = f"width:{100 * part / whole:.1f}%"
    bar = element("span", element("i", style=width), class_="share", aria_hidden="true")
    return joined([f"{part / whole:.1%}", bar])


def _quantity(name: str, value: float, low: float | None, high: float | None) -> tuple[str, str, str]:
    if low is None or high is None:
        return name, precise(value, 0.0), "none"
    half = (high - low) / 2
    return name, precise(value, half), f"{precise(low, half)} … {precise(high, half)}"


def _number(x: float | None, missing: str) -> str:
    if x is None or math.isnan(x):
        return missing
    return f"{x:.3g}" if math.isfinite(x) else "infinite"


def _z(z: float) -> Html:
    """z with a bar to the side that it is off to; a bar is full at |z| = 8."""
    side = "left" if z < 0.0 else "right"
    bar = element("i", style=f"width:{min(abs(z) / 8.0, 1.0) * 50.0:.1f}%", class_=side)
    return joined([f"{z:+.2f}".replace("-", "−"), element("span", bar, class_="share both", aria_hidden="true")])


def _balanced(found: Imbalance) -> str:
    """One sentence on the imbalance of the scores relative to chance."""
    if not math.isfinite(found.error):
        return "No action left a choice, so that nothing can be out of balance."
    chance = f"excess {found.excess:.2g}, where on-policy data has 1 ± {found.error:.1g}"
    if found.excess < 1.0 - 2.0 * found.error:
        return f"The data is better balanced than on-policy data would be ({chance})."
    if found.excess <= 1.0 + 2.0 * found.error:
        return f"The data is as balanced as on-policy data would be ({chance})."
    return f"The data is farther from balance than on-policy data would be ({chance})."


def _told_once(cells: Sequence[Cell]) -> list[Cell]:
    """Cells without those that say the same of the other of two actions: what one lacks, the other has too much."""
    told: list[Cell] = []
    for cell in cells:
        if not any(cell.where == other.where and abs(cell.z + other.z) < 1e-6 * (1.0 + abs(cell.z)) for other in told):
            told.append(cell)
    return told


def _cells(data: Rollouts, policy: Policy) -> list[Cell]:
    observations, table_of_states = data.column("observations"), isinstance(policy, TabularSoftmax)
    if isinstance(policy, External):
        outputs = data.column("outputs")
    elif isinstance(policy, TabularSoftmax):
        outputs = policy.parameters_of_actions(observations)
    else:
        outputs = policy.outputs_of_features(policy.features(observations))  # type: ignore[attr-defined]
    scores = policy.distribution.scores(outputs, data.column("actions"))
    return cells_of(observations, scores, policy.distribution.variances(outputs), policy.distribution, table_of_states)
