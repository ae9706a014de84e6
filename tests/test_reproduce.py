"""`evenroll reproduce`: experiments as values, what they share, the page in a real browser, claims that can fail."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

from evenroll.cli.app import app
from evenroll.errors import EvenrollError, SpecError
from evenroll.study.blocks import BlockData, Work, resolve
from evenroll.study.charts import charts
from evenroll.study.claims import FAILS, HOLDS, UNDECIDED, Evidence, claims
from evenroll.study.experiments import DOMAINS, FULL, METHODS, QUICK, Roster, Target, label, targets
from evenroll.study.laws import laws
from evenroll.study.published import published_curve, published_final
from evenroll.study.reproduce import choose, cost, plans, reproduce
from evenroll.study.results import Results, Trialled
from evenroll.study.tables import Number

NAMES = [*(f"fig{i}" for i in range(1, 15)), "table3", "table4", "theory"]
RUN = ["fig1", "fig2", "fig4", "fig5", "fig6", "fig10", "fig12", "table3", "table4", "theory"]  # one of each kind
SMALL = QUICK.limited(trials=3, budget=32.0)


def works(target: Target) -> set[Work]:
    return set(target.wanted())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A very small run, made once for all processes that test."""
    base = tmp_path_factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / "reproduction"
    with FileLock(f"{directory}.lock"):
        if not (directory / "report.html").exists():
            reproduce(RUN, directory, scale=SMALL, roster=Roster(), workers=2)
    return directory


# ---- experiments are values ----------------------------------------------------------------------------------


def test_every_target_of_the_paper_is_there_and_work_is_shared() -> None:
    found = targets()
    assert list(found) == NAMES
    assert works(found["fig2"]) == works(found["fig10"]) < works(found["table3"])
    assert works(found["fig3"]) == works(found["fig11"]) == works(found["table4"])
    assert works(found["fig6"]) == works(found["fig8"])
    assert works(found["fig7"]) == works(found["fig9"])
    assert works(found["fig1"]) < works(found["fig6"]) | works(found["fig7"])
    assert works(found["fig13"]) == works(found["fig2"]) | works(found["fig6"])


def test_full_size_is_the_papers() -> None:
    for name in ("fig2", "fig3", "fig6", "fig7"):
        for work, trials in targets()[name].wanted().items():
            known = resolve(work)
            estimates = known.domain.name == "bandit" and not known.sampling_error
            assert trials == (5000 if estimates else 200)  # where 200 could not show the published difference
            points = [int(known.truth.mean_length * 2**i) for i in range(14)]
            assert list(known.checkpoints) == ([0] if known.initial else []) + points


@pytest.mark.parametrize(
    ("domain", "collect", "alpha"),
    [("bandit", "ros", 1e4), ("gridworld", "ros", 1e3), ("gridworld", "init+ros", 1e4), ("cartpole", "ros", 10.0),
     ("cartpole-continuous", "init+ros", 0.1)],
)  # fmt: skip
def test_step_sizes_are_those_of_tables_1_and_2(domain: str, collect: str, alpha: float) -> None:
    name = "fig3" if collect.startswith("init+") else "fig2"
    (work,) = [w for w in works(targets()[name]) if w.domain == domain and w.collect == collect]
    assert resolve(work).sampler.alpha == alpha  # type: ignore[attr-defined]


def test_one_more_method_or_domain_is_in_every_figure() -> None:
    roster = Roster((*DOMAINS, "gridworld:noise=1"), (*METHODS, "roa/mc"))
    for name, target in targets(QUICK, roster).items():
        if name not in ("fig1", "fig4", "fig5", "fig12", "theory"):  # those name their domains
            assert "gridworld:noise=1" in [panel.domain for panel in target.panels], name
        for panel in target.panels:
            works = [line.work for line in panel.lines] + [work for sweep in panel.sweeps for work in sweep.works]
            assert any(work.collect.endswith("roa") for work in works), name


def test_labels_are_the_papers() -> None:
    assert label("os/mc") == "OS-MC"
    assert label("init+os/wis+mc") == "(OPD + OS)-(WIS + MC)"
    assert label("init+bpg/ois") == "(OPD + BPG)-OIS"
    assert label("ros:alpha=10/mc") == "ROS-MC, α = 10"


def test_unknown_targets_are_named() -> None:
    with pytest.raises(SpecError, match="did you mean fig12"):
        choose(["fig122"], QUICK, Roster())


def test_costs_are_positive_and_grow_with_the_budget() -> None:
    for plan in plans(targets(QUICK).values(), 2, None):
        assert plan.seconds >= 0.0
    small, large = (Work("cartpole", "ros", ("wris", "kl", "grad_norm"), (1.0, b)) for b in (64.0, 8192.0))
    assert 20 * cost(small) < cost(large)


def test_published_numbers_agree_with_each_other() -> None:
    """The last point of a released curve is the table's entry, but for the bandit, which is another experiment."""
    for domain in ("gridworld", "cartpole", "cartpole-continuous"):
        for method in ("os/mc", "bpg/ois", "ros/mc"):
            curve, final = published_curve(domain, method), published_final("table3", method, domain)
            assert curve is not None
            assert final is not None
            assert curve["mse"][-1] == pytest.approx(final[0], rel=5e-3)
            assert curve["mse_se"][-1] == pytest.approx(final[1], rel=5e-3)
    assert published_curve("gridworld", "auto/mc") is None


# ---- a run ---------------------------------------------------------------------------------------------------


def test_a_run_leaves_every_figure_and_a_second_one_the_same_bytes(run: Path, tmp_path: Path) -> None:
    files = [p for p in run.iterdir() if p.suffix in (".png", ".pdf", ".md", ".html")]
    assert {f"{name}.png" for name in RUN if not name.startswith("table")} <= {p.name for p in files}
    assert {"table3.md", "table4.md", "report.html", "fig2.pdf"} <= {p.name for p in files}
    pages = []
    for directory in (tmp_path / "a", tmp_path / "b"):
        shutil.copytree(run / "store", directory / "store")
        outcome = reproduce(["fig2", "fig5", "table3"], directory, scale=SMALL, roster=Roster())
        assert outcome.computed == 0
        assert outcome.read > 0
        for name in ("fig2.png", "fig2.pdf", "fig5.png", "table3.md"):
            assert (directory / name).read_bytes() == (run / name).read_bytes(), name
        pages.append((directory / "report.html").read_bytes())
    assert pages[0] == pages[1]


def test_progress_ends_at_one_and_never_goes_back(tmp_path: Path) -> None:
    seen = []
    reproduce(["fig1", "table3"], tmp_path, scale=SMALL.limited(2, 2.0), roster=Roster(("gridworld",), METHODS[:3]),
              progress=seen.append)  # fmt: skip
    whole = [p.whole for p in seen]
    assert whole == sorted(whole)
    assert whole[-1] == pytest.approx(1.0)
    assert {p.target for p in seen} == {"fig1", "table3"}


def test_the_page_is_one_file_and_says_how_small_it_is(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Smaller than the paper" in page
    assert "3 trials" in page
    for outside in ('src="http', "url(http", "@import", '<link rel="stylesheet', "fetch(", "XMLHttpRequest"):
        assert outside not in page
    assert page.count('class="verdict"') > 15


def browser() -> str:
    found = next((p for name in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(name))), None)
    if found is None:
        pytest.skip("no chromium here: apt-get install chromium")
    return found


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_page_in_a_browser(run: Path, width: int, scheme: str) -> None:
    executable = browser()
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as p:
        chrome = p.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        page = chrome.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        errors: list[str] = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("request", lambda r: errors.append(r.url) if r.url.startswith("http") else None)
        page.goto(f"file://{run / 'report.html'}")
        page.wait_for_selector("html[data-ready=yes]", timeout=20_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out of a phone
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
        assert dark == (scheme == "dark")
        page.click("#theme")
        assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)") != dark

        data = json.loads(page.inner_text("#data") or page.evaluate("document.getElementById('data').textContent"))
        for section in data["sections"]:
            marks = page.evaluate(
                "name => [...document.querySelectorAll(`#charts-${name} svg`)].map(s => s.querySelectorAll('.mark').length)",
                section["name"],
            )
            assert len(marks) == len(section["charts"]), section["name"]
            assert all(m > 0 for m in marks), section["name"]
            assert "NaN" not in page.inner_html(f"#charts-{section['name']}")

        def drawn() -> int:
            return page.evaluate("document.querySelectorAll('#charts-fig2 .mark').length")

        everything = drawn()
        chip = page.locator("#legend-fig2 [data-key='ros/mc']")
        chip.click()
        assert chip.get_attribute("aria-pressed") == "false"
        assert drawn() < everything
        chip.click()
        assert drawn() == everything
        page.locator("#legend-fig2 .published-toggle").click()
        assert drawn() < everything
        chart = page.locator("#charts-fig2 svg").first
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = page.locator("#charts-fig2 .tip").first
        assert tip.is_visible()
        assert "environment steps" in tip.inner_text()

        page.locator("#duel").scroll_into_view_if_needed()
        counted = page.locator("#duel .side").nth(1).locator(".num").first
        before = counted.inner_text()
        page.wait_for_function(
            "t => document.querySelectorAll('#duel .side')[1].querySelector('.num').textContent !== t", arg=before
        )
        assert errors == []
        chrome.close()


# ---- claims --------------------------------------------------------------------------------------------------


def invented(target: Target, error: dict[str, float], trials: int = 200) -> Results:
    """Results in which a way to collect errs by a normal number times error[sampler]."""
    rng = np.random.default_rng(5)
    found = {}
    for work in target.wanted():
        known = resolve(work)
        spread = error[known.sampler.name]
        values = 1.0 + spread * rng.normal(size=(trials, len(known.columns), len(known.checkpoints)))
        found[work] = Trialled(work, BlockData(known.columns, known.checkpoints, values, np.zeros(trials, bool)))
    return Results(found)


@pytest.mark.parametrize(("ros", "verdict"), [(0.5, HOLDS), (2.0, FAILS), (1.0, UNDECIDED)])
def test_a_claim_can_hold_fail_and_be_undecided(ros: float, verdict: str) -> None:
    """Ratios of ¼ and 4 against 200 trials' ± 20 %: 10 standard errors; equal: undecided in at least one of 8 panels.
    The numbers are invented from a fixed seed, so nothing is left to chance."""
    target = targets(replace(QUICK, trials=200))["fig2"]
    judged = claims(Evidence({"fig2": target}, invented(target, {"os": 1.0, "bpg": 1.0, "auto": 1.0, "ros": ros})))
    assert judged[0].text.startswith("ROS lowers MSE")
    assert judged[0].verdict == verdict


@pytest.mark.parametrize("budget", [4.0, 32.0])
def test_small_budgets_have_claims_too(budget: float) -> None:
    """One about little data is left out, or undecided, where there is none to look at."""
    chosen = {name: t for name, t in targets(QUICK.limited(20, budget)).items() if name in ("fig4", "fig13")}
    found: dict[Work, Trialled] = {}
    for target in chosen.values():
        found |= invented(target, {"os": 1.0, "bpg": 1.0, "auto": 1.0, "ros": 0.5}, trials=20).found
    judged = {c.text: c.verdict for c in claims(Evidence(chosen, Results(found)))}
    assert any(text.startswith("CartPole: α = 100 needs") for text in judged) == (budget == 32.0)
    if budget < 32.0:
        assert next(v for text, v in judged.items() if text.startswith("Non-tabular")) == UNDECIDED


def test_other_methods_do_not_enter_claims_about_step_sizes() -> None:
    target = targets(QUICK.limited(20, 32.0), Roster(methods=(*METHODS, "os/score", "ros:alpha=5/mc")))["fig4"]
    found = invented(target, {"os": 1.0, "auto": 1.0, "ros": 0.5}, trials=20)
    larger = next(c for c in claims(Evidence({"fig4": target}, found)) if "a larger α gives" in c.text)
    assert [n.partition(" /")[0] for n in larger.numbers] == [f"ROS-MC, α = {10**i}" for i in range(5)]


def test_without_torch_a_long_run_is_refused_at_its_start(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EvenrollError, match="fig14 fits networks and needs torch"):
        reproduce(["fig2", "fig14"], tmp_path, scale=SMALL, roster=Roster())
    assert not (tmp_path / "store").exists()


def test_every_target_has_charts_and_claims() -> None:
    chosen = targets(replace(QUICK, trials=20, sweep_trials=20, fqe_trials=20))
    found: dict[Work, Trialled] = {}
    for target in chosen.values():
        found |= invented(target, {"os": 1.0, "bpg": 1.0, "auto": 1.0, "ros": 0.5}, trials=20).found
    judged = claims(Evidence(chosen, Results(found)))
    assert {c.target for c in judged} == set(NAMES) - {"fig5", "table3", "table4"}
    assert all(c.criterion and c.numbers for c in judged)
    for target in chosen.values():
        assert all(any(len(s.x) for s in chart.series) for chart in charts(target, Results(found))), target.name


def test_the_theory_is_judged_and_its_printed_bound_fails() -> None:
    target = targets()["theory"]
    verdicts = [(c.text.split(":")[0], c.verdict) for c in claims(Evidence({"theory": target}, Results({})))]
    assert [v for _, v in verdicts] == [HOLDS, HOLDS, HOLDS, HOLDS, FAILS, HOLDS]
    assert [len(c.series) > 1 for c in charts(target, Results({}))] == [True] * 5
    assert laws().counter_example[:2] == pytest.approx((4.0, 2.3548), abs=1e-3)


def test_ratios_carry_both_errors() -> None:
    ratio = Number(2.0, 0.2).over(Number(1.0, 0.1))
    assert ratio.value == 2.0
    assert np.log(ratio.high / ratio.value) == pytest.approx(1.96 * np.hypot(0.1, 0.1))
    assert np.isnan(Number(0.0, 0.0).over(Number(1.0, 0.1)).value)


# ---- command line --------------------------------------------------------------------------------------------


def test_command_line(run: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    rows = runner.invoke(app, ["results", str(run), "--json", "-"])
    assert json.loads(rows.output)["blocks"] == len(list(run.glob("store/??/*.parquet")))
    judged = runner.invoke(app, ["reproduce", "theory", "--out", str(tmp_path / "theory"), "--json", "-"])
    assert [c["verdict"] for c in json.loads(judged.output)["claims"]].count(FAILS) == 1
    listed = runner.invoke(app, ["reproduce", "--list"])
    assert listed.exit_code == 0
    assert "table3" in listed.output
    shown = runner.invoke(app, ["results", str(run), "--only", "bandit", "--export", str(tmp_path / "all.csv")])
    assert shown.exit_code == 0, shown.output
    rows = (tmp_path / "all.csv").read_text().splitlines()
    assert rows[0].replace('"', "").split(",")[:2] == ["domain", "method"]
    assert len(rows) > 100
    for kind in ("json", "parquet"):
        assert (
            runner.invoke(app, ["results", str(run), "--only", "os", "--export", str(tmp_path / f"x.{kind}")]).exit_code == 0
        )
    assert len(json.loads((tmp_path / "x.json").read_text())["rows"]) > 0
    with pytest.raises(Exception, match=r"\.csv, \.json or \.parquet"):
        runner.invoke(app, ["results", str(run), "--export", str(tmp_path / "x.txt")], catch_exceptions=False)
    with pytest.raises(Exception, match="no results store"):
        runner.invoke(app, ["results", str(tmp_path / "nowhere")], catch_exceptions=False)
    with pytest.raises(SpecError, match="say what to reproduce"):
        runner.invoke(app, ["reproduce"], catch_exceptions=False)


def test_an_interrupted_run_is_consistent_and_goes_on(tmp_path: Path) -> None:
    """SIGINT as Ctrl-C sends it: exit code 130, one line, whole files only; the same command then finishes."""
    command = [
        sys.executable,
        "-m",
        "evenroll",
        "reproduce",
        "fig12",
        "--out",
        str(tmp_path),
        "--trials",
        "30",
        "--budget",
        "100",
    ]

    def as_in_a_terminal() -> None:  # a shell's background jobs ignore SIGINT, and their children with them
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=as_in_a_terminal
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("store/??/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.strip() == "interrupted; the same command goes on where this one was"
    there = list(tmp_path.glob("store/??/*.parquet"))
    scale = FULL.limited(30, 100.0)
    wanted = sum(len(work.blocks(n)) for work, n in targets(scale)["fig12"].wanted().items())
    assert 0 < len(there) < wanted
    assert not [p for p in tmp_path.rglob("*") if p.name.startswith(".")]
    outcome = reproduce(["fig12"], tmp_path, scale=scale, roster=Roster())
    assert (outcome.read, outcome.computed) == (len(there), wanted - len(there))
