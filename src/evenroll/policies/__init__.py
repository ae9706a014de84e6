"""Policies: a table, a network of ours, or a network that runs elsewhere; the distributions of actions; policy files.

This package may import engine and files.
"""

from evenroll.policies.base import Policy
from evenroll.policies.external import External
from evenroll.policies.mlp import MLP
from evenroll.policies.policy_files import load_policy, policy_digest, save_policy
from evenroll.policies.tabular import TabularSoftmax, epsilon_greedy

__all__ = ["MLP", "External", "Policy", "TabularSoftmax", "epsilon_greedy", "load_policy", "policy_digest", "save_policy"]
