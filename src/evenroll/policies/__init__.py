"""Policies: tabular softmax and feed-forward networks, their files, ε-greedy."""

from evenroll.policies.base import Policy
from evenroll.policies.files import load_policy, policy_digest, save_policy
from evenroll.policies.mlp import MLP
from evenroll.policies.outside import Outside
from evenroll.policies.tabular import TabularSoftmax, epsilon_greedy

__all__ = ["MLP", "Outside", "Policy", "TabularSoftmax", "epsilon_greedy", "load_policy", "policy_digest", "save_policy"]
