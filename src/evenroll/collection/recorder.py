"""The recorder chooses actions and records what comes of them: `act`, `observe`, `rollouts`.

Several environments side by side (`lanes`) share one balance. Each step then takes and gives arrays.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.model import Model, as_model
from evenroll.collection.balance import Divergence, action_stream
from evenroll.collection.faults import Faults
from evenroll.collection.given_data import as_rollouts
from evenroll.collection.lanes import BAD_OBSERVATION, SOUND, Lanes
from evenroll.collection.recorded import (
    HALF_ACT,
    HALF_OBSERVE,
    TWICE,
    Ending,
    assembled,
    batch_of,
    columns_for,
    ending_of,
    endings_of,
)
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.seeing import handed_in, see
from evenroll.engine import border
from evenroll.errors import EnvironmentFault, PolicyFault, SpecError
from evenroll.policies import MLP, External
from evenroll.samplers import ROS, OnPolicy
from evenroll.samplers.table import SamplerLike, get_sampler
from evenroll.text.specs import share, whole_number

if TYPE_CHECKING:
    from evenroll.adapters.ros_through_torch import RosThroughTorch

LONGEST_EPISODE = 1_000_000  # steps after which an episode of somebody's own loop is thought never to end
CHUNK = 1024  # observations that go through a network at once
NOISE = 5  # the stream of random numbers of policies that draw noise of their own
NO_ENDING: Ending = (math.nan, None)
MOST_LANES = 100_000  # with so many, a step of a small network takes a tenth of a second


class Recorder(Faults):
    """Chooses actions so that the data as a whole is on-policy, and keeps the data.

    policy    whatever `evaluate` takes
    sampler   "auto", "os", "ros:alpha=…", or an object
    horizon   steps after which we cut a trajectory (it counts as truncated), beside the environment's own limit
    initial   data to start from (rollouts, a file, a data frame …): both together are collected to be on-policy
    lanes     how many environments run side by side: `act` and `observe` then take and give arrays [lanes, …]
    """

    def __init__(
        self,
        policy: Any,
        sampler: SamplerLike = "auto",
        *,
        gamma: float = 1.0,
        seed: int = 0,
        observation_space: gym.Space[Any] | None = None,
        action_space: gym.Space[Any] | None = None,
        lanes: int | None = None,
        horizon: int | None = None,
        initial: Any = None,
        deterministic: bool = False,
        keep_observations: bool | None = None,
        compile: bool = True,
    ) -> None:
        gamma = share("gamma", gamma)
        for what, count in (("lanes", lanes), ("horizon", horizon)):
            if count is not None:
                whole_number(what, count, 1)
        if lanes is not None and horizon is not None:
            raise SpecError("a horizon is for a single environment; of several, wrap each in gymnasium.wrappers.TimeLimit")
        if lanes is not None and lanes > MOST_LANES:
            raise SpecError(f"there can be at most {MOST_LANES:,} lanes")
        seed = whole_number("seed", seed, 0)
        chosen = get_sampler(sampler)
        self.model: Model = (
            policy
            if isinstance(policy, Model)
            else as_model(policy, observation_space, action_space, deterministic=deterministic, compile=compile)
        )
        self.step_gamma, self.seed, self.horizon = gamma, seed, horizon
        self.gamma = gamma = gamma**self.model.chunk  # that of a decision, of which several actions may come
        self.longest, self.fastest_reset = LONGEST_EPISODE, math.inf  # steps of an episode, seconds of a reset
        self.batched, self.lanes = lanes is not None, lanes or 1
        lanes = self.lanes
        self.asked = chosen
        self.stepper: Lanes | None = None
        self.ros: RosThroughTorch | None = None
        self.initial = None if initial is None else see(self.model, as_rollouts(initial, gamma))
        engine = self.model.engine
        if engine is None:
            chosen = OnPolicy()  # a deterministic policy leaves nothing to balance
        elif isinstance(chosen, ROS) and isinstance(engine, External) and self.model.torch is not None:
            from evenroll.adapters.ros_through_torch import RosThroughTorch

            self.ros = RosThroughTorch(self.model.torch, chosen.alpha)
            if self.initial is not None:
                self._ros_learns(self.initial.column("observations"), self.initial.column("actions"))
            plain = External(0, choices=engine.choices, gaussian=self.model.actions.real)
            self.stepper = Lanes(plain, OnPolicy(), (seed,), gamma=gamma, lanes=lanes)
        else:
            place, handed = action_stream(seed, self.initial), handed_in(engine, self.initial)
            self.stepper = Lanes(engine, chosen, place, gamma=gamma, lanes=lanes, initial=handed)
        self.sampler = chosen
        self.columns, self.keeps = columns_for(self.model, keep_observations)
        # Each lane has the episode that it runs (−1: none) and its length. Pending are the lanes that wait for a reward.
        self._episode, self._length = [-1] * lanes, [0] * lanes
        self._pending: list[int] = []
        self._begun = self._row = 0
        self._complete = 0  # rows whose reward is known
        self._blocked = ""  # why neither act nor observe may be called now: an interrupt, or an open episode after resume
        self._ended: list[tuple[int, bool, float]] = []  # episode, terminated, success (nan: the environment did not say)
        self._last: dict[int, np.ndarray] = {}  # the observation after an episode's last step, where given
        self._everyone = np.ones(lanes, dtype=np.int64) if self.stepper is None else self.stepper.everyone
        self._shape = self.model.observations.shape
        self._flat = not self.batched and isinstance(engine, MLP) and len(self._shape) == 1
        self._width = self._shape[0] if self._flat and self._shape[0] > 1 else -1  # one number fits too many shapes
        self._number: Any = None  # the type of the last observation that went the fast way

    def _ros_learns(self, observations: np.ndarray, actions: np.ndarray) -> None:
        """Full ROS through torch takes in recorded steps [N, …]."""
        assert self.ros is not None
        seen = observations.reshape(len(observations), *self.model.observations.shape).astype(self.model.observations.dtype)
        for i in range(0, len(seen), CHUNK):
            self.ros.learn(seen[i : i + CHUNK], actions[i : i + CHUNK])

    # ---- the loop ------------------------------------------------------------------------------------------------

    @property
    def episodes(self) -> int:
        """How many episodes have finished so far, without the initial data."""
        return len(self._ended)

    @property
    def starts(self) -> int:
        """How many starts the finished episodes have used so far, those of the initial data among them."""
        return len(self._ended) + (0 if self.initial is None else max(self.initial.starts, self.initial.episodes))

    @property
    def half_said(self) -> tuple[str, ...]:
        """What to say where the environment reports a success at the end of some episodes only."""
        told = sum(success == success for _, _, success in self._ended)
        if told in (0, len(self._ended)):
            return ()
        return (
            f"a success is reported at the end of {told} of {len(self._ended)} episodes only, so no success rate is known: "
            'let info["is_success"] be True or False at the end of every episode',
        )

    def order_by_starts(self) -> None:
        """Put the finished episodes into the order in which they began. They are kept in the order of their ends."""
        self._ended.sort()

    @property
    def steps(self) -> int:
        """How many steps have been recorded so far, without the initial data."""
        return self.columns.rows

    def act(self, observation: Any, active: np.ndarray | None = None, masks: Any = None, *, start: bool = False) -> Any:
        """The action(s) to take.

        active  [lanes] in which lanes the step counts; the other lanes get an action all the same
        masks   which actions are allowed, for a policy that takes masks: booleans, or an array of them for each lane
        start   whether this is the first observation of an episode; it is then refused if the last one is still open
        """
        if self._blocked:
            raise SpecError(self._blocked)
        if self._pending:
            raise SpecError(TWICE)
        if start and max(self._episode) >= 0:
            raise SpecError("the last episode has not ended: end it with observe(…, truncated=True), or call abandon()")
        model, stepper = self.model, self.stepper
        who = self._everyone if active is None else border.flags("active", active, self.lanes)
        if self._flat and active is None:  # the fast way, for a compiled network and one environment
            assert stepper is not None
            try:
                if observation.dtype is not self._number or len(observation) != self._width:
                    raise TypeError
                stepper.first[...] = observation
            except (AttributeError, TypeError, ValueError):  # the first one, a list, another shape
                stepper.first[...] = self._looked_at(observation)
            self._blocked = HALF_ACT  # until the step is recorded
            status, one = stepper.once(), stepper.observations
            if status != SOUND:
                self._bad_step(status, one)
            self._record([0], one, one, stepper.actions, stepper.log_e, stepper.log_b)
            return model.actions.to_env(stepper.actions[0])
        batch = batch_of(model, observation, masks, self.lanes, self.batched)
        lanes = np.flatnonzero(who).tolist()
        if model.begin is not None:
            beginning = [lane for lane in lanes if self._episode[lane] < 0]
            for i, lane in enumerate(beginning):
                if model.seeded is not None:
                    model.seeded(int(np.random.SeedSequence((self.seed, NOISE, self._begun + i)).generate_state(1)[0]))
                model.begin(lane, self.lanes)
        if stepper is None:
            return self._decide(batch, lanes)
        assert model.encode is not None
        encoded = self._asked(model.encode if self.ros is None else self.ros.outputs, batch)
        self._blocked = HALF_ACT
        status = stepper.advance(encoded, who)
        if status != SOUND:
            self._bad_step(status, batch)
        log_e = stepper.log_e
        if self.ros is not None:
            log_e = np.zeros(self.lanes)
            log_e[lanes] = self.ros.learn(model.observations.take(batch, lanes), stepper.actions[lanes])
            encoded = model.encode(batch)
        self._record(lanes, encoded, batch, stepper.actions, log_e, stepper.log_b)
        return model.to_env(batch, stepper.actions, self.batched)

    def _looked_at(self, observation: Any) -> np.ndarray:
        """An observation for the fast way. The next ones will have the same type and length: a quick look is then enough."""
        seen = border.numbers("the observation", observation)
        if seen.shape != self._shape:
            raise SpecError(f"the observation must have shape {list(self._shape)}, not {list(seen.shape)}")
        self._number = seen.dtype
        return seen

    def _decide(self, batch: Any, lanes: list[int]) -> Any:
        """Ask a deterministic policy, and record what it says. Its observations must be as finite as anybody's."""
        model = self.model
        assert model.decide is not None
        seen = model.observations.rows(batch)
        for lane in lanes:
            if not np.isfinite(seen[lane]).all():
                self._bad_step(2 * lane + BAD_OBSERVATION, batch)
        actions = self._asked(model.decide, batch)
        rows = model.actions.from_env(actions)
        if rows.shape != (self.lanes, model.actions.dim) or not np.isfinite(rows).all():
            self._bad(PolicyFault, f"the policy gives {actions!r}, which is no action of {model.actions.space}", 0)
        self._record(lanes, seen, batch, rows, None, None)
        return actions if self.batched else actions[0]

    def _record(self, lanes: list[int], encoded: Any, batch: Any, actions: Any, log_e: Any, log_b: Any) -> None:
        """Record one row for every lane given."""
        self._blocked = HALF_ACT
        n, going = len(lanes), self._episode
        row = self._row = self.columns.more(n)
        for lane in lanes:
            if going[lane] < 0:
                going[lane], self._length[lane] = self._begun, 0
                self._begun += 1
        self._pending = lanes
        arrays = self.columns.arrays
        if n == 1 and self.lanes == 1:
            part: Any = row
            rows: Any = 0
        else:
            part, rows = slice(row, row + n), lanes
        arrays["episode"][part, 0] = going[0] if rows == 0 else [going[lane] for lane in lanes]
        arrays["actions"][part] = actions[rows]
        if log_e is not None:
            arrays["log_e"][part, 0] = log_e[rows]
            arrays["log_b"][part, 0] = log_b[rows]
        if "encoded" in arrays:
            arrays["encoded"][part] = encoded[rows]
            if "observations" in arrays:
                arrays["observations"][part] = self.model.observations.rows(batch)[rows]
        elif "observations" in arrays:
            arrays["observations"][part] = encoded[rows]
        self._blocked = ""

    def observe(self, reward: Any, terminated: Any, truncated: Any = False, next_obs: Any = None, info: Any = None) -> Any:
        """Record what came of the last action(s). Returns True (or an array of it) where the trajectory is over.

        A trajectory is also over when it reaches our horizon.

        next_obs  needed only by those who want to save whole trajectories (Minari)
        info      a dictionary, or one for each lane; where a trajectory ends, it may hold a success flag
        """
        if self._blocked:
            raise SpecError(self._blocked)
        lanes, length, limit = self._pending, self._length, self.horizon or self.longest
        if not self.batched:
            if not lanes:
                raise SpecError("observe was called before act")
            try:
                value, over = float(reward), bool(terminated or truncated)
            except (TypeError, ValueError) as error:
                raise SpecError(f"observe takes a reward and two truth values of one environment: {error}") from None
            if not math.isfinite(value):
                self._bad(EnvironmentFault, f"the environment gave reward {value}", 0)
            last = over or length[0] + 1 >= limit
            ending = ending_of(self.model, self.keeps, next_obs, info) if last else NO_ENDING
            self._blocked = HALF_OBSERVE  # until all of it is recorded
            self.columns.arrays["rewards"][self._row, 0] = value
            length[0] += 1
            self._complete, self._pending = self._row + 1, []
            if length[0] >= limit and not over:
                over = self._too_long(0)
            if over:
                self._end(0, bool(terminated), ending)
            self._blocked = ""
            return over
        gains = self._of_lanes("rewards", reward)[lanes]
        if not np.isfinite(gains).all():
            at = int(np.flatnonzero(~np.isfinite(gains))[0])
            self._bad(EnvironmentFault, f"the environment gave reward {gains[at]}", lanes[at])
        cut = np.zeros(self.lanes, dtype=bool) if truncated is False else truncated
        ended, cut = self._flags("terminated", terminated), self._flags("truncated", cut)
        last_ones = [lane for lane in lanes if ended[lane] or cut[lane] or length[lane] + 1 >= limit]
        endings = endings_of(self.model, self.keeps, self.lanes, last_ones, next_obs, info)
        self._blocked = HALF_OBSERVE
        self.columns.arrays["rewards"][self._row : self._row + len(lanes), 0] = gains
        self._complete, self._pending = self._row + len(lanes), []
        done = np.zeros(self.lanes, dtype=bool)
        for lane in lanes:
            length[lane] += 1
            if ended[lane] or cut[lane] or (length[lane] >= limit and self._too_long(lane)):
                done[lane] = True
                self._end(lane, bool(ended[lane]), endings[lane])
        self._blocked = ""
        return done

    def _end(self, lane: int, terminated: bool, ending: Ending) -> None:
        episode, (success, last) = self._episode[lane], ending
        self._ended.append((episode, terminated, success))
        if last is not None:
            self._last[episode] = last
        self._episode[lane] = -1
        if self.stepper is not None:
            self.stepper.end(lane)

    # ---- the data --------------------------------------------------------------------------------------------------

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        """All finished trajectories in the order of their ends. With one lane the unfinished trajectory comes last."""
        going, engine = self._episode[0] if unfinished and self.lanes == 1 else -1, self.model.engine
        width = engine.features_dim if isinstance(engine, External) else 0
        data = assembled(
            self.columns, self._complete, self._begun, self._ended, going, gamma=self.gamma, horizon=self.horizon,
            width=width,
        )  # fmt: skip
        if self.initial is not None:
            data = data.after(self.initial)
        return dataclasses.replace(data, starts=self.starts)

    def last_observations(self) -> dict[int, np.ndarray]:
        """The observation after the last step of each finished trajectory, where it was given.

        The keys are the trajectories' places in `rollouts`.
        """
        return {i: self._last[e] for i, (e, _, _) in enumerate(self._ended) if e in self._last}

    @property
    def divergence(self) -> Divergence:
        """How far the behaviour has been from the policy so far."""
        return Divergence(0.0, 0.0, 0.0) if self.stepper is None else self.stepper.divergence

    def check_copy(self) -> None:
        """Raise if the policy, asked again about observations that were met, disagrees with what was done there."""
        c = self.columns
        if "observations" in c.arrays:
            self.model.check(c["observations"], c["actions"], c["encoded"] if "encoded" in c.arrays else None)

    @property
    def remark(self) -> str | None:
        """What to know of the policy, such as why nothing was balanced."""
        return self.model.remark(self.columns["actions"])

    def close(self) -> None:
        """Leave the user's network as it was found."""
        if self.ros is not None:
            self.ros.close()
        self.model.close()
