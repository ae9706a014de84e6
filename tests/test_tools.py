"""The long measurements in tools/ can be started: what they import from the package is still there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.mark.parametrize("name", sorted(path.stem for path in TOOLS.glob("*.py")))
def test_a_tool_finds_what_it_imports(name: str) -> None:
    for other in ("stable_baselines3", "sb3_contrib", "mujoco"):
        pytest.importorskip(other)
    if name == "docs_pages":
        pytest.importorskip("mkdocs", reason="make docs installs it")
    importlib.import_module(f"tools.{name}")


@pytest.mark.parametrize(("task", "options"), [("CartPole-v1", {"sampler": "os"}), ("Pendulum-v1", {"carry_over": 1})])
def test_quick_ppo_makes_the_steps_of_stable_baselines3(task: str, options: dict[str, Any]) -> None:
    """After an update of 40 minibatches weights that moved by up to 0.05 agree to the rounding of single precision."""
    pytest.importorskip("stable_baselines3")
    from evenroll.sb3 import BalancedPPO
    from tools.quick_ppo import QuickBalancedPPO

    given: dict[str, Any] = {"n_steps": 256, "seed": 3, "device": "cpu", **options}
    found = []
    for kind in (BalancedPPO, QuickBalancedPPO):
        model = kind("MlpPolicy", task, **given)
        before = [p.detach().numpy().copy() for p in model.policy.parameters()]
        model.learn(256)
        found.append([p.detach().numpy() for p in model.policy.parameters()])
    assert max(np.abs(a - b).max() for a, b in zip(before, found[0], strict=True)) > 0.01
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6, rtol=1e-4)


def test_a_run_of_some_targets_replaces_their_claims_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that were decided in different runs stand in one table, each as its own run left it."""
    from tools import results_page

    page = tmp_path / "results.md"
    page.write_text(
        "<!-- claims: written by tools/results_page.py -->\n\nold words\n\n"
        "| | claim | | numbers |\n|---|---|---|---|\n"
        "| fig2 | One \\| other. | *cannot tell* | Bandit: 1 |\n| fig3 | Another. | holds | Bandit: 2 |\n\n"
        "<!-- end of claims -->\n\nAfterwards.\n"
    )
    monkeypatch.setattr(results_page, "PAGE", page)
    added = {"name": "Bandit", "value": 0.5, "low": 0.4, "high": 0.6, "trials": [400], "confidence": 0.99}
    one = {
        "target": "fig2",
        "text": "One | other.",
        "verdict": "holds",
        "numbers": ["Bandit: 1"],
        "note": "Decided.",
        "added": [added],
    }
    (tmp_path / "outcome.json").write_text(json.dumps({"claims": [one]}))
    results_page.main(str(tmp_path))
    text = page.read_text()
    assert (
        "| fig2 | One \\| other. | holds | Bandit: 1<br>*Decided.*<br>Bandit: 0.5 [0.4, 0.6] (99.00 %), 400 trials |\n"
        in text
    )
    assert "| fig3 | Another. | holds | Bandit: 2 |\n" in text
    assert "2 hold, 0 do not, 0 cannot be told." in text
    assert "old words" not in text
    assert text.endswith("Afterwards.\n")


def test_the_page_of_gains_has_the_tables_of_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools import gains_page

    page = tmp_path / "gains.md"
    page.write_bytes(gains_page.PAGE.read_bytes())
    monkeypatch.setattr(gains_page, "PAGE", page)
    gains_page.main(str(TOOLS.parent / "docs" / "data" / "how_good.json"))
    assert page.read_text(encoding="utf-8") == (TOOLS.parent / "docs" / "gains.md").read_text(encoding="utf-8")


def test_the_page_of_coverage_has_the_tables_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run, because every row is there."""
    from tools import coverage_page

    page = tmp_path / "page.md"
    page.write_bytes(coverage_page.PAGE.read_bytes())
    before = page.read_text(encoding="utf-8")
    monkeypatch.setattr(coverage_page, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["coverage_page", str(TOOLS.parent / "docs" / "data" / "coverage")])
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("a row is missing"))
    coverage_page.main()
    assert page.read_text(encoding="utf-8") == before


def test_the_geometric_mean_has_the_error_of_its_logarithm() -> None:
    """Two tasks of 0.5 ± 0.05 and 0.125 ± 0.025: √(0.5 · 0.125) = 0.25, and 0.25 / 2 · √(0.1² + 0.2²) = 0.028."""
    from tools.gains_page import mean_of_ratios

    records = {
        (task, 64, "score"): {"ratio": ratio, "ratio_se": error}
        for task, ratio, error in (("a", 0.5, 0.05), ("b", 0.125, 0.025))
    }
    assert mean_of_ratios(records, ["a", "b"], 64, "score") == "0.250 ± 0.028"
