"""evenroll: what a policy is worth, from fewer environment steps.

import evenroll
print(evenroll.evaluate("cartpole", episodes=500))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenroll.envs.registration import register as _register

__version__ = "0.1.0"

# Names are loaded on first use: `import evenroll` and `evenroll --help` stay fast.
_WHERE = {
    "evaluate": "evaluation",
    "Evaluation": "evaluation",
    "compare": "study",
    "Comparison": "study",
    "get_domain": "domains",
    "Domain": "domains",
    "Driver": "collect",
    "Collector": "collector",
    "evaluate_policy": "drop_in",
    "load_rollouts": "datasets",
    "save_rollouts": "datasets",
    "save_minari": "datasets",
    "diagnose": "diagnosis",
    "difference": "paired",
    "Difference": "paired",
    "load_sb3": "policies.sb3_zip",
    "Rollouts": "rollouts",
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
}

__all__ = sorted(_WHERE)

if TYPE_CHECKING:
    from evenroll.collect import Driver
    from evenroll.collector import Collector
    from evenroll.datasets import load_rollouts, save_minari, save_rollouts
    from evenroll.diagnosis import diagnose
    from evenroll.domains import Domain, get_domain
    from evenroll.drop_in import evaluate_policy
    from evenroll.errors import EvenrollError
    from evenroll.evaluation import Evaluation, evaluate
    from evenroll.paired import Difference, difference
    from evenroll.policies import MLP, Policy, TabularSoftmax, epsilon_greedy, load_policy, save_policy
    from evenroll.policies.sb3_zip import load_sb3
    from evenroll.rollouts import Rollouts
    from evenroll.samplers import BPG, ROS, Auto, OffPolicy, OnPolicy, Sampler
    from evenroll.study import Comparison, compare


_register()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'evenroll' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"evenroll.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
