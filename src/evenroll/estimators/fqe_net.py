"""Fitted Q-evaluation with a network, as the paper's authors did it.

The authors have a network of two layers of 256 ReLUs on [time, state, action], with 64-d embeddings of discrete states and
actions. They train it with Adam, a learning rate of 1e-3 with cosine decay, batches of 5120, and at least 1,000 updates.
The target is copied at every update, Q is clipped to the possible range where γ < 1, and where actions are real 31 next
ones are sampled. Each checkpoint starts from the network of the one before.
Here everything is the same, with three exceptions. Every fit makes 1,000 updates of a fresh network, so that an estimate
depends on its data only; the time is a share of the horizon; and vector observations are standardised by the data.

The network is so small that a library for large ones would spend its time on calls. Therefore the forward and the backward
pass are written out here in NumPy, and tests compare the gradient and Adam with PyTorch's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import DataError
from evenroll.estimators.behavior_fit import policy_features, table_cells
from evenroll.estimators.fqe import discount_sum, outputs_of, steps_of
from evenroll.estimators.importance import finished
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.policies.distributions import Categorical, Gaussian


@dataclass(frozen=True)
class NetSettings:
    """The settings of the network and of its training. The defaults are the authors' values."""

    width: int = 256
    embedding: int = 64
    learning_rate: float = 1e-3
    updates: int = 1000
    batch: int = 5120
    next_actions: int = 31
    seed: int = 0


# These settings make many trials affordable. They were chosen among three by time and by the distance from the known value
# on one on-policy data set of each cartpole (seed (0, 1), which is also a trial of fig14), when training ran through
# PyTorch. 400 updates gave values 5 – 26 % too small at 64 and 512 episodes; these settings came within 4 %.
SMALL = NetSettings(width=64, embedding=16, learning_rate=3e-3, batch=256, next_actions=3)

QUERIES = 2**17  # entries of the matrices that go through the network at once: half a MB in float32 stays in the cache


def fitted_q_network(rollouts: Rollouts, policy: Policy, settings: NetSettings | None = None) -> float:
    """FQE(D) = (1/n) Σᵢ E_{a~π_e} Q(0, s₀ⁱ, a), with Q a network fitted to r + γ E_{a'~π_e} Q(t + 1, s', a').

    Time is an input, so after the step at the horizon the value is 0, as it is after termination.
    """
    finished(rollouts)
    # Trials run one to a core, and the order of sums must not depend on the machine's cores.
    with single_threaded_blas(), np.errstate(over="ignore", invalid="ignore"):
        return _fit(rollouts, policy, settings or NetSettings())


def _fit(rollouts: Rollouts, policy: Policy, settings: NetSettings) -> float:
    data = data_of(rollouts, policy)
    random = np.random.default_rng(settings.seed)
    network = Network(data, settings, random)
    adam = Adam(network.parameters)
    for update in range(settings.updates):
        rows = random.integers(data.size, size=min(settings.batch, data.size))
        gradient = network.gradient(rows, targets(network, rows))
        adam.step(gradient, settings.learning_rate * (1.0 + math.cos(math.pi * update / settings.updates)) / 2.0)
    starts = np.concatenate([[0], rollouts.ends[:-1]])
    return float(network.values(starts).mean(dtype=np.float64))


def targets(network: Network, rows: np.ndarray) -> np.ndarray:
    """r + γ E_{a'~π_e} Q(t + 1, s', a') with the present network, within the possible range; r where nothing follows."""
    data = network.data
    target = data.rewards[rows]
    going = np.flatnonzero(data.goes_on[rows])
    target[going] += data.gamma * network.values(rows[going] + 1)
    return target.clip(data.low, data.high)


# ---- the data ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The steps as the network sees them, one to a row.

    numbers    [N, k]: the time as a share of the horizon, a constant 1, then the standardised observation if it is a vector,
               and last the action if it is real
    states     [N], the number of the state where there is a table of n_states; zeros where n_states is 0
    actions    [N], the number of the action; zeros for real actions, where n_actions is None
    chances    [N, n_actions], what π_e would do; empty for real actions, where π_e has these means and scales [N, d]
    goes_on    [N], whether the next row is the next step
    low, high  the range of possible values where γ < 1, infinite otherwise
    """

    numbers: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    chances: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    rewards: np.ndarray
    goes_on: np.ndarray
    gamma: float
    low: float
    high: float
    n_states: int
    n_actions: int | None

    @property
    def size(self) -> int:
        return len(self.rewards)


def data_of(rollouts: Rollouts, policy: Policy, kind: type[np.floating[Any]] = np.float32) -> Data:
    """The steps of the finished trajectories, and what π_e would do in their states, in numbers of this kind."""
    steps = steps_of(rollouts)
    size = len(steps.times)
    # A trajectory cut short of the horizon says nothing about what would have come: its last step is taken as the end.
    goes_on = np.zeros(size, dtype=bool)
    goes_on[steps.going] = True
    rewards, actions = rollouts.column("rewards")[:size], rollouts.column("actions")[:size]
    time = steps.times[:, None] / (steps.horizon or int(steps.times.max()) + 1)
    low, high = -math.inf, math.inf
    if rollouts.gamma < 1.0:
        most = discount_sum(rollouts.gamma, steps.horizon)
        low, high = min(0.0, float(rewards.min())) * most, max(0.0, float(rewards.max())) * most
    states, observed = np.zeros(size, dtype=np.int64), np.zeros((size, 0))
    chances = means = scales = np.zeros((size, 0))
    if isinstance(policy, TabularSoftmax):
        states = table_cells(policy, rollouts)[0][:size]
        chances = policy.table[states]
    elif isinstance(policy, MLP):
        observations = rollouts.column("observations")[:size]
        spread = observations.std(axis=0)
        observed = (observations - observations.mean(axis=0)) / np.where(spread == 0.0, 1.0, spread)
        outputs, distribution = outputs_of(policy, policy_features(policy, rollouts)[:size]), policy.distribution
        if isinstance(distribution, Categorical):
            chances = distribution.probabilities(outputs)
        else:
            assert isinstance(distribution, Gaussian)
            means, scales = distribution.means(outputs), distribution.scales(outputs)
    else:
        raise DataError(f"fqe-net does not know how {type(policy).__name__} chooses")
    real = actions if policy.n_actions is None else np.zeros((size, 0))
    return Data(
        numbers=np.concatenate([time, np.ones((size, 1)), observed, real], axis=1).astype(kind),
        states=states,
        actions=np.zeros(size, dtype=np.int64) if policy.n_actions is None else actions[:, 0].astype(np.int64),
        chances=chances.astype(kind),
        means=means.astype(kind),
        scales=scales.astype(kind),
        rewards=rewards.astype(kind),
        goes_on=goes_on,
        gamma=rollouts.gamma,
        low=low,
        high=high,
        n_states=policy.n_states or 0,
        n_actions=policy.n_actions,
    )


# ---- the network ---------------------------------------------------------------------------------------------


class Network:
    """Q(t, s, a) = w₃ᵀ relu(W₂ᵀ relu(W₁ᵀ [t, 1, s, a])) + b₃, with embeddings of states and actions that are numbers.

    All parameters lie in one vector, as Adam treats them alike. `part` has the pieces of it by name, as matrices that are
    multiplied from the right. W₁ is kept in pieces, because W₁ᵀ [t, 1, s, a] is a sum, and the summand of a state or of an
    action that is a number is looked up in a small table, the product of its codes with its piece of W₁. The first layer
    has one unit more than `width`, which is always 1, so that the last row of W₂ is the bias.
    """

    def __init__(self, data: Data, settings: NetSettings, random: np.random.Generator) -> None:
        self.data, self.random, self.next_actions = data, random, settings.next_actions
        width, code, kind = settings.width, settings.embedding, data.numbers.dtype
        first: dict[str, tuple[int, ...]] = {"numbers": (data.numbers.shape[1], width + 1)}
        codes: dict[str, tuple[int, ...]] = {}
        for name, count in (("state", data.n_states), ("action", data.n_actions)):
            if count:
                first[name], codes[f"{name} codes"] = (code, width + 1), (count, code)
        later = {"second": (width + 1, width), "last": (width,), "last bias": (1,)}
        self.shapes = first | codes | later
        self.parameters = np.empty(sum(math.prod(shape) for shape in self.shapes.values()), dtype=kind)
        self.part = self._parts_of(self.parameters)
        # Codes begin uniform in ± 1, and all else in ± 1 / √inputs of its layer, as PyTorch's linear layers do.
        inputs = sum(rows for rows, _ in first.values()) - 1
        for name, x in self.part.items():
            spread = 1.0 if name in codes else 1.0 / math.sqrt(inputs if name in first else width)
            x[...] = spread * random.uniform(-1.0, 1.0, x.shape)
            if name in first:
                x[:, -1] = 0.0
        self.part["numbers"][1, -1] = 1.0
        self._gradient = np.empty_like(self.parameters)
        self._slopes = self._parts_of(self._gradient)
        # Room to work in. The queries of one round stay in the cache.
        each = data.n_actions or settings.next_actions
        self.at_once = max(1, QUERIES // (each * width))
        self._first = np.empty((each * self.at_once, width + 1), dtype=kind)
        self._second = np.empty((each * self.at_once, width), dtype=kind)
        self._zeros = np.zeros(max(settings.batch, each * self.at_once) * (width + 1), dtype=kind)

    def _parts_of(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """Views of a vector as long as the parameters, by name."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        pieces = np.split(vector, ends[:-1])
        return {name: x.reshape(shape) for x, (name, shape) in zip(pieces, self.shapes.items(), strict=True)}

    def values(self, rows: np.ndarray) -> np.ndarray:
        """E_{a~π_e} Q(t, s, a): the mean over all actions if they are discrete, or over a few that are drawn."""
        some = (rows[begin : begin + self.at_once] for begin in range(0, len(rows), self.at_once))
        return np.concatenate([np.empty(0, dtype=self.parameters.dtype), *map(self._values, some)])

    def _values(self, rows: np.ndarray) -> np.ndarray:
        """The values of a few rows. All their actions go through the network at once, as rows (action, row) of a matrix."""
        data, p = self.data, self.part
        each = data.n_actions or self.next_actions
        x1, x2 = self._first[: each * len(rows)], self._second[: each * len(rows)]
        if data.n_actions is not None:
            actions = p["action codes"] @ p["action"]
            np.add(self._state_part(rows), actions[:, None], out=x1.reshape(each, len(rows), -1))
        else:
            mean, scale = data.means.take(rows, axis=0), data.scales.take(rows, axis=0)
            numbers = np.empty((each, len(rows), data.numbers.shape[1]), dtype=x1.dtype)
            numbers[...] = data.numbers.take(rows, axis=0)
            noise = self.random.standard_normal((each, *mean.shape), dtype=x1.dtype.type)
            numbers[..., -mean.shape[1] :] = mean + scale * noise
            np.matmul(numbers.reshape(len(x1), -1), p["numbers"], out=x1)
        self._relu(x1)
        np.matmul(x1, p["second"], out=x2)
        q = (self._relu(x2) @ p["last"] + p["last bias"]).reshape(each, len(rows))
        if data.n_actions is not None:
            return np.asarray(np.einsum("ra,ar->r", data.chances.take(rows, axis=0), q))
        return np.asarray(np.full(each, 1.0 / each, dtype=q.dtype) @ q)

    def gradient(self, rows: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The gradient of the mean of (Q(t, s, a) − target)² over these rows. The next call overwrites it."""
        data, p, g = self.data, self.part, self._slopes
        x1 = self._state_part(rows)
        if data.n_actions is not None:
            x1 += (p["action codes"] @ p["action"]).take(data.actions[rows], axis=0)
        self._relu(x1)
        x2 = self._relu(x1 @ p["second"])
        error = x2 @ p["last"] + p["last bias"] - target

        d = (2.0 / len(rows)) * error  # the slope by Q, and below by what enters the ReLUs of a layer
        np.matmul(d, x2, out=g["last"])
        g["last bias"][0] = d.sum()
        d2 = d[:, None] * p["last"]
        d2 *= x2 > 0.0
        np.matmul(x1.T, d2, out=g["second"])
        d1 = d2 @ p["second"].T
        d1 *= x1 > 0.0
        d1[:, -1] = 0.0
        np.matmul(data.numbers.take(rows, axis=0).T, d1, out=g["numbers"])
        for name, codes, count in (("state", data.states, data.n_states), ("action", data.actions, data.n_actions)):
            if count:
                by_code = sums(d1, codes[rows], count)
                np.matmul(p[f"{name} codes"].T, by_code, out=g[name])
                np.matmul(by_code, p[name].T, out=g[f"{name} codes"])
        return self._gradient

    def _state_part(self, rows: np.ndarray) -> np.ndarray:
        """What enters the first ReLUs, less the summand of actions that are numbers."""
        x = self.data.numbers.take(rows, axis=0) @ self.part["numbers"]
        if self.data.n_states:
            x += (self.part["state codes"] @ self.part["state"]).take(self.data.states[rows], axis=0)
        return x

    def _relu(self, x: np.ndarray) -> np.ndarray:
        """max(x, 0), in the place of x. NumPy takes three times as long with a scalar 0 as with zeros that lie in memory."""
        return np.maximum(x, self._zeros[: x.size].reshape(x.shape), out=x)


def sums(x: np.ndarray, codes: np.ndarray, count: int) -> np.ndarray:
    """[count, width]: the sum of the rows of x [N, width] that have each code."""
    if count <= 128:  # a product with zeros and ones is much faster than additions one by one, if it is not too wide
        return np.eye(count, dtype=x.dtype).take(codes, axis=0).T @ x
    total = np.zeros((count, x.shape[1]), dtype=x.dtype)
    np.add.at(total, codes, x)
    return total


class Adam:
    """Adam (Kingma & Ba, 2015) with PyTorch's defaults, β = 0.9 and 0.999, ε = 1e-8. It changes the parameters in place.

        θ ← θ − rate · m̂ / (√v̂ + ε),   m̂ = Σₖ 0.9ᵏ gₖ · 0.1 / (1 − 0.9ⁿ),   v̂ = Σₖ 0.999ᵏ gₖ² · 0.001 / (1 − 0.999ⁿ)

    where gₖ is the gradient of k steps ago, and n the number of steps. The two sums are kept.
    """

    def __init__(self, parameters: np.ndarray) -> None:
        self.parameters, self.steps = parameters, 0
        self.sum, self.squares, self.work = np.zeros((3, len(parameters)), dtype=parameters.dtype)

    def step(self, gradient: np.ndarray, rate: float) -> None:
        self.steps += 1
        by_sum, by_squares = 0.1 / (1.0 - 0.9**self.steps), math.sqrt(0.001 / (1.0 - 0.999**self.steps))
        self.sum *= 0.9
        self.sum += gradient
        self.squares *= 0.999
        self.squares += np.multiply(gradient, gradient, out=self.work)
        change = np.sqrt(self.squares, out=self.work)
        change += 1e-8 / by_squares
        np.divide(self.sum, change, out=change)
        change *= rate * by_sum / by_squares
        self.parameters -= change
        # The sums of units that no input reaches any more decay for ever. As denormal numbers, below 1e-38, they made a step
        # five times as slow.
        if self.steps % 100 == 0:
            self.sum[np.abs(self.sum) < 1e-30] = 0.0
