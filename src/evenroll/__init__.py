"""evenroll: what a policy is worth, from fewer environment steps.

import evenroll
print(evenroll.evaluate("cartpole", episodes=500))
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any


def _is_command() -> bool:
    """Whether this process was started as `evenroll …` or `python -m evenroll …`."""
    started, words = (getattr(sys, "argv", None) or [""])[0], sys.orig_argv
    if started == "-m":
        return "evenroll" in [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-m"]
    return os.path.basename(started) == "evenroll" and started in words


if _is_command():  # loading what follows takes a while, in which Ctrl-C shall end the command without a traceback
    if sys.argv[0] == "-m" and not sys.flags.safe_path:  # Python has put the current directory before all packages
        sys.path.append(sys.path.pop(0))
    from evenroll.cli.signals import exit_at_once

    exit_at_once()

from evenroll.domains.registration import register as _register  # noqa: E402

__version__ = "0.2.0"

# Names are loaded on first use: `import evenroll` and `evenroll --help` stay fast.
_WHERE = {
    "evaluate": "evaluation.evaluate",
    "Evaluation": "evaluation.result",
    "plan": "evaluation.plan",
    "Plan": "evaluation.plan",
    "compare": "study",
    "Comparison": "study",
    "coverage_table": "study.coverage",
    "Coverage": "study.coverage",
    "Method": "study.method",
    "Estimator": "estimators",
    "get_domain": "domains.catalogue",
    "Domain": "domains.domain",
    "tabular_domain": "domains.tabular",
    "Driver": "collection.trial",
    "Collector": "evaluation.collector",
    "evaluate_policy": "sb3.evaluation",
    "as_rollouts": "collection.given_data",
    "load_rollouts": "collection.rollout_files",
    "save_rollouts": "collection.rollout_files",
    "save_minari": "collection.rollout_files",
    "diagnose": "evaluation.diagnosis",
    "difference": "evaluation.difference",
    "Difference": "evaluation.difference_result",
    "gate": "evaluation.gate",
    "best": "evaluation.race",
    "Race": "evaluation.race",
    "load_sb3": "adapters.sb3_zip",
    "LatentNoise": "adapters.latent_noise",
    "Rollouts": "collection.rollouts",
    "Policy": "policies",
    "TabularSoftmax": "policies",
    "MLP": "policies",
    "epsilon_greedy": "policies",
    "load_policy": "policies",
    "save_policy": "policies",
    "Sampler": "samplers",
    "Auto": "samplers",
    "OnPolicy": "samplers",
    "ROS": "samplers",
    "BPG": "samplers",
    "OffPolicy": "samplers",
    "EvenrollError": "errors",
    "Interrupted": "errors",
}

__all__ = sorted(_WHERE)

if TYPE_CHECKING:
    from evenroll.adapters.latent_noise import LatentNoise
    from evenroll.adapters.sb3_zip import load_sb3
    from evenroll.collection.given_data import as_rollouts
    from evenroll.collection.rollout_files import load_rollouts, save_minari, save_rollouts
    from evenroll.collection.rollouts import Rollouts
    from evenroll.collection.trial import Driver
    from evenroll.domains.catalogue import get_domain
    from evenroll.domains.domain import Domain
    from evenroll.domains.tabular import tabular_domain
    from evenroll.errors import EvenrollError, Interrupted
    from evenroll.estimators import Estimator
    from evenroll.evaluation.collector import Collector
    from evenroll.evaluation.diagnosis import diagnose
    from evenroll.evaluation.difference import difference
    from evenroll.evaluation.difference_result import Difference
    from evenroll.evaluation.evaluate import evaluate
    from evenroll.evaluation.gate import gate
    from evenroll.evaluation.plan import Plan, plan
    from evenroll.evaluation.race import Race, best
    from evenroll.evaluation.result import Evaluation
    from evenroll.policies import MLP, Policy, TabularSoftmax, epsilon_greedy, load_policy, save_policy
    from evenroll.samplers import BPG, ROS, Auto, OffPolicy, OnPolicy, Sampler
    from evenroll.sb3.evaluation import evaluate_policy
    from evenroll.study import Comparison, compare
    from evenroll.study.coverage import Coverage, coverage_table
    from evenroll.study.method import Method


_register()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenroll' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"evenroll.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
