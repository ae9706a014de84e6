"""`make mutants`: plant twelve bugs, one after another, and see that the same fast part of the test suite catches each.

Every bug is planted in a copy of the sources with an empty compile cache; the working tree is never touched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUBSET = (  # quick ones first; what they must compile is what takes the time
    "tests/collection/test_rollouts.py::test_a_checkpoint_counts_what_has_ended_by_then",
    "tests/intervals/test_independent.py::test_student_t_and_binomial_against_scipy",
    "tests/collection/test_trial.py::test_trajectories_are_cut_discounted_and_counted_when_finished",
    "tests/collection/test_trial.py::test_trials_do_not_share_randomness",
    "tests/samplers/test_ros.py::test_behaviour_log_probabilities_are_those_of_theta_b",
    "tests/contract/test_samplers.py::test_columns_agree_with_each_other[ros-gridworld]",
    "tests/adapters/test_torch_module.py::test_batch_norm_keeps_its_statistics[features]",
    "tests/policies/test_mlp.py::test_score_equals_autograd[gaussian]",
)


@dataclass(frozen=True)
class Mutant:
    """A bug: `old`, which stands exactly once in `file`, becomes `new`."""

    name: str
    file: str  # in src/evenroll
    old: str
    new: str


MUTANTS = (
    Mutant("sign of α", "samplers/ros.py", "min(alpha / k, LARGEST)", "-min(alpha / k, LARGEST)"),
    Mutant("missing 1/k", "samplers/ros.py", "min(alpha / k, LARGEST)", "min(alpha, LARGEST)"),
    Mutant("swapped π_e/π_b", "collection/trial.py", "log_weight -= of_b - of_e", "log_weight += of_b - of_e"),
    Mutant(
        "one-sided quantile",
        "intervals/independent.py",
        "stats.t.ppf(0.5 + confidence / 2, freedom)",
        "stats.t.ppf(confidence, freedom)",
    ),
    Mutant("off-by-one horizon", "collection/trial.py", "if over == 1 or t >= horizon:", "if over == 1 or t > horizon:"),
    Mutant(
        "unfinished trajectories counted",
        "collection/trial.py",
        "if over == 1 or t >= horizon:",
        "if over == 1 or t >= horizon or steps == max_steps:",
    ),
    Mutant(
        "wrong γ power",
        "collection/trial.py",
        "        total += discount * gain\n        discount *= gamma\n",
        "        discount *= gamma\n        total += discount * gain\n",
    ),
    Mutant(
        "stale S",  # the sum moves on at every second step only
        "samplers/ros.py",
        "add_score(policy, obs, action, 1.0, sampler.vectors)",
        "add_score(policy, obs, action, Memory(sampler.memory).k % 2.0, sampler.vectors)",
    ),
    Mutant(
        "σ not squared",
        "policies/heads.py",
        "total -= 0.5 * z * z + math.log(scale) + LOG_SQRT_2PI",
        "total -= 0.5 * z * z * scale + math.log(scale) + LOG_SQRT_2PI",
    ),
    Mutant(
        "RNG shared between trials",
        "collection/balance.py",
        "stream(*seed, 0)",
        "stream(*seed[:1], 0)",
    ),
    Mutant("checkpoint off by one", "collection/rollouts.py", 'side="right"', 'side="left"'),
    Mutant("BN statistics adapted", "adapters/torch_module.py", "        module.eval()\n", "        module.train()\n"),
)


def caught(copy: Path) -> tuple[str | None, float]:
    """The first test that fails in the copy (None: all pass) and the seconds it took, with nothing compiled beforehand."""
    cache = copy / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    env = {**os.environ, "PYTHONPATH": str(copy / "src"), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    started = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *SUBSET]
    run = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if run.returncode == 0:
        return None, seconds
    failed = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if run.returncode != 1 or not failed:  # not a test that fails: pytest could not run
        raise SystemExit(f"the subset does not run:\n{run.stdout[-3000:]}{run.stderr[-1000:]}")
    return failed[0], seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Example: python tools/mutants.py --only 'stale S'")
    parser.add_argument("--only", metavar="NAME", choices=[m.name for m in MUTANTS], help="plant this bug alone")
    chosen = [m for m in MUTANTS if parser.parse_args().only in (None, m.name)]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        copy = Path(directory)
        for name in ("src", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        failed, seconds = caught(copy)
        if failed is not None:
            print(f"without any bug {failed} fails: nothing can be learnt", file=sys.stderr)
            return 1
        print(f"{'no bug':32} all pass   {seconds:5.0f} s", flush=True)
        for mutant in chosen:
            path = copy / "src" / "evenroll" / mutant.file
            sound = path.read_text()
            if sound.count(mutant.old) != 1:
                print(f"{mutant.name}: its text does not stand exactly once in {mutant.file}", file=sys.stderr)
                return 1
            path.write_text(sound.replace(mutant.old, mutant.new))
            failed, seconds = caught(copy)
            path.write_text(sound)
            survivors += failed is None
            print(
                f"{mutant.name:32} {'SURVIVES' if failed is None else 'caught  '}   {seconds:5.0f} s   {failed or ''}",
                flush=True,
            )
    print(f"{len(chosen) - survivors} of {len(chosen)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
