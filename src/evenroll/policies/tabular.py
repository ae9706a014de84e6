"""A policy that is a table: a softmax over a table of logits, π(a|s) ∝ exp θ[s, a]."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenroll.engine import border
from evenroll.engine.pieces import FUSED, Floats, Piece, Reals, piece, shift
from evenroll.errors import PolicyError
from evenroll.policies.base import Policy
from evenroll.policies.distributions import Categorical
from evenroll.policies.heads import CATEGORICAL, softmax
from evenroll.policies.interface import ADD_SCORE, FEATURES, FORWARD, FORWARD_E, PREPARE, PolicyView, out_b


class TabularSoftmax(Policy):
    """A table of logits [states, actions], float64. A logit of −inf means an action never taken (ε-greedy with ε = 0)."""

    def __init__(self, logits: Any) -> None:
        table = np.array(border.numbers("logits", logits, PolicyError), dtype=np.float64)
        if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 2:
            raise PolicyError(f"logits must be [states, actions] with at least 2 actions, not shape {table.shape}")
        if np.isnan(table).any() or (table == np.inf).any() or not np.isfinite(table).any(axis=1).all():
            raise PolicyError("logits must be finite (or −inf for actions never taken, but not for all of a state)")
        self.n_states, actions = table.shape
        self.n_actions, self.action_dim, self.obs_dim = actions, 1, 1
        self.theta = table.ravel()
        self.aux = self.distribution.probabilities(table).ravel()
        self.dims = np.array([actions, 1, table.size, self.n_states], dtype=np.int64)
        self.work_size = 1

    @classmethod
    def from_probabilities(cls, probabilities: Any) -> TabularSoftmax:
        """The policy with these probabilities [states, actions]; rows sum to 1."""
        table = border.numbers("probabilities", probabilities, PolicyError).astype(np.float64)
        if table.ndim != 2 or (table < 0).any() or not np.allclose(table.sum(axis=-1), 1.0, atol=1e-9):
            raise PolicyError("probabilities must be non-negative and sum to 1 in every state")
        with np.errstate(divide="ignore"):
            return cls(np.log(table))

    @property
    def logits(self) -> np.ndarray:
        return self.theta.reshape(self.n_states or 0, -1)

    @property
    def table(self) -> np.ndarray:
        """π(a|s), [states, actions]."""
        return self.aux.reshape(self.n_states or 0, -1)

    @property
    def distribution(self) -> Categorical:
        return Categorical((self.n_actions or 0,))

    def parameters_of_actions(self, observations: np.ndarray) -> np.ndarray:
        """The logits [N, actions] of the states whose numbers are the observations [N, 1]."""
        return np.asarray(self.logits[self.checked_observations(observations)[:, 0].astype(np.int64)])

    def pieces(self) -> dict[str, Piece]:
        own = {
            "forward": forward_table,
            "forward_e": forward_e_table,
            "add_score": add_score_table,
            "prepare": prepare_table,
            "features": features_table,
        }
        return own | CATEGORICAL


def epsilon_greedy(greedy: Any, n_actions: int, epsilon: float) -> TabularSoftmax:
    """With probability 1 − ε the greedy action of each state, else one uniformly at random (sensitivity study)."""
    if not 0.0 <= epsilon <= 1.0:
        raise PolicyError(f"epsilon must lie in [0, 1], not {epsilon}")
    best = border.rows("the greedy actions", np.reshape(greedy, (-1, 1)), 1, PolicyError)
    best = border.places("a greedy action", best, (n_actions,), PolicyError)[:, 0].astype(np.int64)
    table = np.full((len(best), n_actions), epsilon / n_actions)
    table[np.arange(len(best)), best] += 1.0 - epsilon
    return TabularSoftmax.from_probabilities(table)


@piece(FORWARD, fastmath=FUSED)
def forward_table(policy: PolicyView, vector: Reals, c: float, obs: Floats) -> None:
    n = policy.sizes.outputs
    row = int(obs[0]) * n
    theta = shift(policy.theta, row)
    behavior = out_b(policy)
    if c == 0.0:
        for i in range(n):
            policy.out[i] = theta[i]
            behavior[i] = theta[i]
    else:
        v = shift(vector, row)
        for i in range(n):
            policy.out[i] = theta[i]
            behavior[i] = theta[i] - c * v[i]


@piece(FORWARD_E)
def forward_e_table(policy: PolicyView, obs: Floats) -> None:
    n = policy.sizes.outputs
    theta, behavior = shift(policy.theta, int(obs[0]) * n), out_b(policy)
    for i in range(n):
        policy.out[i] = theta[i]
        behavior[i] = theta[i]


@piece(ADD_SCORE)
def add_score_table(policy: PolicyView, obs: Floats, action: Floats, weight: float, vector: Reals) -> None:
    """∂ log π(a|s) / ∂θ[s, ·] = 1{a} − π(·|s), and `aux` holds π."""
    n = policy.sizes.outputs
    row = int(obs[0]) * n
    pi, v = shift(policy.aux, row), shift(vector, row)
    for i in range(n):
        v[i] -= weight * pi[i]
    v[int(action[0])] += weight


@piece(FEATURES)
def features_table(policy: PolicyView, weight: float, psi: Reals) -> None:
    """ψ = [1]: every state's logits are parameters of this state alone."""
    psi[0] = weight


@piece(PREPARE)
def prepare_table(policy: PolicyView) -> None:
    n = policy.sizes.outputs
    for s in range(policy.sizes.inputs):
        softmax(n, shift(policy.theta, s * n), shift(policy.aux, s * n))
