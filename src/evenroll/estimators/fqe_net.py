"""Fitted Q-evaluation with a network, as the paper's authors did it. It is slow, and needs PyTorch (the torch extra).

The authors have a network of two layers of 256 ReLUs on [time, state, action], with 64-d embeddings of discrete states and
actions. They train it with Adam, a learning rate of 1e-3 with cosine decay, batches of 5120, and at least 1,000 updates.
The target is copied at every update, Q is clipped to the possible range where γ < 1, and where actions are real 31 next
ones are sampled. Each checkpoint starts from the network of the one before.
Here everything is the same, with three exceptions. Every fit makes 1,000 updates of a fresh network, so that an estimate
depends on its data only; the time is a share of the horizon; and vector observations are standardised by the data.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, SpecError
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
# on one on-policy data set of each cartpole (seed (0, 1), which is also a trial of fig14). 400 updates gave values 5 – 26 %
# too small at 64 and 512 episodes; these settings came within 4 %, in 10 – 13 s a fit on a busy core. The authors' values
# would take 286 s, extrapolated from 20 updates.
SMALL = NetSettings(width=64, embedding=16, learning_rate=3e-3, batch=256, next_actions=3)


def fitted_q_network(rollouts: Rollouts, policy: Policy, settings: NetSettings | None = None) -> float:
    """FQE(D) = (1/n) Σᵢ E_{a~π_e} Q(0, s₀ⁱ, a), with Q a network fitted to r + γ E_{a'~π_e} Q(t + 1, s', a').

    Time is an input, so after the step at the horizon the value is 0, as it is after termination.
    """
    finished(rollouts)
    threads = _torch().get_num_threads()
    _torch().set_num_threads(1)  # trials run one to a core, and the order of sums must not depend on the machine's cores
    try:
        return _fit(rollouts, policy, settings or NetSettings())
    finally:
        _torch().set_num_threads(threads)


def _fit(rollouts: Rollouts, policy: Policy, settings: NetSettings) -> float:
    data = _Data(rollouts, policy, settings)
    torch = data.torch
    optimiser = torch.optim.Adam(data.parameters, settings.learning_rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, settings.updates)
    for _ in range(settings.updates):
        rows = torch.randint(data.size, (min(settings.batch, data.size),), generator=data.random)
        with torch.no_grad():
            ahead = data.goes_on[rows] * data.value((rows + 1).clamp(max=data.size - 1))
            target = (data.rewards[rows] + data.gamma * ahead).clamp(data.low, data.high)
        loss = ((data.q(rows, data.actions[rows]) - target) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
    with torch.no_grad():
        return float(data.value(torch.as_tensor(np.concatenate([[0], rollouts.ends[:-1]]))).mean())


class _Data:
    """The steps as tensors, and the network on them: q(rows, actions) and value(rows)."""

    def __init__(self, rollouts: Rollouts, policy: Policy, settings: NetSettings) -> None:
        self.torch = torch = _torch()
        self.random = torch.Generator().manual_seed(settings.seed)
        self.parameters: list[Any] = []
        steps = steps_of(rollouts)
        self.size = len(steps.times)
        # A trajectory cut short of the horizon says nothing about what would have come: its last step is taken as the end.
        goes_on = np.zeros(self.size)
        goes_on[steps.going] = 1.0
        self.goes_on, self.gamma = self._real(goes_on), rollouts.gamma
        self.rewards = self._real(rollouts.column("rewards")[: self.size])
        self.times = self._real(steps.times[:, None] / (steps.horizon or int(steps.times.max()) + 1))
        self.low, self.high = -math.inf, math.inf
        if self.gamma < 1.0:
            most = discount_sum(self.gamma, steps.horizon)
            self.low, self.high = min(0.0, float(self.rewards.min())) * most, max(0.0, float(self.rewards.max())) * most
        self._states(rollouts, policy, settings)
        taken = rollouts.column("actions")[: self.size]
        self.n_actions, self.next_actions = policy.n_actions, settings.next_actions
        if policy.n_actions is not None:
            self.actions = torch.as_tensor(taken[:, 0].astype(np.int64))
            self.action_codes = self._parameter((policy.n_actions, settings.embedding), 1.0)
        else:
            self.actions = self._real(taken)
        inputs = 1 + self.encode(torch.zeros(1, dtype=torch.int64), self.actions[:1]).shape[1]
        sizes = (inputs, settings.width, settings.width, 1)
        self.layers = [
            (self._parameter((o, i), 1 / math.sqrt(i)), self._parameter((o,), 1 / math.sqrt(i)))
            for i, o in itertools.pairwise(sizes)
        ]

    def _states(self, rollouts: Rollouts, policy: Policy, settings: NetSettings) -> None:
        """What the network sees of a state, and what π_e would do there: probabilities, or mean and scale."""
        self.state_codes = None
        if isinstance(policy, TabularSoftmax):
            states = table_cells(policy, rollouts)[0][: self.size]
            self.states = self.torch.as_tensor(states)
            self.state_codes = self._parameter((len(policy.table), settings.embedding), 1.0)
            self.policy: tuple[Any, ...] = (self._real(policy.table[states]),)
            return
        if not isinstance(policy, MLP):
            raise DataError(f"fqe-net does not know how {type(policy).__name__} chooses")
        observations = rollouts.column("observations")[: self.size]
        spread = observations.std(axis=0)
        self.states = self._real((observations - observations.mean(axis=0)) / np.where(spread == 0.0, 1.0, spread))
        psi = policy_features(policy, rollouts)[: self.size]
        outputs, distribution = outputs_of(policy, psi), policy.distribution
        if isinstance(distribution, Categorical):
            arrays = [distribution.probabilities(outputs)]
        else:
            assert isinstance(distribution, Gaussian)
            arrays = [distribution.means(outputs), distribution.scales(outputs)]
        self.policy = tuple(self._real(x) for x in arrays)

    def _real(self, x: np.ndarray) -> Any:
        return self.torch.as_tensor(np.ascontiguousarray(x, dtype=np.float32))

    def _parameter(self, shape: tuple[int, ...], bound: float) -> Any:
        """A parameter whose entries are uniform in ± bound, drawn from this fit's own random numbers."""
        x = (2.0 * self.torch.rand(shape, generator=self.random) - 1.0) * bound
        self.parameters.append(x.requires_grad_())
        return x

    def encode(self, rows: Any, actions: Any) -> Any:
        state = self.states[rows] if self.state_codes is None else self.state_codes[self.states[rows]]
        return self.torch.cat([state, actions if self.n_actions is None else self.action_codes[actions]], dim=1)

    def q(self, rows: Any, actions: Any) -> Any:
        """Q(t, s, a) at the times and states of `rows`."""
        x = self.torch.cat([self.times[rows], self.encode(rows, actions)], dim=1)
        for i, (weight, bias) in enumerate(self.layers):
            x = self.torch.nn.functional.linear(x, weight, bias)
            x = x.relu() if i < len(self.layers) - 1 else x
        return x[:, 0]

    def value(self, rows: Any) -> Any:
        """E_{a~π_e} Q(t, s, a), the mean over all actions if they are discrete, or over a few that are drawn."""
        torch = self.torch
        if self.n_actions is not None:
            columns = [self.q(rows, torch.full_like(rows, a)) for a in range(self.n_actions)]
            return (self.policy[0][rows] * torch.stack(columns, dim=1)).sum(dim=1)
        mean, scale = (x[rows] for x in self.policy)
        drawn = [mean + scale * torch.randn(mean.shape, generator=self.random) for _ in range(self.next_actions)]
        return torch.stack([self.q(rows, a) for a in drawn]).mean(dim=0)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise SpecError("fqe-net needs PyTorch: pip install 'evenroll[torch]'") from None
    return torch
