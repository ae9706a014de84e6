"""The part of a return that is luck with actions, learnt from the steps and taken out of each episode.

G − v = [start state] + Σ_t γᵗ A(s_t, a_t) + [environment noise]. A martingale control variate removes the middle term:

    C_i = Σ_t γᵗ Â(s_t, a_t),   Â(s, ·) = Σ_j w_j · score_j(s, ·),   so that  Σ_a π_e(a|s) Â(s, a) = 0 for any weights w.

Regressing whole returns on the D summed scores X_i finds w from n episodes; its intercept is biased by E[leverage ·
residual] (long episodes have both), one to five standard errors at n = 512 (docs/intervals.md). Here w comes from the
N ≫ n steps instead, and from *other* episodes than the one it is used on (cross-fitting): what an episode did cannot
have shaped its own correction, and the residuals are honest out-of-sample ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import NoEstimate
from evenroll.policies import MLP, External, Policy, TabularSoftmax

FOLDS = 10
CHUNK = 2048  # steps
RIDGE = 1e-2  # of the mean squared (standardised) feature; 1e-3 … 5e-2 leave residuals within 5 % of each other
LONGEST_FOR_PRODUCTS = 8  # observations up to this long enter with all their products
MEDIAN_OF_CHI_SQUARE = 0.4549  # of one degree of freedom
ROUNDING = 1e-9  # residuals below this share of the largest return are rounding errors


@dataclass(frozen=True)
class ScoreRegression:
    """Returns regressed on the cross-fitted action part C:  G_i = value + slope · C_i + residual_i.

    value      the intercept: the estimate of v with the luck of the actions taken out
    error      its standard error, `freedom` its degrees of freedom
    imbalance  slope · mean(C): how much the plain mean of the returns owes to unbalanced actions
    unseen     expected takings per episode of a table's actions that all but one fold lack: their worth is not known
    exact      a table whose model explains every return to rounding error
    explained  share of the returns' variance that C explains: what balancing can remove, as far as the scores see it
    """

    value: float
    error: float
    freedom: int
    imbalance: float
    unseen: float
    exact: bool = False
    explained: float = 1.0


def score_regression(rollouts: Rollouts, policy: Policy) -> ScoreRegression:
    """One slope for the whole control variate: where Â is mostly noise (few episodes) it tends to 0, and C does no harm."""
    n = rollouts.episodes
    if n < 3:
        raise NoEstimate(f"a regression needs at least 3 finished trajectories, not {n}")
    exact = _exact_fit(rollouts, policy) if isinstance(policy, TabularSoftmax) else None
    if exact is not None:
        return exact
    return regress(rollouts.returns, [action_part(rollouts, policy)])


def regress(values: np.ndarray, parts: Sequence[ActionPart]) -> ScoreRegression:
    """values [n] on action parts X, a slope for each: s² = RSS/(n − 1 − parts) · (1/n + m·(XᵀX)⁻¹m), m the parts' means."""
    n = len(values)
    X = np.stack([part.apart - part.apart.mean() for part in parts], axis=1)
    m = np.array([part.mean for part in parts])
    power = X.T @ X
    inverse = np.linalg.pinv(power, hermitian=True) if power.any() else power
    slope = inverse @ (X.T @ values)
    residual = values - values.mean() - X @ slope
    freedom = n - 1 - len(parts)
    imbalance, variance = float(slope @ m), float(residual @ residual) / freedom
    total = float(values.var(ddof=1))
    explained = max(1.0 - variance / total, 0.0) if total > 0.0 else 0.0
    error = math.sqrt(variance * (1.0 / n + float(m @ inverse @ m)))
    unseen = max(part.unseen for part in parts)
    return ScoreRegression(float(values.mean()) - imbalance, error, freedom, imbalance, unseen, explained=explained)


def _exact_fit(rollouts: Rollouts, policy: TabularSoftmax) -> ScoreRegression | None:
    """Where the model of all the data leaves no residual (a deterministic domain), G_i − C_i is v itself, for every i.

    Trusted only if every action of every state met was taken twice or more: one taking always fits.
    """
    part = action_part(rollouts, policy, folds=1)
    C, left = part.apart, rollouts.returns - part.apart
    if part.unseen > 0.0 or float(np.ptp(left)) > ROUNDING * float(np.abs(rollouts.returns).max()):
        return None
    total = int(rollouts.ends[-1])
    cells = rollouts.column("observations")[:total, 0] * policy.table.shape[1] + rollouts.column("actions")[:total, 0]
    if (np.unique(cells, return_counts=True)[1] < 2).any():
        return None
    return ScoreRegression(float(left.mean()), 0.0, rollouts.episodes - 2, float(C.mean()), 0.0, exact=True)


@dataclass(frozen=True)
class ActionPart:
    """C_i = Σ_t γᵗ Â(s_t, a_t) of every episode.

    apart     [n] with Â learnt from the other folds
    together  the mean over the episodes with Â learnt from all of them
    loose     how unbalanced the scores are, of what they would be in independent data: median of S²/Var(S), 0 … 1
    unseen    see ScoreRegression

    Which mean is right? Noise in Â leans with S, that of its own data. Independent folds: `apart` knows nothing of that,
    `together` is biased. But where a sampler has balanced S, the fold left out has just the S that the others lack, so
    that it is `apart` that leans (1.4 standard errors with auto on CartPoleContinuous, 512 episodes), while S = 0 leaves
    `together` nothing to lean on. In between, in proportion.
    """

    apart: np.ndarray
    together: float
    loose: float
    unseen: float

    @property
    def mean(self) -> float:
        share = min(self.loose, 1.0)
        return share * float(self.apart.mean()) + (1.0 - share) * self.together


def action_part(rollouts: Rollouts, policy: Policy, folds: int = FOLDS) -> ActionPart:
    """Folds: episodes i ≡ k (mod folds)."""
    steps = _Steps(rollouts, min(folds, rollouts.episodes))
    if isinstance(policy, TabularSoftmax):
        return _tabular(steps, policy)
    assert isinstance(policy, MLP | External)
    return _network(steps, policy)


def episode_scores(rollouts: Rollouts, policy: Policy) -> np.ndarray:
    """X_i = Σ_t score(a_t|s_t) ⊗ ψ(s_t), [n, D]: of a table counts minus their expectation, of a network the head's scores.

    Scores: one-hot action minus π_e(·|s); Gaussian, per dimension, z and (z² − 1)/√2. Under π_e each has mean 0.
    """
    steps = _Steps(rollouts, 1)
    if isinstance(policy, TabularSoftmax):
        n_states, n_actions = policy.table.shape
        cells = (steps.episode * n_states + steps.states) * n_actions + steps.choices
        counts = np.bincount(cells, minlength=steps.n * n_states * n_actions).reshape(steps.n, n_states, n_actions)
        return np.asarray((counts - counts.sum(axis=2, keepdims=True) * policy.table).reshape(steps.n, -1))
    assert isinstance(policy, MLP)
    psi = policy.features(steps.observations)
    u = output_scores(policy, steps.observations, steps.actions)
    starts = steps.ends - steps.lengths
    return np.array([(u[a:b].T @ psi[a:b]).ravel() for a, b in zip(starts, steps.ends, strict=True)])


def output_scores(policy: MLP, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """[N, scores]: e_a − π_e(·|s), or z and (z² − 1)/√2 of each Gaussian dimension."""
    return _scores_from(policy, _head(policy, policy.features(observations)), actions)


class _Steps:
    """The steps of the finished episodes, with what a fit needs to know of each."""

    def __init__(self, rollouts: Rollouts, folds: int) -> None:
        self.n, self.ends, self.lengths = rollouts.episodes, rollouts.ends, rollouts.lengths
        total = int(self.ends[-1]) if self.n else 0
        self.rollouts = rollouts
        kept = rollouts.observations
        self.observations = np.zeros((total, 0)) if kept is None else kept[:total]
        self.actions = rollouts.column("actions")[:total]
        self.rewards = rollouts.column("rewards")[:total]
        self.terminated, self.gamma, self.folds = rollouts.terminated, rollouts.gamma, folds
        self.episode = np.repeat(np.arange(self.n), self.lengths)
        self.t = np.arange(total) - np.repeat(self.ends - self.lengths, self.lengths)
        self.discount = self.gamma ** self.t.astype(np.float64)

    @property
    def states(self) -> np.ndarray:
        return np.asarray(self.observations[:, 0].astype(np.int64))

    @property
    def choices(self) -> np.ndarray:
        return np.asarray(self.actions[:, 0].astype(np.int64))

    @property
    def fold(self) -> np.ndarray:
        return np.asarray(self.episode % self.folds)

    def discounted_to_go(self) -> np.ndarray:
        """γᵗ Σ_{u ≥ t} γ^{u−t} r_u: what the episode still earns, as it counts in the return."""
        gains = self.discount * self.rewards
        before = np.cumsum(gains) - gains
        totals = np.bincount(self.episode, gains, minlength=self.n)
        so_far = before - np.repeat(before[self.ends - self.lengths], self.lengths)
        return np.asarray(np.repeat(totals, self.lengths) - so_far)

    def per_episode(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.episode, values, minlength=self.n)


# ---- tables: the model of the data, solved ---------------------------------------------------------------------


def _tabular(steps: _Steps, policy: TabularSoftmax) -> ActionPart:
    """Â = Q̂ − V̂ of the maximum-likelihood model of the other folds: exact once a deterministic domain is seen."""
    pi = policy.table
    n_states, n_actions = pi.shape
    size = n_states * n_actions
    cells = steps.states * n_actions + steps.choices
    last = np.zeros(len(cells), dtype=bool)
    last[steps.ends - 1] = True
    after = np.append(steps.states[1:], 0)
    known = ~last | steps.terminated[steps.episode]  # where a time limit cut, the next state was not recorded
    horizon = None if steps.terminated.all() else int(steps.lengths.max())
    moves, gains, visits = [], [], []
    for k in range(steps.folds):
        mine = (steps.fold == k) & known
        inner = mine & ~last
        moves.append(np.bincount(cells[inner] * n_states + after[inner], minlength=size * n_states).astype(float))
        gains.append(np.bincount(cells[mine], steps.rewards[mine], minlength=size))
        visits.append(np.bincount(cells[mine], minlength=size).astype(float))
    parts = np.array([np.concatenate(x) for x in zip(moves, gains, visits, strict=True)])

    def gained(rest: np.ndarray) -> np.ndarray:
        M, R, N = np.split(rest, [size * n_states, size * n_states + size])
        advantage = _solve_model(M.reshape(n_states, n_actions, n_states), R.reshape(n_states, n_actions),
                                 N.reshape(n_states, n_actions), pi, steps.gamma, horizon)  # fmt: skip
        return steps.per_episode(steps.discount * advantage.ravel()[cells])

    together = gained(parts.sum(axis=0))
    C = together.copy()
    for k in range(steps.folds if steps.folds > 1 else 0):
        C[k :: steps.folds] = gained(_without(parts, k))[k :: steps.folds]
    counts = np.bincount(cells, minlength=size).reshape(n_states, n_actions)
    expected = counts.sum(axis=1, keepdims=True) * pi
    lacking = (np.array(visits) > 0).sum(axis=0).reshape(n_states, n_actions) < min(2, steps.folds)
    usual = (expected >= 1.0) & (pi < 1.0)
    loose = _median_square((counts - expected)[usual] ** 2 / (expected * (1.0 - pi))[usual])
    return ActionPart(C, float(together.mean()), loose, float(expected[lacking].sum()) / steps.n)


def _solve_model(
    moves: np.ndarray, gains: np.ndarray, visits: np.ndarray, pi: np.ndarray, gamma: float, horizon: int | None
) -> np.ndarray:
    """Advantages [states, actions] of the model: V = r + γ P V solved, or `horizon` sweeps of it where a limit cut episodes.

    If every episode ended by itself, every state of the model leads to an end, and the system has one solution.
    An action never seen counts as average.
    """
    seen = visits > 0
    count = np.maximum(visits, 1.0)
    reward, step = gains / count, gamma * moves / count[:, :, None]
    weight = np.where(seen, pi, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    r, P = (weight * reward).sum(axis=1), np.einsum("sa,sat->st", weight, step)
    V = np.zeros(len(pi))
    if horizon is None:
        V = np.linalg.solve(np.eye(len(pi)) - P, r)
    for _ in range(horizon or 0):
        V = r + P @ V
    Q = np.where(seen, reward + step @ V, (r + P @ V)[:, None])
    return np.asarray(Q - (pi * Q).sum(axis=1, keepdims=True))


# ---- networks: returns to go regressed on scores ⊗ features ----------------------------------------------------


def _network(steps: _Steps, policy: MLP | External) -> ActionPart:
    """Weighted least squares, step by step: γᵗ(return to go − V̂(s_t)) on γᵗ · score ⊗ ψ(s_t, t).

    ψ: the last hidden features and all products of two of (1, observation, γᵗ), standardised. V̂ is linear in ψ too.
    A discrete action's weights come from the steps that took it; a Gaussian's scores are orthonormal, so that all its
    weights share one matrix. Single precision: any w gives a valid correction, and noise far above 1e-6 is in it anyway.
    """
    hidden, scores = _forward(policy, steps)
    group = steps.choices if policy.n_actions is not None else np.zeros(len(steps.t), dtype=np.int64)
    groups = policy.n_actions or 1
    block = steps.fold * groups + group
    order = np.argsort(block, kind="stable")  # one slice for each fold and action
    bounds = np.searchsorted(block[order], np.arange(steps.folds * groups + 1))
    slices = [slice(a, b) for a, b in itertools.pairwise(bounds)]
    psi = _features(steps, hidden)[order]
    y = steps.discounted_to_go()[order].astype(np.float32)
    m = psi.shape[1]
    grams = np.array([psi[s].T @ psi[s] for s in slices], dtype=np.float64).reshape(steps.folds, groups, m, m)
    moments = np.array([psi[s].T @ y[s] for s in slices], dtype=np.float64).reshape(steps.folds, groups, m)
    whole = [slice(bounds[k * groups], bounds[(k + 1) * groups]) for k in range(steps.folds)]
    weighted = scores[order].astype(np.float32)
    gains = np.empty(len(y))

    def weights(H: np.ndarray, g: np.ndarray, others: list[slice]) -> np.ndarray:
        """[m, scores] of Â, and V̂ with it, from some of the folds."""
        base = _solve(H.sum(axis=0), g.sum(axis=0))
        if policy.n_actions is not None:
            right = g - H @ base
        else:
            right = np.zeros((scores.shape[1], m))
            for other in others:
                left = y[other] - psi[other] @ base.astype(np.float32)
                right += (psi[other].T @ (weighted[other] * left[:, None])).T
        return np.stack([_solve(H[min(c, groups - 1)], right[c]) for c in range(len(right))], axis=1)

    for k, mine in enumerate(whole):
        w = weights(_without(grams, k), _without(moments, k), whole if len(whole) == 1 else whole[:k] + whole[k + 1 :])
        worth = (psi[mine] @ w.astype(np.float32)).astype(np.float64)
        gains[order[mine]] = np.einsum("ij,ij->i", worth, scores[order[mine]])
    S = (psi.T @ weighted).astype(np.float64)
    together = float((weights(grams.sum(axis=0), moments.sum(axis=0), whole) * S).sum()) / steps.n
    return ActionPart(steps.per_episode(gains), together, _looseness(psi, weighted, S), 0.0)


def _looseness(psi: np.ndarray, scores: np.ndarray, S: np.ndarray) -> float:
    """From the principal directions of K = Σ ψψᵀ (mean square of the scores), which is S's covariance if independent."""
    stride = max(1, len(psi) // (64 * psi.shape[1]))  # some of the steps are enough
    some, spread = psi[::stride], np.square(scores[::stride]).mean(axis=1)
    power, directions = np.linalg.eigh(stride * (some.T @ (some * spread[:, None])).astype(np.float64))
    firm = power > RIDGE * power.mean()
    return _median_square((directions[:, firm].T @ S) ** 2 / power[firm, None])


def _median_square(z_squared: np.ndarray) -> float:
    """Median of squares over that of a standard normal's, 0.455: rare features leave outliers to a mean."""
    return float(np.median(z_squared)) / MEDIAN_OF_CHI_SQUARE if z_squared.size else 1.0


def _forward(policy: MLP | External, steps: _Steps) -> tuple[np.ndarray, np.ndarray]:
    """Last hidden features [N, features], float32, and scores of the outputs; in pieces that stay in the cache."""
    if isinstance(policy, External):
        psi, outputs = steps.rollouts.column("features")[: len(steps.t)], steps.rollouts.column("outputs")[: len(steps.t)]
        return psi[:, :-1].astype(np.float32), policy.output_scores(outputs, steps.actions)
    hidden, scores = [], []
    for a in range(0, len(steps.t), CHUNK):
        part = policy.features(steps.observations[a : a + CHUNK])
        hidden.append(part[:, :-1].astype(np.float32))
        scores.append(_scores_from(policy, _head(policy, part), steps.actions[a : a + CHUNK]))
    return np.concatenate(hidden), np.concatenate(scores)


def _without(parts: np.ndarray, k: int) -> np.ndarray:
    """Sum over all folds but the k-th; a single fold stands for itself."""
    return np.asarray(parts[0] if len(parts) == 1 else np.delete(parts, k, axis=0).sum(axis=0))


def _features(steps: _Steps, hidden: np.ndarray) -> np.ndarray:
    """γᵗ ψ(s_t, t), [N, m], float32. Products only for short observations: D must stay well below the steps."""
    x = steps.observations
    some = slice(None, None, 1 + len(x) // 4096)  # enough to standardise by
    small = np.append(x / np.maximum(x[some].std(axis=0), 1e-12), steps.discount[:, None], axis=1).astype(np.float32)
    i, j = np.triu_indices(small.shape[1])
    products = small[:, i] * small[:, j] if x.shape[1] <= LONGEST_FOR_PRODUCTS else small[:, :-1] * small[:, -1:]
    psi = np.concatenate([hidden, small, products, np.ones_like(small[:, :1])], axis=1)
    mean, spread = psi[some].mean(axis=0), psi[some].std(axis=0)
    mean[-1], spread[-1] = 0.0, 1.0
    psi -= mean
    psi *= np.where(spread > 1e-6 * spread.max(), 1.0 / np.maximum(spread, 1e-30), 0.0).astype(np.float32)
    psi *= steps.discount[:, None].astype(np.float32)
    return np.asarray(psi)


def _solve(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    H = H.copy()
    H[np.diag_indices_from(H)] += RIDGE * max(float(np.trace(H)) / len(H), 1e-300)
    return np.asarray(np.linalg.solve(H, g))


def _head(policy: MLP, psi: np.ndarray) -> np.ndarray:
    return np.asarray(psi[:, :-1] @ policy.head_weight.T + policy.head_bias)


def _scores_from(policy: MLP, out: np.ndarray, actions: np.ndarray) -> np.ndarray:
    if policy.n_actions is None:
        mean, scale = _gaussian(policy, out)
        z = (actions - mean) / scale
        return np.append(z, (z * z - 1.0) / np.sqrt(2.0), axis=1)
    weights = np.exp(out - out.max(axis=1, keepdims=True))
    scores = -weights / weights.sum(axis=1, keepdims=True)
    scores[np.arange(len(scores)), actions[:, 0].astype(np.int64)] += 1.0
    return np.asarray(scores)


def _gaussian(policy: MLP, out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale [N, dimensions]."""
    own = policy.scale == "log_std"
    mean = out if own else out[:, 0::2]
    mean = np.tanh(mean) if policy.mean == "tanh" else mean
    if own:
        assert policy.log_std is not None
        return mean, np.broadcast_to(np.exp(policy.log_std), mean.shape)
    return mean, np.maximum(np.logaddexp(0.0, out[:, 1::2]), 1e-6)
