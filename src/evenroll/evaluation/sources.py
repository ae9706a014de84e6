"""Sources of episodes: a domain in compiled code, or an environment that lives elsewhere.

`evaluate` knows a source only by the protocol `Source`. So whatever collects episodes is validated, looked at, reported and
printed in the same way.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from evenroll.adapters.loading import as_environment, load_domain
from evenroll.adapters.model import as_model
from evenroll.adapters.normalization import is_normalised, unnormalised
from evenroll.adapters.surroundings import cut_after, environment_name, warnings_of
from evenroll.adapters.vector_environments import as_lanes, spaces_of
from evenroll.collection.balance import Divergence, action_stream
from evenroll.collection.environments import collect
from evenroll.collection.given_data import as_rollouts
from evenroll.collection.recorder import Recorder
from evenroll.collection.resets import Resets, reset_further
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.seeing import see
from evenroll.collection.trial import Driver
from evenroll.domains.domain import Domain
from evenroll.errors import CollectionFault, SpecError
from evenroll.policies import External, Policy
from evenroll.samplers import OnPolicy, Sampler
from evenroll.samplers.table import SamplerLike, get_sampler
from evenroll.text.specs import whole_number

FIRST_PART = 16  # episodes (or steps) that are collected before a domain first tells how far it is; a choice
RESETS = 3  # the stream of random numbers that a domain's further resets draw from
PART_SECONDS = 0.1  # about how long each part takes from then on; a choice


class Source(Protocol):
    """Where episodes come from.

    name       the name of the domain or environment
    described  how the policy is run, in a few words
    remark     what to know of the policy, such as why nothing was balanced
    policy     what chooses actions in compiled code. It is None if the policy is run as it is.
    sampler    how actions are chosen
    seed       the seed; the same seed gives the same episodes
    warnings   what a result has to say about what stands around the environment
    certain    whether nothing but the actions is left to chance, for all that can ever happen there
    episodes   how many new episodes have finished so far
    steps      how many new steps were taken so far
    resets     what further resets have shown, beside those that the episodes began with
    open_episodes  how many episodes have begun and not ended
    limit      the number of steps that no new episode can exceed, if there is one that is known
    """

    name: str
    described: str
    policy: Policy | None
    sampler: Sampler
    seed: int
    resets: Resets
    certain: bool
    limit: int | None

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def remark(self) -> str | None: ...
    @property
    def episodes(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def divergence(self) -> Divergence: ...
    @property
    def open_episodes(self) -> int: ...
    def collect(self, episodes: int | None, steps: int | None, *, at_once: bool) -> Iterator[int]:
        """Go on until there are this many new episodes, or steps, in all.

        The number so far is yielded now and then, for those who show progress. `at_once` means that nobody does. At the end
        the environment is reset some more times, to see what starts there are.
        """

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        """All the data so far, initial data in front; also after an interrupt or a fault, at whatever moment it came."""

    def close(self) -> None:
        """Leave policy and environment as they were before."""


class DomainSource:
    """A domain, built in or one's own. Whole trials run in compiled code."""

    remark: str | None = None
    warnings: tuple[str, ...] = ()  # a domain has no wrappers

    def __init__(
        self, domain: Domain, policy: Any, sampler: SamplerLike, *, gamma: float | None, seed: int, horizon: int | None,
        initial: Any, deterministic: bool, resets: int | None = None,
    ) -> None:  # fmt: skip
        gamma = domain.gamma if gamma is None else gamma
        initial = None if initial is None else as_rollouts(initial, gamma)
        seed = whole_number("seed", seed, 0)
        model = as_model(domain.policy() if policy is None else policy, None, None, deterministic=deterministic)
        if model.engine is None or isinstance(model.engine, External):
            raise SpecError(_as_environment(domain, model.engine is None, deterministic))
        self.name, self.described, self.seed = str(domain), model.described, seed
        engine = model.engine
        self.policy: Policy | None = engine
        self.sampler = get_sampler(sampler, domain.paper, initial is not None)
        known = domain.known_truth(engine) if self.sampler.needs_weights else None
        longest = domain.horizon if horizon is None else whole_number("horizon", horizon, 1)
        self.limit: int | None = longest
        self.driver = Driver(
            engine,
            self.sampler,
            action_stream(seed, initial),
            gamma=gamma,
            horizon=longest,
            record_steps=True,
            value=known.value if known else 1.0,
            initial=None if initial is None else see(model, initial),
        )
        self.environment = domain.trial_environment((seed,))
        self.environment.check(engine)
        self.resets, self.certain = Resets(_asked(resets)), self.environment.certain
        self._data: Rollouts | None = None
        self._parts: list[Rollouts] = []  # what was collected since `_data` was put together

    @property
    def episodes(self) -> int:
        return int(self.driver.balance.clock.episodes)

    @property
    def steps(self) -> int:
        return int(self.driver.balance.clock.steps)

    @property
    def divergence(self) -> Divergence:
        return self.driver.divergence

    @property
    def open_episodes(self) -> int:
        return 0  # the data of a trial says so itself (`unfinished`)

    def collect(self, episodes: int | None, steps: int | None, *, at_once: bool) -> Iterator[int]:
        part = FIRST_PART
        goal = episodes if episodes is not None else steps or 0
        done = self.episodes if episodes is not None else self.steps
        while done < goal:
            upto = goal if at_once else min(goal, done + part)
            started = time.perf_counter()
            limits = {"episodes": None if episodes is None else upto, "steps": None if steps is None else upto}
            try:
                self._parts.append(self.driver.run(self.environment, **limits))
            except CollectionFault as fault:
                fault.rollouts = self.rollouts(unfinished=False)
                raise
            done = upto
            part = max(1, int(part * min(PART_SECONDS / max(time.perf_counter() - started, 1e-6), 8.0)))
            yield done
        more = self.resets.wanted(self.steps, seconds=1.0, one=0.0) - self.resets.count  # a compiled reset is a step's work
        if more > 0:
            rng = np.random.default_rng((self.seed, RESETS, self.resets.count))
            self.resets.add(self.environment.starts(rng, more))

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        data = self._data
        if self.driver.waiting or (data is None and not self._parts):
            self._parts.append(self.driver.run(self.environment, steps=0))
        for part in self._parts:
            data = part if data is None else data.continued(part)
        assert data is not None
        self._data, self._parts = data, []
        data = replace(data, resets=self.resets.observations())
        return data if unfinished else data.finished()

    def close(self) -> None:
        """There is nothing to give back."""


class EnvironmentSource:
    """A Gymnasium environment, a vector environment, or Stable-Baselines3's."""

    certain = False  # nobody can tell of an environment that lives elsewhere

    def __init__(
        self, env: Any, policy: Any, sampler: SamplerLike, *, gamma: float | None, seed: int, horizon: int | None,
        initial: Any, deterministic: bool, in_rounds: bool = False, warned: tuple[str, ...] = (),
        resets: int | None = None,
    ) -> None:  # fmt: skip
        """in_rounds and what they are for: see `collect`. `warned` is what is known to be amiss beforehand."""
        if policy is None:
            raise SpecError("an environment needs a policy")
        self.env = as_environment(env)
        self._ours, self.in_rounds = self.env is not env, in_rounds
        self.resets, self._seconds = Resets(_asked(resets)), 0.0
        lanes = as_lanes(self.env)
        observation_space, action_space = spaces_of(self.env)
        self.recorder = Recorder(
            policy,
            sampler,
            gamma=1.0 if gamma is None else gamma,
            seed=seed,
            observation_space=observation_space,
            action_space=action_space,
            lanes=None if lanes is None else lanes.n,
            horizon=horizon,
            initial=initial,
            deterministic=deterministic,
        )
        self.name, self.seed = environment_name(self.env), seed
        cut = cut_after(self.env) if lanes is None else None
        self.limit = min((n for n in (horizon, cut) if n is not None), default=None)
        missing = () if is_normalised(self.env) else unnormalised(policy)
        self._warnings = tuple(dict.fromkeys((*warned, *missing, *warnings_of(self.env))))
        for text in self._warnings:
            warnings.warn(text, UserWarning, stacklevel=2)
        self.described, self.policy = self.recorder.model.described, self.recorder.model.engine
        self.sampler = self.recorder.sampler if self.policy is not None else OnPolicy()

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self._warnings, *self.recorder.half_said)

    @property
    def episodes(self) -> int:
        return self.recorder.episodes

    @property
    def steps(self) -> int:
        return self.recorder.steps

    @property
    def divergence(self) -> Divergence:
        return self.recorder.divergence

    @property
    def open_episodes(self) -> int:
        return sum(episode >= 0 for episode in self.recorder._episode)

    @property
    def remark(self) -> str | None:
        return self.recorder.remark

    def collect(self, episodes: int | None, steps: int | None, *, at_once: bool) -> Iterator[int]:
        started = time.perf_counter()
        for done in collect(self.recorder, self.env, episodes=episodes, steps=steps, in_rounds=self.in_rounds):
            self._seconds += time.perf_counter() - started
            yield done if episodes is not None else self.recorder.steps
            started = time.perf_counter()
        self.recorder.check_copy()
        if self.recorder.keeps:
            seeded = self.recorder.fastest_reset
            reset_further(self.resets, self.steps, self._seconds, seeded, self.env, self.recorder.model, self.seed)

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        data = replace(self.recorder.rollouts(unfinished), resets=self.resets.observations())
        model = self.recorder.model
        if data.resets is None or data.observations is None or model.critic is None or data.episodes == 0:
            return data
        own, more = (model.critic(model.observations.shaped(rows)) for rows in (data.start_observations(), data.resets))
        return replace(data, critic=(own, more)) if np.isfinite(own).all() and np.isfinite(more).all() else data

    def close(self) -> None:
        self.recorder.close()
        if self._ours:
            self.env.close()


def _asked(resets: int | None) -> int | None:
    return None if resets is None else whole_number("resets", resets, 0)


def _as_environment(domain: Domain, certain: bool, deterministic: bool) -> str:
    """What to do with a policy that leaves nothing to balance, or runs through torch: no domain is compiled for these."""
    name, more = domain.gymnasium_id, ", deterministic=True" if deterministic else ""
    env = "evenroll.domains.gymnasium_env.make_environment(domain)" if name is None else repr(name)
    why = "is deterministic, so there is nothing to balance" if certain else "runs through torch"
    text = (
        f"the policy {why}, and {domain.name} is compiled for policies that are tables or MLPs; its Gymnasium environment "
        f"does it: evenroll.evaluate({env}, policy{more})"
    )
    options = " --deterministic" if deterministic else ""
    return text if name is None else f"{text}, or evenroll evaluate {name} --policy FILE{options}"


def source_of(
    domain: Any, policy: Any, sampler: SamplerLike, *, warned: tuple[str, ...] = (), **settings: Any
) -> DomainSource | EnvironmentSource:
    """The source for a domain or an environment, by name or as an object."""
    loaded = load_domain(domain) if isinstance(domain, str) else domain
    if isinstance(loaded, Domain):
        return DomainSource(loaded, policy, sampler, **settings)
    return EnvironmentSource(domain, policy, sampler, warned=warned, **settings)
