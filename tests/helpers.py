"""What several tests need: trials of built-in domains, small networks, an environment to walk in, a full disk."""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.collection.environments import collect
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Domain
from evenroll.domains.environment import Environment
from evenroll.errors import SpecError
from evenroll.estimators.table import ESTIMATORS
from evenroll.evaluation.collector import Collector
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.samplers import Sampler
from evenroll.samplers.table import get_sampler
from evenroll.study.blocks import SAMPLING_ERRORS, Block, Work

ROOT = Path(__file__).parents[1]
QUICK_ESTIMATORS = [name for name in ESTIMATORS if not name.startswith("fqe-net")]  # the others train a network
TABLES, NETWORKS = ("bandit", "gridworld"), ("cartpole", "cartpole-continuous")
IDS = {
    "bandit": "evenroll/Bandit-v0",
    "gridworld": "evenroll/GridWorld-v0",
    "cartpole": "evenroll/CartPole-v0",
    "cartpole-continuous": "evenroll/CartPoleContinuous-v0",
}

# ---- trials of built-in domains --------------------------------------------------------------------------------------


def trial_driver(
    domain: str | Domain, sampler: str | Sampler = "os", seed: tuple[int, ...] = (0,), *, policy: Policy | None = None,
    gamma: float | None = None, record_steps: bool = True, **options: Any,
) -> Driver:  # fmt: skip
    """The driver of one trial, with the domain's own policy, discount and horizon unless told otherwise."""
    domain = get_domain(domain)
    return Driver(
        policy or domain.policy(), get_sampler(sampler, domain.paper), seed, gamma=domain.gamma if gamma is None else gamma,
        horizon=domain.horizon, record_steps=record_steps, **options,
    )  # fmt: skip


def trial(
    domain: str | Domain, sampler: str | Sampler = "os", seed: tuple[int, ...] = (0,), *, env: Environment | None = None,
    steps: int | None = None, episodes: int | None = None, **options: Any,
) -> Rollouts:  # fmt: skip
    """The data of one trial, every step of it unless told otherwise."""
    driver = trial_driver(domain, sampler, seed, **options)
    return driver.run(env or get_domain(domain).trial_environment(seed), steps=steps, episodes=episodes)


def fitting_sampler(spec: str, domain: Domain) -> Sampler:
    """The sampler with the paper's settings, or a skip where it says that it cannot run this domain's policy."""
    sampler = get_sampler(spec, domain.paper)
    try:
        sampler.check(domain.policy())
    except SpecError as refusal:
        pytest.skip(str(refusal))
    return sampler


def same_data(a: Rollouts, b: Rollouts) -> None:
    np.testing.assert_array_equal(a.actions, b.actions)
    np.testing.assert_array_equal(a.returns, b.returns)


def through_gymnasium(
    name: str, sampler: str = "auto", gamma: float = 0.9, seed: int = 0, **limits: int
) -> tuple[Collector, Rollouts, gym.Env[Any, Any]]:
    """A collector that has run the Gymnasium version of a built-in domain, its data, and the environment."""
    env = gym.make(IDS[name])
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    collector = Collector(get_domain(name).policy(), sampler, gamma=gamma, seed=seed, **spaces)
    for _ in collect(collector, env, **limits):
        pass
    return collector, collector.rollouts(), env


# ---- policies --------------------------------------------------------------------------------------------------------


def double_policy(name: str) -> Policy:
    """A domain's policy in double precision."""
    policy = get_domain(name).policy()
    return policy.astype(np.float64) if isinstance(policy, MLP) else policy


def linear_policy(head: str, rng: np.random.Generator, scale: str = "softplus") -> MLP:
    """A network without hidden layers for cartpole: it is all head, and small enough for finite differences."""
    rows = 2 if head == "softmax" or scale == "softplus" else 1
    log_std = rng.normal(size=1) if scale == "log_std" else None
    weight, bias = rng.normal(size=(rows, 4)), rng.normal(size=rows)
    return MLP([], weight, bias, head=head, scale=scale, log_std=log_std, dtype=np.float64)


def make_mlp(rng, widths=(4, 64, 64), head="softmax", outputs=2, norm=True, dtype=np.float64, **options) -> MLP:
    layers = [(rng.normal(size=(o, i)) / np.sqrt(i), 0.3 * rng.normal(size=o)) for i, o in itertools.pairwise(widths)]
    n = widths[0]
    statistics = (rng.normal(size=n), rng.uniform(0.5, 2, n), rng.uniform(0.5, 1.5, n), rng.normal(size=n)) if norm else None
    log_std = 0.3 * rng.normal(size=outputs) if options.get("scale") == "log_std" else None
    return MLP(
        layers,
        rng.normal(size=(outputs, widths[-1])) / np.sqrt(widths[-1]),
        0.1 * rng.normal(size=outputs),
        head=head,
        norm=statistics,
        log_std=log_std,
        dtype=dtype,
        **options,
    )


MLP_CASES: dict[str, dict[str, Any]] = {
    "softmax-norm": {},
    "softmax-plain": {"norm": False},
    "softmax-5-actions": {"outputs": 5},
    "tanh": {"activation": "tanh"},
    "odd-widths": {"widths": (3, 13, 7), "outputs": 3},
    "one-layer": {"widths": (4, 32)},
    "linear": {"widths": (4,)},
    "three-layers": {"widths": (2, 24, 17, 40)},
    "gaussian": {"head": "gaussian"},
    "gaussian-3d": {"head": "gaussian", "outputs": 6, "mean": "identity"},
    "gaussian-log-std": {"head": "gaussian", "outputs": 2, "scale": "log_std", "mean": "identity", "activation": "tanh"},
}

# ---- data made by hand -----------------------------------------------------------------------------------------------

COLUMNS = (
    "returns",
    "ends",
    "terminated",
    "log_weights",
    "observations",
    "actions",
    "rewards",
    "log_e",
    "log_b",
)  # of rollouts
COIN = TabularSoftmax([[0.0, 0.0]])  # one state, two actions that are equally likely


def weighted_data(log_e, log_b, ends, rewards=None, gamma: float = 1.0) -> Rollouts:
    """Episodes with given log-probabilities; the last step of each earns 1 unless told otherwise."""
    log_e, log_b, ends = np.asarray(log_e, float), np.asarray(log_b, float), np.asarray(ends)
    rewards = np.isin(np.arange(len(log_e)), ends - 1).astype(float) if rewards is None else np.asarray(rewards, float)
    n = len(ends)
    returns = np.add.reduceat(rewards, np.concatenate([[0], ends[:-1]]))
    zeros = np.zeros((len(log_e), 1))
    return Rollouts(
        gamma, len(log_e), returns, ends, np.ones(n, bool), observations=zeros, actions=zeros, rewards=rewards,
        log_e=log_e, log_b=log_b,
    )  # fmt: skip


# ---- environments ----------------------------------------------------------------------------------------------------

DISCRETE, BOX = gym.spaces.Discrete(3, start=-1), gym.spaces.Box(-0.5, 0.5, (2,), np.float32)
MULTI = gym.spaces.MultiDiscrete([2, 3])


class Walk(gym.Env):
    """A walk of `length` steps that earns what its actions say. Observation: position noise and time."""

    def __init__(self, actions: gym.Space, length: int = 6, shape: tuple[int, ...] = (3,), dtype=np.float32) -> None:
        self.action_space, self.length = actions, length
        image = dtype == np.uint8
        self.observation_space = gym.spaces.Box(0 if image else -np.inf, 255 if image else np.inf, shape, dtype)
        self.seen: list = []

    def _look(self):
        if self.observation_space.dtype == np.uint8:
            return self.np_random.integers(0, 256, self.observation_space.shape, dtype=np.uint8)
        return self.np_random.standard_normal(self.observation_space.shape).astype(self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._look(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.seen.append(action)
        self.t += 1
        over = self.t >= self.length
        return self._look(), float(np.mean(action)), over, False, {"is_success": self.t % 2 == 0} if over else {}


class StructuredWalk(Walk):
    """The same walk with observations of several parts: a Dict of a vector and a Tuple of a number and some flags."""

    def __init__(self, actions: gym.Space, length: int = 6) -> None:
        super().__init__(actions, length)
        parts = gym.spaces.Tuple([gym.spaces.Discrete(4, start=2), gym.spaces.MultiBinary(2)])
        self.observation_space = gym.spaces.Dict({"place": gym.spaces.Box(-5.0, 5.0, (2, 2)), "parts": parts})

    def _look(self):
        place = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        number, flags = 2 + int(self.np_random.integers(4)), self.np_random.integers(2, size=2, dtype=np.int8)
        return {"place": place, "parts": (number, flags)}


STATES = gym.spaces.Discrete(4, start=3)  # numbered states that do not start at 0
RING_LOGITS = np.log([[0.1, 0.9], [0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])  # of a policy for `Ring`


class Ring(gym.Env):
    """States 3 … 6 in a ring; action a goes a steps on. Ends after seven steps."""

    observation_space, action_space = STATES, gym.spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.state = 0, 3 + int(self.np_random.integers(4))
        return self.state, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.t, self.state = self.t + 1, 3 + (self.state - 3 + int(action)) % 4
        return self.state, float(self.state), self.t == 7, False, {}


# ---- work that is done elsewhere -------------------------------------------------------------------------------------

WORK = Work("gridworld", "ros", ("wris", *SAMPLING_ERRORS), (1.0, 2.0, 4.0))
BLOCKS = [
    Block(Work("gridworld", sampler, ("mc",), (1.0, 64.0, 512.0)), 4 * i, 4) for sampler in ("os", "ros") for i in range(20)
]


def square(x: int) -> int:
    if x < 0:
        raise SpecError(f"{x} is negative")
    return x * x


# ---- the machine -----------------------------------------------------------------------------------------------------


@contextmanager
def full_disk() -> Iterator[None]:
    """The system refuses to let any file grow beyond 100 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def command(*arguments: str, cwd=None) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, which a server forks that has loaded what commands load."""
    environment = frozenset(item for item in os.environ.items() if item[0] != "PYTEST_CURRENT_TEST")
    server = _server(environment, resource.getrlimit(resource.RLIMIT_FSIZE))
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        out.touch(), err.touch()
        asked = {"arguments": arguments, "cwd": str(Path(cwd or ".").resolve()), "out": str(out), "err": str(err)}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(["evenroll", *arguments], code, out.read_text(), err.read_text())


@functools.cache
def _server(*inherited: Any) -> subprocess.Popen[str]:
    """One for each process that tests, and another where what a child would inherit has changed. It ends with its pipe."""
    words = [sys.executable, "-m", "tests.command_server"]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    atexit.register(server.communicate)
    return server
