"""π̂, the maximum-likelihood policy of the data: counts for a table; for a network its last layer on fixed features.

Authors of the paper: at least 1,000 Adam steps from θ_e, which stops short of the optimum at small budgets.
Here: Newton's method to the optimum, so early KL curves lie above the published ones.
"""

from __future__ import annotations

import numpy as np

from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.rollouts import Rollouts

RIDGE = 1e-6  # relative to the curvature's mean; keeps separable data finite
ITERATIONS = 50


def fitted_log_probs(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    """log π̂(a_t|s_t) for every recorded step, the unfinished trajectory included."""
    actions = rollouts.column("actions")
    observations = rollouts.column("observations")
    if len(actions) == 0:
        return np.zeros(0)
    if isinstance(policy, TabularSoftmax):
        n = policy.n_actions or 0
        cells = observations[:, 0].astype(np.int64) * n + actions[:, 0].astype(np.int64)
        counts = np.bincount(cells, minlength=policy.parameters).reshape(-1, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            table = np.log(counts) - np.log(counts.sum(axis=1, keepdims=True))
        return np.asarray(table.ravel()[cells])
    assert isinstance(policy, MLP)
    psi = np.concatenate([policy.features(observations), np.ones((len(observations), 1))], axis=1)
    psi = psi[:, psi.any(axis=0)]  # a feature that never fires has no weight to fit
    if policy.n_actions is not None:
        logits = psi @ _fit_softmax(psi, actions[:, 0].astype(np.int64), policy.n_actions)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = np.take_along_axis(logits, actions[:, :1].astype(np.int64), axis=1)[:, 0]
        return np.asarray(chosen - np.log(np.exp(logits).sum(axis=1)))
    return np.sum([_fit_gaussian(policy, psi, actions, i) for i in range(policy.action_dim)], axis=0)


def _fit_softmax(psi: np.ndarray, actions: np.ndarray, n: int) -> np.ndarray:
    """Weights [features, actions] maximising Σ log softmax(ψW)[a]; the first action's are 0. Convex."""
    m, free = psi.shape[1], n - 1
    taken = np.zeros((len(psi), n))
    taken[np.arange(len(psi)), actions] = 1.0
    W = np.zeros((m, n))
    value = -np.inf
    for _ in range(ITERATIONS):
        logits = psi @ W
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        new = float(np.log(np.maximum((p * taken).sum(axis=1), 1e-300)).sum())
        if new - value < 1e-9 * max(1.0, abs(new)):
            break
        value = new
        gradient = psi.T @ (taken - p)[:, 1:]
        H = np.empty((free * m, free * m))
        for i in range(free):
            for j in range(i, free):
                w = p[:, i + 1] * ((i == j) - p[:, j + 1])
                H[i * m : (i + 1) * m, j * m : (j + 1) * m] = psi.T @ (w[:, None] * psi)
                H[j * m : (j + 1) * m, i * m : (i + 1) * m] = H[i * m : (i + 1) * m, j * m : (j + 1) * m].T
        H[np.diag_indices_from(H)] += RIDGE * max(np.trace(H) / len(H), 1e-12)
        step = np.linalg.solve(H, gradient.T.ravel()).reshape(free, m).T
        W[:, 1:] += step
    return W


def _fit_gaussian(policy: MLP, psi: np.ndarray, actions: np.ndarray, dimension: int) -> np.ndarray:
    """log-density of the best Gaussian with mean link(ψw) and scale link(ψu): Fisher scoring, with halved steps."""
    from evenroll.policies.heads import LOG_SQRT_2PI

    a = actions[:, dimension]
    own_scale = policy.scale == "log_std"
    m = psi.shape[1]
    fires = np.concatenate([policy.features(np.zeros((1, policy.obs_dim))), [[1.0]]], axis=1).shape[1] == m
    w = np.zeros(m)
    u = np.zeros(1 if own_scale else m)
    if fires:  # start at θ_e
        row = dimension if own_scale else 2 * dimension
        w[:] = np.append(policy.head_weight[row], policy.head_bias[row])
        if not own_scale:
            u[:] = np.append(policy.head_weight[row + 1], policy.head_bias[row + 1])
    if own_scale:
        assert policy.log_std is not None
        u[:] = policy.log_std[dimension]
    elif not fires:
        u[-1] = np.log(np.expm1(max(float(a.std()), 1e-3)))

    def evaluate(w: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, ...]:
        raw_mean = psi @ w
        mean = np.tanh(raw_mean) if policy.mean == "tanh" else raw_mean
        d_mean = 1 - mean**2 if policy.mean == "tanh" else np.ones_like(mean)
        if own_scale:
            scale = np.full(len(a), np.exp(u[0]))
            d_scale = scale
        else:
            raw_scale = psi @ u
            scale = np.maximum(np.logaddexp(0.0, raw_scale), 1e-6)
            d_scale = 1 / (1 + np.exp(-raw_scale))
        z = (a - mean) / scale
        return -0.5 * z**2 - np.log(scale) - LOG_SQRT_2PI, z, d_mean / scale, d_scale / scale

    log_p, z, s_mean, s_scale = evaluate(w, u)
    for _ in range(ITERATIONS):
        X = psi * s_mean[:, None]
        Y = (s_scale[:, None] if own_scale else psi * s_scale[:, None])
        step_w = _solve(X.T @ X, X.T @ z)
        step_u = _solve(2 * Y.T @ Y, Y.T @ (z**2 - 1))
        size, old = 1.0, log_p.sum()
        while size > 1e-6:
            candidate = evaluate(w + size * step_w, u + size * step_u)
            if candidate[0].sum() > old:
                break
            size /= 2
        else:
            break
        w, u = w + size * step_w, u + size * step_u
        log_p, z, s_mean, s_scale = candidate
        if log_p.sum() - old < 1e-9 * max(1.0, abs(old)):
            break
    return log_p


def _solve(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    H = H.copy()
    H[np.diag_indices_from(H)] += RIDGE * max(np.trace(H) / len(H), 1e-12)
    return np.asarray(np.linalg.solve(H, g))
