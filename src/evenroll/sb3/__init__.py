"""Drop-in replacements for Stable-Baselines3's evaluation, callbacks and learning. This package may import evaluation.

from evenroll.sb3 import BalancedA2C, BalancedPPO, EvalCallback, evaluate_policy, export_normalization
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenroll.sb3.callbacks import EvalCallback
    from evenroll.sb3.evaluation import evaluate_policy
    from evenroll.sb3.learning import BalancedA2C, BalancedPPO
    from evenroll.sb3.normalization import export_normalization

__all__ = ["BalancedA2C", "BalancedPPO", "EvalCallback", "evaluate_policy", "export_normalization"]


def __getattr__(name: str) -> Any:
    """Import each name when it is asked for, because `evaluate_policy` must also work where callbacks cannot be imported."""
    import importlib

    module_of = {
        "BalancedA2C": "learning", "BalancedPPO": "learning", "EvalCallback": "callbacks", "evaluate_policy": "evaluation",
        "export_normalization": "normalization",
    }  # fmt: skip
    if name not in module_of:
        raise AttributeError(f"module 'evenroll.sb3' has no attribute {name!r}")
    return getattr(importlib.import_module(f"evenroll.sb3.{module_of[name]}"), name)
