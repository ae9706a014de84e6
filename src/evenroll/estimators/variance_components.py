"""How much of the returns' variance lies in the actions and in the starts, whether or not anything about them can be learnt.

A regression finds as much as n episodes teach it. How much there *is* can be told from less: in genomics the share of a
trait's variance that all markers explain together is estimated without knowing the effect of a single one (Haseman and
Elston 1972; Yang et al. 2010). Let c_i = Σ_t γᵗ score ⊗ ψ be the luck of episode i's actions, as the regression sees it, and
f_i the features of its start, both in units in which they vary by 1 in every direction. Then for i ≠ j

    E[G_i G_j] = σ_a² K_ij + σ_s² L_ij,    K = c cᵀ,  L = f fᵀ,    G centred,

on average over such pairs, because the environment's noise of two episodes has nothing in common. So the products of the
returns are regressed on the two kernels, and σ_a² · mean(K_ii) / Var(G) is the share of the actions. In other units it would
be right only if the unknown weights were equally likely in any direction, which advantages are not: it was 0.09 instead of
0.18 on the bandit and 1.4 instead of 0.9 on CartPole. The units of c are known from single steps, whose scores have nothing
in common either; those of f, from all resets. The scores of a network are brought to these units one by one, which is exact
for two actions and for Gaussians; with three and more the share may be a fifth too large or a third too small. It is the
share of what is linear in these features; what the actions do in other ways counts as the environment's noise. The standard
errors are those of the jackknife over groups of episodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.estimators.action_part import Steps
from evenroll.estimators.start_part import Starts, starts_of
from evenroll.estimators.step_features import hidden_and_scores, step_features
from evenroll.policies import MLP, External, Policy, TabularSoftmax

MOST, MOST_STEPS = 512, 50_000  # episodes and steps that are looked at: there are as many pairs as the episodes' square
FEWEST = 8  # episodes that are looked at however long they are
GROUPS = 16  # of the jackknife
HELD = 1e-3  # of the mean variance is added in every direction, so that those that hardly vary do not make noise; a choice
MOST_CELLS = 20_000  # of a table, states that were met times actions


@dataclass(frozen=True)
class Component:
    """A share of the returns' variance, not cut off at 0 or 1, and its standard error."""

    share: float
    error: float


@dataclass(frozen=True)
class Components:
    """The shares of the actions and of the starts; None where there is no kernel to tell by."""

    actions: Component | None
    starts: Component | None


def variance_components(rollouts: Rollouts, policy: Policy | None) -> Components:
    """The shares that the products of the returns suggest."""
    n = min(rollouts.episodes, MOST, max(int(np.searchsorted(rollouts.ends, MOST_STEPS)), FEWEST))
    part = rollouts if n == rollouts.episodes else rollouts.prefix(int(rollouts.ends[n - 1]) - rollouts.initial_steps)
    kernels = {"actions": _action_kernel(part, policy), "starts": _start_kernel(starts_of(part))}
    there = {name: kernel for name, kernel in kernels.items() if kernel is not None}
    found = shares(part.returns, list(there.values()))
    known = dict(zip(there, found, strict=True))
    return Components(known.get("actions"), known.get("starts"))


def shares(values: np.ndarray, kernels: list[np.ndarray]) -> list[Component]:
    """The share of each kernel in the variance of some values [n], by regression of their products on the kernels [n, n]."""
    n = len(values)
    y = values - values.mean()
    total = float(y @ y) / (n - 1)
    if total <= 0.0 or not kernels:
        return [Component(0.0, math.inf) for _ in kernels]
    group = np.arange(n) % min(GROUPS, n)
    i, j = np.triu_indices(n, 1)
    X = np.stack([np.ones(len(i)), *(kernel[i, j] for kernel in kernels)], axis=1)
    z = y[i] * y[j] / total
    scale = np.array([kernel.diagonal().mean() for kernel in kernels])
    H, g = X.T @ X, X.T @ z
    whole = _slopes(H, g) * scale
    parts = []
    for k in range(int(group.max()) + 1):
        mine = (group[i] == k) | (group[j] == k)
        parts.append(_slopes(H - X[mine].T @ X[mine], g - X[mine].T @ z[mine]) * scale)
    spread = np.array(parts) - np.mean(parts, axis=0)
    errors = np.sqrt((len(parts) - 1) / len(parts) * np.square(spread).sum(axis=0))
    return [Component(float(a), float(b)) for a, b in zip(whole, errors, strict=True)]


def _slopes(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.lstsq(H, g, rcond=1e-10)[0][1:])


def _centred(kernel: np.ndarray) -> np.ndarray | None:
    """The kernel of centred features, in units of its mean diagonal; None if nothing varies."""
    kernel = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    scale = float(kernel.diagonal().mean())
    return kernel / scale if scale > 0.0 and math.isfinite(scale) else None


def _action_kernel(rollouts: Rollouts, policy: Policy | None) -> np.ndarray | None:
    if policy is None or rollouts.observations is None:
        return None
    steps = Steps(rollouts, 1)
    if isinstance(policy, TabularSoftmax):
        return _table_kernel(steps, policy.table)
    assert isinstance(policy, MLP | External)
    hidden, scores = hidden_and_scores(policy, steps)
    psi, _ = step_features(steps, hidden)
    starts = np.concatenate([[0], steps.ends[:-1]])
    kernel = np.zeros((steps.n, steps.n))
    for c in range(scores.shape[1]):
        luck = psi * scores[:, c : c + 1].astype(np.float32)
        sums = np.add.reduceat(luck, starts, axis=0).astype(np.float64)
        kernel += sums @ _inverse((luck.T @ luck).astype(np.float64) / steps.n) @ sums.T
    return _centred(kernel)


def _table_kernel(steps: Steps, pi: np.ndarray) -> np.ndarray | None:
    """The kernel of x_i(s, a) = Σ_t γᵗ (1[a_t = a] − π(a|s)) over the steps in state s."""
    met, state = np.unique(steps.states, return_inverse=True)
    actions = pi.shape[1]
    if len(met) * actions > MOST_CELLS:
        return None
    x = np.zeros((steps.n, len(met), actions))
    np.add.at(x, (steps.episode, state, steps.choices), steps.discount)
    x -= x.sum(axis=2, keepdims=True) * pi[met]
    squares = np.bincount(state, np.square(steps.discount), minlength=len(met)) / steps.n
    variance = squares[:, None] * pi[met]  # the variance of x is diag(this) but for a part that no x has
    held = HELD * float(variance.mean())
    if not held > 0.0:
        return None
    flat = (x / np.sqrt(variance + held)).reshape(steps.n, -1)
    return _centred(flat @ flat.T)


def _inverse(variance: np.ndarray) -> np.ndarray:
    """The inverse of a covariance matrix, held back in directions of little variance; zeros if nothing varies."""
    held = HELD * float(variance.trace()) / len(variance)
    if not 0.0 < held < math.inf:
        return np.zeros_like(variance)
    return np.asarray(np.linalg.inv(variance + held * np.eye(len(variance))))


def _start_kernel(starts: Starts | None) -> np.ndarray | None:
    if starts is None:
        return None
    own, more = starts.sets[-1]  # the largest set of features; it has the others in it
    return _centred(own @ _inverse(more.T @ more / len(more)) @ own.T)
