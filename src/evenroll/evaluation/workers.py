"""One evaluation on many workers: a source of episodes that are collected in rounds of blocks, wherever there is room.

The blocks of a round start from one snapshot of the balance and hand back what they have added to it
(collection/merging.py). Which blocks there are depends on nothing but the number of episodes so far. So the data is the same
for any number of workers, in threads, processes or on a cluster, and however many of them die.
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.adapters.loading import load_domain
from evenroll.adapters.model import Model
from evenroll.adapters.normalization import Normalization, is_normalised, unnormalised
from evenroll.adapters.surroundings import cut_after, environment_name, warnings_of
from evenroll.collection.balance import Balance, Divergence, action_stream
from evenroll.collection.merging import State, count, merge, snapshot, sums_of
from evenroll.collection.recorder import Recorder
from evenroll.collection.resets import Resets, reset_further
from evenroll.collection.rollouts import Rollouts
from evenroll.domains.domain import Domain
from evenroll.errors import CollectionFault, DataError, SpecError
from evenroll.evaluation.block_data import checked, half_said, joined
from evenroll.evaluation.episode_blocks import Block, Collected, Task, collect_block, round_after
from evenroll.evaluation.recipes import Recipe, close_all, environment_text, key_of, policy_to_send
from evenroll.evaluation.sources import Source, source_of
from evenroll.evaluation.spool import Spool
from evenroll.executors.kept import KeptPool
from evenroll.executors.pool import Pool, completed, get_pool
from evenroll.samplers import OnPolicy
from evenroll.samplers.table import SamplerLike, get_sampler
from evenroll.text.specs import share, whole_number

IN_EPISODES = "workers count episodes, not steps: short episodes would be favoured"


class WorkersSource:
    """An environment that workers make for themselves, by its id or by a function of a module.

    environment, policy  what `recipes.environment_text` and `recipes.policy_to_send` accept
    workers, executor    see `executors.pool.get_pool`; a pool that is kept may serve several sources, which end together
    spool                a directory in which finished blocks are kept (`spool.Spool`)
    keep                 whether observations are kept; None keeps small ones
    warned               what is known to be amiss beforehand
    """

    certain = False  # nobody can tell of an environment that lives elsewhere

    def __init__(
        self, environment: Any, policy: Any, sampler: SamplerLike = "auto", *, gamma: float | None = None, seed: int = 0,
        horizon: int | None = None, initial: Any = None, deterministic: bool = False, resets: int | None = None,
        workers: int | None = None, executor: str | Pool | KeptPool = "threads", spool: str | Path | None = None,
        keep: bool | None = None, warned: tuple[str, ...] = (), normalization: Normalization | None = None,
    ) -> None:  # fmt: skip
        gamma, seed = share("gamma", 1.0 if gamma is None else gamma), whole_number("seed", seed, 0)
        self._pool = executor if isinstance(executor, KeptPool) else KeptPool(get_pool(executor, workers))
        self.resets = Resets(None if resets is None else whole_number("resets", resets, 0))
        recipe = Recipe(
            environment_text(environment), policy_to_send(policy), get_sampler(sampler), gamma, seed, horizon,
            deterministic, keep=keep, normalization=normalization,
        )  # fmt: skip
        made = recipe.make()
        self._closing = [made.env.close]
        try:
            self.env, model = made.env, made.model
            self.recorder = Recorder(
                model, recipe.sampler, gamma=gamma, seed=seed, horizon=horizon, initial=initial, keep_observations=keep
            )
            self._closing.append(self.recorder.close)
            if self.recorder.ros is not None:
                raise SpecError("ros through torch cannot run on several workers: use auto or os")
            self.policy, self.sampler = model.engine, self.recorder.sampler if model.engine is not None else OnPolicy()
            if model.engine is not None:
                sums_of(self.sampler, model.engine)
            before = self.recorder.initial
            self.recipe = dataclasses.replace(
                recipe, place=action_stream(seed, before), starts=self.recorder.starts,
            )  # fmt: skip
            identity = self.recipe.identity(made.env) | {"initial": _digest(before)}
            self.key = key_of(self.recipe.identity(made.env))
            self.name, self.seed, self.described = environment_name(made.env), seed, model.described
            self.limit = min((n for n in (horizon, cut_after(made.env)) if n is not None), default=None)
            missing = () if is_normalised(made.env) or isinstance(policy, type) else unnormalised(policy)
            self._warnings = tuple(dict.fromkeys((*warned, *missing, *warnings_of(made.env))))
            for text in self._warnings:
                warnings.warn(text, UserWarning, stacklevel=2)
            self.spool = None if spool is None else Spool(spool, identity)
        except BaseException:
            self.close()
            raise
        self._found: dict[Block, Collected] = {}
        self._found_episodes = self._found_steps = 0  # those of the blocks that were found, all of them
        self._balanced = self._balance is not None and not self.sampler.on_policy
        self._round = round_after(0, self._balanced)
        self._state: State | None = None
        self._asked = 0  # how many episodes were asked for; the last block may have brought a few more
        self._known: tuple[int, int, Rollouts] | None = None

    # ---- what `Source` promises ------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        return self.recorder.model

    @property
    def initial(self) -> Rollouts | None:
        return self.recorder.initial

    @property
    def _balance(self) -> Balance | None:
        return None if self.recorder.stepper is None else self.recorder.stepper.balance

    @property
    def warnings(self) -> tuple[str, ...]:
        damaged = () if self.spool is None else tuple(self.spool.damaged)
        again = (f"blocks of the spool were damaged, and collected again: {', '.join(damaged)}",) if damaged else ()
        return (*self._warnings, *half_said(self._in_order()), *again)

    @property
    def remark(self) -> str | None:
        return self.recorder.model.remark(self._new().column("actions"))

    @property
    def episodes(self) -> int:
        return min(self._found_episodes, self._asked)

    @property
    def steps(self) -> int:
        return self._new().steps

    @property
    def divergence(self) -> Divergence:
        if self._balance is None:
            return Divergence(0.0, 0.0, 0.0)
        count(self._balance, [found.added for found in self._in_order()])
        return self._balance.divergence

    @property
    def open_episodes(self) -> int:
        """Episodes of the running round that were asked for and are not there: an interrupt leaves them out."""
        return sum(min(b.end, self._asked) - b.first for b in self._round if b not in self._found and b.first < self._asked)

    def collect(self, episodes: int | None, steps: int | None, *, at_once: bool) -> Iterator[int]:
        if episodes is None:
            raise SpecError(IN_EPISODES)
        self._asked = max(self._asked, episodes)
        while self._round[0].first < episodes:
            try:
                for _ in self._collect_round(episodes):
                    yield self.episodes
            except CollectionFault as fault:
                fault.rollouts = self.rollouts(unfinished=False)
                raise
            if any(block not in self._found for block in self._round):
                break
            self._next_round()
        self.check_copy()
        self._reset_further()

    def whole_rounds(self, episodes: int) -> int:
        """How many episodes there are when the round ends in which this many are reached."""
        end = 0
        while end < episodes:
            end = round_after(end, self._balanced)[-1].end
        return end

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        data = self._new()
        if self.recorder.initial is not None:
            data = data.after(self.recorder.initial)
        used = max((block.end for block in self._found), default=0)
        data = dataclasses.replace(data, starts=self.recipe.starts + used, resets=self.resets.observations())
        model = self.recorder.model
        if data.resets is None or data.observations is None or model.critic is None or data.episodes == 0:
            return data
        own, more = (model.critic(model.observations.shaped(rows)) for rows in (data.start_observations(), data.resets))
        return dataclasses.replace(data, critic=(own, more)) if np.isfinite(own).all() and np.isfinite(more).all() else data

    def last_observations(self) -> dict[int, np.ndarray]:
        """The observation after the last step of each finished trajectory, where it is known, by its place among the new."""
        rows = [row for found in self._in_order() for row in found.columns.get("last", [None] * len(found.columns["ends"]))]
        return {i: row for i, row in enumerate(rows[: self._asked]) if row is not None}

    def close(self) -> None:
        self._pool.close()
        if hasattr(self, "key"):
            close_all(self.key)
        if getattr(self, "spool", None) is not None:
            self.spool.close()  # type: ignore[union-attr]
            self.spool = None
        for close in self._closing:
            close()
        self._closing = []

    # ---- rounds ----------------------------------------------------------------------------------------------------

    def _collect_round(self, episodes: int) -> Iterator[None]:
        """Collect the blocks of this round that begin before so many episodes, and are not there."""
        if self._state is None and self._balance is not None:
            self._state = self._snapshot(self._balance)
        wanted = [block for block in self._round if block.first < episodes and block not in self._found]
        for block in wanted:
            found = None if self.spool is None else self._spooled(block)
            if found is not None:
                self._keep(block, found)
                yield
        missing = (Task(self.recipe, self.key, block, self._state) for block in wanted if block not in self._found)
        for task, found in completed(collect_block, missing, self._pool.pool):
            if self.spool is not None:
                self.spool.save(task.block, self._state, found)
            self._keep(task.block, found)
            yield

    def _keep(self, block: Block, found: Collected) -> None:
        self._found[block] = found
        self._found_episodes += block.count
        self._found_steps += found.steps

    def _spooled(self, block: Block) -> Collected | None:
        assert self.spool is not None
        found = self.spool.load(block, self._state)
        if found is None:
            return None
        try:
            return checked(found, block, self.recorder, self._state)
        except DataError as error:
            self.spool.damaged.append(f"block {block.first} ({error})")
            return None

    def _snapshot(self, balance: Balance) -> State:
        lengths, blocks = self._found_steps / max(self._found_episodes, 1), len(self._round)
        return snapshot(balance, blocks, lengths * sum(block.count for block in self._round))

    def _next_round(self) -> None:
        if self._balance is not None:
            merge(self._balance, [self._found[block].added for block in self._round])
        self._round, self._state = round_after(self._round[-1].end, self._balanced), None

    def _in_order(self) -> list[Collected]:
        return [self._found[block] for block in sorted(self._found, key=lambda block: block.first)]

    def _new(self) -> Rollouts:
        """The new data: every finished block, in the order of their numbers, up to the episodes that were asked for."""
        known = self._known
        if known is None or known[:2] != (len(self._found), self._asked):
            data = joined(self._in_order(), self.recorder, self._asked)
            self._known = known = (len(self._found), self._asked, data)
        return known[2]

    def check_copy(self) -> None:
        """Raise if the policy, asked again about observations that were met, disagrees with what was done there."""
        data = self._new()
        if data.observations is not None:
            handed = None
            if data.features is not None and data.outputs is not None:
                handed = np.append(data.features[:, :-1], data.outputs, axis=1)
            self.recorder.model.check(data.observations, data.column("actions"), handed)

    def _reset_further(self) -> None:
        if not self.recorder.keeps:
            return
        noted = None if self.spool is None else self.spool.resets(self._asked)
        asked = self.resets.asked
        if noted is not None and asked is None:
            self.resets.asked = noted[0]
        found = self._in_order()
        seconds, reset = sum(f.seconds for f in found), min((f.reset for f in found), default=0.0)
        if self.resets.asked is not None and not np.isfinite(reset):
            reset = 0.0
        reset_further(self.resets, self.steps, seconds, reset, self.env, self.recorder.model, self.seed)
        if noted is not None:
            self.resets.asked, self.resets.why = asked, noted[1]
        elif self.spool is not None:
            self.spool.note_resets(self._asked, self.resets.count, self.resets.why)


def _digest(initial: Rollouts | None) -> str | None:
    """What tells one set of initial data from another."""
    if initial is None:
        return None
    digest = hashlib.sha256()
    for name in ("observations", "actions", "rewards", "ends"):
        digest.update(np.ascontiguousarray(initial.column(name)).tobytes())
    return digest.hexdigest()


def named_source(
    environment: str, policy: str | None, sampler: SamplerLike, workers: int | None, executor: str | None,
    spool: Path | None, envs: int | None, **settings: Any,
) -> WorkersSource | None:  # fmt: skip
    """The source that a command's options ask for: `--workers`, `--executor`, `--spool`. Without any of them it is None.

    environment, policy  what the command line names
    envs                 environments side by side, which a worker has not
    settings             what else `WorkersSource` takes
    """
    if workers is None and executor is None and spool is None:
        return None
    if envs is not None:
        raise SpecError("--envs runs environments side by side in this process: give it or --workers, not both")
    refuse_domain(environment)
    executor = "threads" if executor is None else executor
    return WorkersSource(environment, policy, sampler, workers=workers, executor=executor, spool=spool, **settings)


def refuse_domain(domain: Any) -> None:
    """Raise if this is a domain, by its name or as an object."""
    loaded = load_domain(domain) if isinstance(domain, str) else domain
    if isinstance(loaded, Domain):
        instead = "" if loaded.gymnasium_id is None else f"; its Gymnasium environment does it: {loaded.gymnasium_id}"
        raise SpecError(f"workers are for environments; {loaded.name} runs a whole trial in compiled code{instead}")


def any_source(
    domain: Any, policy: Any, sampler: SamplerLike, *, workers: int | None = None, executor: str | Pool | None = None,
    spool: str | Path | None = None, warned: tuple[str, ...] = (), **settings: Any,
) -> Source:  # fmt: skip
    """The source for a domain or an environment, by name or as an object; on workers where one of these asks for them."""
    if workers is None and executor is None and spool is None:
        return source_of(domain, policy, sampler, warned=warned, **settings)
    refuse_domain(domain)
    return WorkersSource(
        domain, policy, sampler, workers=workers, executor="threads" if executor is None else executor, spool=spool,
        warned=warned, **settings,
    )  # fmt: skip
