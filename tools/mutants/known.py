"""Bugs that somebody thought of. Every one of them must be caught.

`MUTANTS` are twelve slips in the numerical core, caught by one fast subset of the tests (`SUBSET`). `SEAMS` are bugs at the
seams that the tests of 0.1.0 did not see: each is caught by the tests of its module, or by those named with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.mutants.bug import PACKAGE, Bug
from tools.mutants.places import files_for

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
    tests: tuple[str, ...] = ()

    def bug(self) -> Bug:
        text = (PACKAGE / self.file).read_bytes()
        if text.count(self.old.encode()) != 1:
            raise SystemExit(f"{self.name}: its text does not stand exactly once in {self.file}")
        start = text.index(self.old.encode())
        return Bug(self.file, start, start + len(self.old.encode()), self.new.encode(), "known")

    def places(self) -> tuple[str, ...]:
        return self.tests or (SUBSET if self in MUTANTS else files_for(self.file.removesuffix(".py")))


MUTANTS = (
    Mutant("sign of α", "samplers/ros.py", "min(alpha / k, LARGEST)", "-min(alpha / k, LARGEST)"),
    Mutant("missing 1/k", "samplers/ros.py", "min(alpha / k, LARGEST)", "min(alpha, LARGEST)"),
    Mutant("swapped π_e/π_b", "collection/trial.py", "log_weight -= of_b - of_e", "log_weight += of_b - of_e"),
    Mutant(
        "one-sided quantile",
        "intervals/independent.py",
        "special.stdtrit(freedom, 0.5 + confidence / 2)",
        "special.stdtrit(freedom, confidence)",
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

SEAMS = (
    Mutant(
        "a verdict without significance", "study/ratios.py", "HOLDS if ratio.high < bound", "HOLDS if ratio.value < bound"
    ),
    Mutant("every look as if it were the only one", "study/spending.py", "(WRONG - FIRST) / DOUBLINGS", "FIRST"),
    Mutant(
        "a look at all trials there are",
        "study/deciding.py",
        "{work: collected[work].first(n) for",
        "{work: collected[work] for",
    ),
    Mutant("theory without its square", "study/results.py", "steps * truth.value**2", "steps * truth.value"),
    Mutant(
        "initial data from the trial's own action stream",
        "study/trials.py",
        "OffPolicy(delta), (*seed, 3),",
        "OffPolicy(delta), seed,",
    ),
    Mutant("exported trials without their block's first", "study/store.py", 'who["first"] + t,', "t,"),
    Mutant(
        "BCa and Bernstein on dependent data",
        "intervals/balanced.py",
        '(estimator == "ois" and (independent or kind == "t"))',
        '(estimator == "ois")',
    ),
    Mutant(
        "observed states not shifted", "adapters/spaces.py", "rows - self.start, (self.n_states,)", "rows, (self.n_states,)"
    ),
    Mutant("states shown to a network not shifted", "adapters/modules.py", "observations.start + np.arange(", "np.arange("),
    Mutant(
        "states shown to a function not shifted", "adapters/functions.py", "observations.start + np.arange(", "np.arange("
    ),
    Mutant(
        "states in Minari files not shifted",
        "collection/minari_files.py",
        "np.append(seen, final, axis=0) + observations.start",
        "np.append(seen, final, axis=0)",
    ),
    Mutant("every lane ends as lane 0", "collection/recorder.py", "self.stepper.end(lane)", "self.stepper.end(0)"),
    Mutant("γᵗ dropped from late", "samplers/auto_table.py", "late[i] += discount * t * x[i]", "late[i] += t * x[i]"),
    Mutant("variance over n instead of n − 1", "samplers/auto_network.py", "(1.0 - same) / (n - 1)", "(1.0 - same) / n"),
    Mutant(
        "Adam's moments kept at φ ← θ",
        "samplers/props.py",
        "phi[i], mean[i], square[i] = policy.theta[i], real(0.0), real(0.0)",
        "phi[i] = policy.theta[i]",
    ),
    Mutant(
        "the tally is not saved",
        "collection/lanes.py",
        '            "tally": balance.tally_array,\n',
        "",
        ("tests/collection/test_saving.py",),
    ),
    Mutant(
        "the final observation is ignored",
        "adapters/vector_environments.py",
        'infos.get("final_obs", observations)',
        "observations",
    ),
)
