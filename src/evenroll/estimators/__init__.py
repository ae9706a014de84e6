"""Estimators are plain functions of rollouts; the fits that several of them share live here too.

This package may import collection (the rollouts), policies and engine.
"""

from evenroll.estimators.table import ESTIMATORS, Estimator, get_estimator

__all__ = ["ESTIMATORS", "Estimator", "get_estimator"]
