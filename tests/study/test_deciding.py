"""Adding trials to decide claims: who gets them, what they change, resuming, the time limit, and reasons in words.

Blocks are not run but invented, so that every ratio is known: a trial of a work errs by a normal number, drawn by the number
of the trial, times what `ERRORS` says.
"""

from __future__ import annotations

import html
import math
import re
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from evenroll.errors import SpecError
from evenroll.executors.pool import get_pool
from evenroll.study import runner
from evenroll.study.blocks import Block, BlockData, Work, resolve
from evenroll.study.claims import claims
from evenroll.study.deciding import decide
from evenroll.study.evidence import Evidence, JudgedClaim
from evenroll.study.experiments import QUICK, Roster
from evenroll.study.ratios import FAILS, HOLDS, UNDECIDED
from evenroll.study.reproduce import Outcome, choose, reproduce
from evenroll.study.results import Results, Trialled
from evenroll.study.spending import critical
from evenroll.study.store import Store
from tests.study.test_runner import tree

SCALE = QUICK.limited(trials=50, budget=4.0)
TWO = Roster(("bandit", "gridworld"), ("os/mc", "bpg/ois", "ros/mc"))
Errors = Callable[[Work], float]


def invent(errors: Errors) -> Callable[[Block], BlockData]:
    def compute(block: Block) -> BlockData:
        known, name = resolve(block.work), zlib.crc32(str(block.work).encode())
        shape = (len(known.columns), len(known.checkpoints))
        trials = range(block.first, block.first + block.count)
        normal = np.stack([np.random.default_rng([name, trial]).normal(size=shape) for trial in trials])
        return BlockData(known.columns, known.checkpoints, 1.0 + errors(block.work) * normal, np.zeros(block.count, bool))

    return compute


def close_on_gridworld(work: Work) -> float:
    """On GridWorld the MSE of ROS is 0.72 of OS's and half of BPG's, which 50 trials do not show; on the bandit far less."""
    if work.collect != "ros":
        return 1.2 if work.collect == "bpg" else 1.0
    return 0.85 if work.domain == "gridworld" else 0.1


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch) -> Callable[[Errors], None]:
    return lambda errors: monkeypatch.setattr(runner, "compute_together", each(invent(errors)))


def each(compute: Callable[[Block], BlockData]) -> Callable[[Sequence[Block]], tuple[BlockData, ...]]:
    return lambda blocks: tuple(compute(block) for block in blocks)


def run(directory: Path, minutes: float | None, names: tuple[str, ...] = ("fig2",), workers: int = 2) -> Outcome:
    return reproduce(names, directory, scale=SCALE, roster=TWO, workers=workers, decide_minutes=minutes)


def headline(outcome: Outcome) -> JudgedClaim:
    return next(c for c in outcome.claims if c.text.startswith("ROS lowers MSE"))


def trials_there(directory: Path) -> dict[tuple[str, str], int]:
    """How many trials the store has, by domain and method."""
    found: dict[tuple[str, str], int] = {}
    for entry in Store(directory / "store").entries():
        key = (entry.identity["domain"], entry.identity["method"].partition(":")[0])
        found[key] = found.get(key, 0) + entry.identity["trials"]
    return found


def test_trials_go_where_they_decide_and_figures_keep_theirs(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    invented(close_on_gridworld)
    plain, decided = run(tmp_path / "plain", None), run(tmp_path / "decided", 5.0)
    assert headline(plain).verdict == UNDECIDED
    assert headline(plain).note == ""
    found = headline(decided)
    assert found.verdict == HOLDS
    assert found.numbers == headline(plain).numbers  # of the figure's own trials
    assert {look.reading.verdict for look in found.added} == {HOLDS}
    took = max(look.reading.trials[0] for look in found.added)
    assert found.note == f"Decided with {took:,} trials instead of 50."
    assert all("GridWorld" in look.reading.name for look in found.added)
    there = trials_there(tmp_path / "decided")
    assert there["bandit", "ros"] == there["bandit", "os"] == there["bandit", "bpg"] == 50
    assert there["gridworld", "ros"] == took
    assert decided.deciding is not None
    assert not decided.deciding.out_of_time
    assert decided.deciding.trials == sum(there.values()) - 6 * 50
    for name in ("fig2.png", "fig2.pdf"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "decided" / name).read_bytes()
    pages = [(tmp_path / name / "report.html").read_text() for name in ("plain", "decided")]
    assert found.note in pages[1]
    assert all(html.escape(str(look)) in pages[1] for look in found.added)
    assert "Decided with" not in pages[0]
    curves = [page[page.index('<script type="application/json"') :] for page in pages]
    assert curves[0] == curves[1]


def test_tables_keep_their_trials(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    """The works of table 3 are those of figure 2, whose claim gets more trials; a second run finds them in the store."""
    invented(close_on_gridworld)
    run(tmp_path / "plain", None, ("fig2", "table3"))
    for _ in range(2):
        run(tmp_path / "decided", 5.0, ("fig2", "table3"))
        assert (tmp_path / "decided" / "table3.md").read_bytes() == (tmp_path / "plain" / "table3.md").read_bytes()


def test_the_json_says_how_many_trials_it_took(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    invented(close_on_gridworld)
    outcome = run(tmp_path, 5.0)
    told = next(c for c in outcome.to_json()["claims"] if c["text"].startswith("ROS lowers MSE"))
    look = told["added"][0]
    assert set(look) == {"name", "verdict", "trials", "confidence", "value", "low", "high"}
    assert look["low"] < look["value"] < look["high"] < 1.0
    assert 0.99 < look["confidence"] < 1.0
    assert outcome.to_json()["deciding"]["looks"] >= 2
    assert "deciding" not in run(tmp_path, None).to_json()


def test_a_killed_run_goes_on_to_the_same_bytes(
    invented: Callable[[Errors], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is killed at its first look, and at a later one. The store and the claims end as if nothing had happened, with
    another number of workers as well."""
    invented(close_on_gridworld)
    whole = run(tmp_path / "whole", 5.0, workers=1)
    quiet = runner.compute_together
    for number in (7, 9):
        left = number

        def killed(blocks: Sequence[Block]) -> tuple[BlockData, ...]:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return quiet(blocks)

        directory = tmp_path / str(number)
        monkeypatch.setattr(runner, "compute_together", killed)
        with pytest.raises(KeyboardInterrupt):
            run(directory, 5.0, workers=1)
        monkeypatch.setattr(runner, "compute_together", quiet)
        before = len(tree(directory / "store"))
        again = run(directory, 5.0, workers=3)
        assert (again.read, again.computed) == (before, whole.computed - before)
        assert tree(directory / "store") == tree(tmp_path / "whole" / "store")
        assert again.claims == whole.claims
        assert (directory / "report.html").read_bytes() == (tmp_path / "whole" / "report.html").read_bytes()


def test_the_time_limit_is_kept_and_says_what_is_left(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    """Without time no block is added, but those that are there count."""
    invented(close_on_gridworld)
    none = run(tmp_path, 0.0)
    assert none.deciding is not None
    assert none.deciding.out_of_time
    assert (none.deciding.trials, none.computed) == (0, 6)
    about_auto = next(c for c in none.claims if "auto" in c.text)
    assert about_auto.note == "Left undecided: nothing that it compares was run."
    found = headline(none)
    assert found.verdict == UNDECIDED
    assert found.note.startswith("Left undecided by the time limit: GridWorld, ROS-MC / ")
    assert ", 50 trials: at this width more than about 910 trials are needed, and " in found.note  # 50 · (2.865 / 0.67)²
    assert re.search(r": 0\.\d{3} \[0\.\d{3}, 1\.\d\d\], 50 trials", found.note)  # digits that tell an end from the border
    assert "core-minutes more." in found.note
    decided = run(tmp_path, 5.0)
    again = run(tmp_path, 0.0)
    assert again.computed == 0
    assert again.claims == decided.claims


def test_what_it_would_cost_has_no_exponent(
    invented: Callable[[Errors], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    invented(close_on_gridworld)
    monkeypatch.setattr("evenroll.study.deciding.cost", lambda work: 1000.0)
    assert re.search(r" and [0-9]{1,3}(,[0-9]{3})+ core-minutes more\.$", headline(run(tmp_path, 0.0)).note)


def test_no_block_is_begun_after_the_limit(
    invented: Callable[[Errors], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Equal methods would be looked at for a long time. Of blocks that take 50 ms, 0.01 minutes allow a dozen for a worker;
    the limit, the blocks in flight and what else there is to do end within a minute, on a busy machine too."""
    invented(lambda work: 1.0)
    run(tmp_path, None)
    quiet, begun = runner.compute_together, []

    def slow(blocks: Sequence[Block]) -> tuple[BlockData, ...]:
        begun.append(time.perf_counter())
        time.sleep(0.05)
        return quiet(blocks)

    monkeypatch.setattr(runner, "compute_together", slow)
    started = time.perf_counter()
    outcome = run(tmp_path, 0.01)
    assert time.perf_counter() - started < 60.0
    assert outcome.deciding is not None
    assert outcome.deciding.out_of_time
    assert 0.0 < max(begun) - min(begun) < 30.0  # of 819,200 trials the first doublings


def test_equal_methods_are_given_up_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, invented: Callable[[Errors], None], tmp_path: Path
) -> None:
    """All squared errors are nearly alike, so 50 trials show that the ratio is within 1 % of its border."""

    def compute(block: Block) -> BlockData:
        known = resolve(block.work)
        shape = (block.count, len(known.columns), len(known.checkpoints))
        rng = np.random.default_rng([zlib.crc32(str(block.work).encode()), block.first])
        return BlockData(known.columns, known.checkpoints, 2.0 + 1e-3 * rng.normal(size=shape), np.zeros(block.count, bool))

    monkeypatch.setattr(runner, "compute_together", each(compute))
    outcome = run(tmp_path, 5.0)
    assert outcome.deciding is not None
    assert (outcome.deciding.trials, outcome.deciding.out_of_time) == (0, False)
    found = headline(outcome)
    assert found.verdict == UNDECIDED
    assert "within 1 % of the border" in found.note
    assert "trials would be needed" in found.note


def test_a_reversed_part_decides_alone(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    """On GridWorld ROS errs more than OS and BPG. One of these comparisons is enough, so the bandit gets no trials, although
    they would be cheaper there and its comparisons, on their way to holding, are undecided."""
    invented(lambda work: 1.0 if work.collect != "ros" else 1.25 if work.domain == "gridworld" else 0.85)
    outcome = run(tmp_path, 5.0)
    found = headline(outcome)
    assert found.verdict == FAILS
    assert found.note.startswith("Decided with ")
    assert sum(look.reading.verdict == FAILS for look in found.added) == 1
    there = trials_there(tmp_path)
    assert there["bandit", "ros"] == 50 < there["gridworld", "ros"]
    assert any("Bandit" in number and verdict == UNDECIDED for number, verdict in first_look(found, tmp_path))


def first_look(claim: JudgedClaim, directory: Path) -> list[tuple[str, str]]:
    """What the trials of the figure say of each part, by the rule."""
    found = {}
    for work in {work for part in claim.parts for work in part.wanted()}:
        data = [Store(directory / "store").load(block) for block in work.blocks(50)]
        found[work] = Trialled.of(work, [part for part in data if part is not None])
    readings = [part.read(Results(found), critical(0, len(claim.parts), 50)) for part in claim.parts]
    return [(reading.name, reading.verdict) for reading in readings]


def test_a_look_uses_the_first_trials_only(tmp_path: Path) -> None:
    """800 trials are there for the sake of other claims. Each part is judged at the first look that decides it, by as many
    trials as that look has."""
    target = choose(["fig2"], SCALE, TWO)[0]
    found = {work: Trialled.of(work, [invent(close_on_gridworld)(Block(work, 0, 800))]) for work in target.wanted()}
    figure = {work: trialled.first(50) for work, trialled in found.items()}
    judged = claims(Evidence({"fig2": target}, Results(figure)))
    claim = decide(judged, found, Store(tmp_path), get_pool(workers=1), minutes=0.0).claims[0]
    assert claim.verdict == HOLDS
    parts = {part.name: part for part in claim.parts}
    assert len(parts) == 4
    for look in claim.added:
        (trials,) = look.reading.trials
        doublings = round(math.log2(trials / 50))
        assert 50 << doublings == trials
        for k in range(doublings + 1):
            first = Results({work: trialled.first(50 << k) for work, trialled in found.items()})
            reading = parts[look.reading.name].read(first, critical(k, 4, 50 << k))
            assert (reading == look.reading) == (k == doublings)
            assert (reading.verdict == UNDECIDED) == (k < doublings)
    assert min(look.reading.trials[0] for look in claim.added) < 800


def test_claims_without_parts_say_that_none_are_added(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    """The claim about every step size counts comparisons of the figure. Equal methods leave it undecided."""
    invented(lambda work: 1.0)
    outcome = run(tmp_path, 0.0, ("fig4",))
    found = next(c for c in outcome.claims if "any tested step size" in c.text)
    assert found.verdict == UNDECIDED
    assert found.note == "Left undecided: its criterion is about the figure’s own trials, and none are added for it."


@pytest.mark.parametrize("minutes", [-1.0, float("nan"), float("inf")])
def test_a_time_limit_that_is_none_is_refused(minutes: float, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="time limit must be a number of minutes"):
        run(tmp_path / "new", minutes)
    assert not (tmp_path / "new").exists()


def test_progress_of_deciding_never_goes_back(invented: Callable[[Errors], None], tmp_path: Path) -> None:
    invented(close_on_gridworld)
    seen = []
    reproduce(["fig2"], tmp_path, scale=SCALE, roster=TWO, decide_minutes=5.0, progress=seen.append)
    looks = [p for p in seen if p.whole_name != "everything"]
    assert {p.whole_name for p in looks} == {"undecided claims: 2"}  # the other one is about auto, which was not run
    whole = [p.whole for p in looks]
    assert whole == sorted(whole)
    assert all(p.target.startswith("fig2, ") and p.target.endswith(" trials") for p in looks)
    assert looks[-1].share == pytest.approx(1.0)
