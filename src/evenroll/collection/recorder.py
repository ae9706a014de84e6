"""Chooses actions and records what comes of them: `act`, `observe`, `rollouts`, and saving in between.

Several environments side by side (`lanes`) share one balance; each step then takes and gives arrays.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.model import Model, as_model
from evenroll.collection.lanes import BAD_OBSERVATION, SOUND, Lanes
from evenroll.collection.rollouts import Rollouts
from evenroll.errors import DataError, EnvironmentFault, PolicyFault, SpecError
from evenroll.files.safe_files import read_tensors, tensor_bytes, write_atomically
from evenroll.policies import MLP, External, Policy, policy_digest
from evenroll.samplers import ROS, OnPolicy, Sampler
from evenroll.samplers.table import get_sampler
from evenroll.text.numbers import first_line

if TYPE_CHECKING:
    from evenroll.adapters.torch_module import RosThroughTorch

KEPT = 256  # observations of up to so many numbers are kept unless told otherwise
LONGEST_EPISODE = 1_000_000  # steps after which an environment without a limit is thought never to end
KEY = "evenroll.collector"
LARGEST = 4 << 30  # bytes of a saved collector
SUCCESS = ("is_success", "success")  # names under which environments report it in `info`


class Columns:
    """Arrays that grow together, row by row."""

    def __init__(self, kinds: dict[str, tuple[int, Any]]) -> None:
        self.rows, self.room = 0, 1024
        self.arrays = {name: np.zeros((self.room, width), dtype) for name, (width, dtype) in kinds.items()}

    def more(self, n: int) -> int:
        """Make room for n more rows; the number of the first."""
        first = self.rows
        if first + n > self.room:
            self.room = max(2 * self.room, first + n)
            for name, old in self.arrays.items():
                self.arrays[name] = np.zeros((self.room, old.shape[1]), old.dtype)
                self.arrays[name][:first] = old[:first]
        self.rows += n
        return first

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name][: self.rows]


class Recorder:
    """Chooses actions so that the data as a whole is on-policy, and keeps the data.

    policy    whatever `evaluate` takes             sampler  "auto", "os", "ros:alpha=…", or an object
    horizon   steps after which we cut a trajectory (it counts as truncated), beside the environment's own limit
    initial   data to start from: what is collected then makes the whole on-policy
    lanes     environments side by side, if any: `act` and `observe` then take and give arrays [lanes, …]
    """

    def __init__(
        self,
        policy: Any,
        sampler: str | Sampler = "auto",
        *,
        gamma: float = 1.0,
        seed: int = 0,
        observation_space: gym.Space[Any] | None = None,
        action_space: gym.Space[Any] | None = None,
        lanes: int | None = None,
        horizon: int | None = None,
        initial: Rollouts | None = None,
        deterministic: bool = False,
        keep_observations: bool | None = None,
        compile: bool = True,
    ) -> None:
        if not 0.0 <= gamma <= 1.0:
            raise SpecError(f"gamma must lie in [0, 1], not {gamma}")
        if (lanes is not None and lanes < 1) or (horizon is not None and horizon < 1):
            raise SpecError("lanes and horizon must be at least 1")
        if lanes is not None and horizon is not None:
            raise SpecError("a horizon is for a single environment; of several, wrap each in gymnasium.wrappers.TimeLimit")
        chosen = get_sampler(sampler)
        self.model: Model = (
            policy
            if isinstance(policy, Model)
            else as_model(policy, observation_space, action_space, deterministic=deterministic, compile=compile)
        )
        self.gamma, self.seed, self.horizon = gamma, seed, horizon
        self.batched, self.lanes = lanes is not None, lanes or 1
        lanes = self.lanes
        self.asked = chosen
        self.stepper: Lanes | None = None
        self.ros: RosThroughTorch | None = None
        self.initial = None if initial is None else see(self.model, initial)
        engine = self.model.engine
        if engine is None:
            chosen = OnPolicy()  # nothing to balance
        elif isinstance(chosen, ROS) and isinstance(engine, External) and self.model.torch is not None:
            from evenroll.adapters.torch_module import RosThroughTorch

            if self.initial is not None:
                raise SpecError("ros through torch does not start from initial data; auto does")
            self.ros = RosThroughTorch(self.model.torch, chosen.alpha)
            plain = External(0, choices=engine.choices, gaussian=self.model.actions.real)
            self.stepper = Lanes(plain, OnPolicy(), (seed,), gamma=gamma, lanes=lanes)
        else:
            self.stepper = Lanes(engine, chosen, (seed,), gamma=gamma, lanes=lanes, initial=_handed_in(engine, self.initial))
        self.sampler = chosen
        observations, dim = self.model.observations, self.model.actions.dim
        keep = observations.size <= KEPT if keep_observations is None else keep_observations
        self.keeps = keep
        kinds: dict[str, tuple[int, Any]] = {
            "episode": (1, np.int64), "actions": (dim, np.float64), "rewards": (1, np.float64),
            "log_e": (1, np.float64), "log_b": (1, np.float64),
        }  # fmt: skip
        if isinstance(engine, External):
            kinds["encoded"] = (engine.obs_dim, np.float32)
        if keep or not isinstance(engine, External):
            kinds["observations"] = (observations.size, np.float64 if engine is not None else observations.dtype)
        self.columns = Columns(kinds)
        # Of each lane: the episode that runs (−1: none) and its length. Pending: the lanes that acted and wait for a reward.
        self._episode, self._length = [-1] * lanes, [0] * lanes
        self._pending: list[int] = []
        self._begun = self._row = 0
        self._ended: list[tuple[int, bool, float]] = []  # episode, terminated, success (nan: not told)
        self._last: dict[int, np.ndarray] = {}  # the observation after an episode's last step, where given
        self._everyone = np.ones(lanes, dtype=np.int64)
        self._one = np.zeros((1, observations.size))
        self._flat = not self.batched and isinstance(engine, MLP) and len(observations.shape) == 1

    # ---- the loop ------------------------------------------------------------------------------------------------

    @property
    def episodes(self) -> int:
        """Finished so far, initial data apart."""
        return len(self._ended)

    @property
    def steps(self) -> int:
        return self.columns.rows

    def act(self, observation: Any, active: np.ndarray | None = None) -> Any:
        """The action(s) to take. `active` [lanes]: those whose step counts; the others get an action all the same."""
        if self._pending:
            raise SpecError("act was called twice without observe in between")
        model, stepper = self.model, self.stepper
        who = self._everyone if active is None else np.asarray(active, dtype=np.int64)
        if self._flat:  # the fast way: a compiled network, one environment
            assert stepper is not None
            self._one[0] = observation
            status = stepper.advance(self._one, who)
            if status != SOUND:
                self._bad_step(status, self._one)
            self._record([0], self._one, self._one, stepper.actions, stepper.log_e, stepper.log_b)
            return model.actions.to_env(stepper.actions[0])
        batch = observation if self.batched else np.asarray(observation)[None]
        lanes = np.flatnonzero(who).tolist()
        if stepper is None:
            assert model.decide is not None
            actions = model.decide(batch)
            rows = model.actions.from_env(actions)
            self._record(lanes, model.observations.rows(batch), batch, rows, None, None)
            return actions if self.batched else actions[0]
        assert model.encode is not None
        encoded = model.encode(batch) if self.ros is None else self.ros.outputs(batch)
        if len(encoded) != self.lanes:
            raise SpecError(f"{len(encoded)} observations were given for {self.lanes} lanes")
        status = stepper.advance(encoded, who)
        if status != SOUND:
            self._bad_step(status, batch)
        log_e = stepper.log_e
        if self.ros is not None:
            log_e = np.zeros(self.lanes)
            log_e[lanes] = self.ros.learn(np.asarray(batch)[lanes], stepper.actions[lanes])
            encoded = model.encode(batch)
        self._record(lanes, encoded, batch, stepper.actions, log_e, stepper.log_b)
        return model.actions.to_envs(stepper.actions) if self.batched else model.actions.to_env(stepper.actions[0])

    def _record(self, lanes: list[int], encoded: Any, batch: Any, actions: Any, log_e: Any, log_b: Any) -> None:
        """One row for every lane given."""
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

    def observe(self, reward: Any, terminated: Any, truncated: Any = False, next_obs: Any = None, info: Any = None) -> Any:
        """What came of the last action(s). True (or an array of it) where the trajectory is over, by our horizon too.

        next_obs  needed only by those who want to save whole trajectories (Minari)
        info      looked at for a success flag where a trajectory ends: a dictionary, or one for each lane
        """
        lanes, length, limit = self._pending, self._length, self.horizon or LONGEST_EPISODE
        if not self.batched:
            if not lanes:
                raise SpecError("observe was called before act")
            value = float(reward)
            if not math.isfinite(value):
                self._bad(EnvironmentFault, f"the environment gave reward {value}", 0)
            self.columns.arrays["rewards"][self._row, 0] = value
            length[0] += 1
            self._pending = []
            over = bool(terminated or truncated)
            if length[0] >= limit and not over:
                over = self._too_long(0)
            if over:
                self._end(0, bool(terminated), next_obs, info)
            return over
        gains = np.asarray(reward, dtype=np.float64)[lanes]
        if not np.isfinite(gains).all():
            at = int(np.flatnonzero(~np.isfinite(gains))[0])
            self._bad(EnvironmentFault, f"the environment gave reward {gains[at]}", lanes[at])
        self.columns.arrays["rewards"][self._row : self._row + len(lanes), 0] = gains
        self._pending = []
        ended, cut = np.asarray(terminated), np.asarray(truncated)
        done = np.zeros(self.lanes, dtype=bool)
        for lane in lanes:
            length[lane] += 1
            if ended[lane] or cut[lane] or (length[lane] >= limit and self._too_long(lane)):
                done[lane] = True
                last = None if next_obs is None else next_obs[lane]
                self._end(lane, bool(ended[lane]), last, None if info is None else info[lane])
        return done

    def _too_long(self, lane: int) -> bool:
        if self.horizon is None:
            text = f"the episode has not ended after {LONGEST_EPISODE:,} steps; give a horizon to cut it"
            self._bad(EnvironmentFault, text, lane)
        return True

    def _end(self, lane: int, terminated: bool, last: Any, info: Any) -> None:
        told = next((float(bool(info[name])) for name in SUCCESS if info and name in info), math.nan)
        episode = self._episode[lane]
        self._ended.append((episode, terminated, told))
        if last is not None and self.keeps:
            self._last[episode] = np.array(last)
        self._episode[lane] = -1
        if self.stepper is not None:
            self.stepper.end(lane)

    # ---- what can go wrong -----------------------------------------------------------------------------------------

    def _bad_step(self, status: int, batch: Any) -> None:
        lane = status // 2
        if status % 2 == BAD_OBSERVATION:
            seen = np.asarray(batch, dtype=np.float64)[lane]
            if not np.isfinite(seen).all():
                self._bad(EnvironmentFault, f"the observation is not finite ({seen})", lane)
            self._bad(PolicyFault, f"the policy's output is not finite for observation {seen}", lane)
        self._bad(PolicyFault, "the policy gives the action it took probability 0", lane)

    def _bad(self, kind: type[EnvironmentFault] | type[PolicyFault], text: str, lane: int) -> None:
        going = self._episode[lane] >= 0
        episode, step = (self._episode[lane], self._length[lane]) if going else (self._begun, 0)
        where = f"episode {episode}, step {step}, seed {self.seed}" + (f", lane {lane}" if self.batched else "")
        kept = self.rollouts(unfinished=False)
        note = f"; {kept.episodes} finished episodes are kept (error.rollouts)" if kept.episodes else ""
        raise kind(f"{text}: {where}{note}", episode=episode, step=step, seed=self.seed, rollouts=kept)

    # ---- the data --------------------------------------------------------------------------------------------------

    def rollouts(self, unfinished: bool = True) -> Rollouts:
        """All finished trajectories in the order of their end, and the one under way if there is only one lane."""
        c = self.columns
        n = len(self._ended)
        rank = np.full(self._begun + 1, -1, dtype=np.int64)
        rank[[e for e, _, _ in self._ended]] = np.arange(n)
        if unfinished and self.lanes == 1 and self._episode[0] >= 0:
            rank[self._episode[0]] = n
        ranks = rank[c["episode"][:, 0]]
        if self._pending:  # rewards not known yet
            ranks[self._row :] = -1
        rows = np.flatnonzero(ranks >= 0)
        rows = rows[np.argsort(ranks[rows], kind="stable")]
        lengths = np.bincount(ranks[rows], minlength=n + 1)
        ends = np.cumsum(lengths[:n])
        start = np.repeat(np.cumsum(lengths) - lengths, lengths)
        rewards = c["rewards"][rows, 0]
        t = np.arange(len(rows)) - start
        returns = np.bincount(ranks[rows], self.gamma ** t.astype(np.float64) * rewards, minlength=n + 1)[:n]
        log_e, log_b = c["log_e"][rows, 0], c["log_b"][rows, 0]
        success = np.array([told for _, _, told in self._ended])
        features = outputs = None
        if "encoded" in c.arrays:
            engine = self.model.engine
            assert isinstance(engine, External)
            encoded = c["encoded"][rows]
            width = engine.features_dim
            features = np.append(encoded[:, :width], np.ones((len(rows), 1), dtype=np.float32), axis=1)
            outputs = encoded[:, width:]
        data = Rollouts(
            self.gamma,
            len(rows),
            returns,
            ends,
            np.array([terminated for _, terminated, _ in self._ended], dtype=bool),
            np.bincount(ranks[rows], log_e - log_b, minlength=n + 1)[:n],
            c["observations"][rows] if "observations" in c.arrays else None,
            c["actions"][rows],
            rewards,
            log_e,
            log_b,
            horizon=self.horizon,
            features=features,
            outputs=outputs,
            success=success if np.isfinite(success).all() and n else None,
        )
        return data if self.initial is None else data.after(self.initial)

    def last_observations(self) -> dict[int, np.ndarray]:
        """The observation after the last step of each finished trajectory, by its place in `rollouts`, where given."""
        return {i: self._last[e] for i, (e, _, _) in enumerate(self._ended) if e in self._last}

    # ---- save and resume -----------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Everything but the policy, at any step, also between `act` and `observe`. One .safetensors file."""
        arrays = {f"columns.{name}": np.ascontiguousarray(self.columns[name]) for name in self.columns.arrays}
        if self.stepper is not None:
            arrays |= {f"stepper.{name}": x for name, x in self.stepper.state().items()}
        if self.ros is not None:
            arrays |= {"ros.S": self.ros.S.numpy(), "ros.k": np.array([self.ros.k])}
        arrays["ended"] = np.array(self._ended, dtype=np.float64).reshape(-1, 3)
        arrays |= {f"last.{episode}": np.atleast_1d(x) for episode, x in self._last.items()}
        spec = {
            "row": self._row, "begun": self._begun, "episode": self._episode, "length": self._length,
            "pending": self._pending, **self._identity(),
        }  # fmt: skip
        write_atomically(path, tensor_bytes(KEY, spec, arrays))

    def _identity(self) -> dict[str, Any]:
        """What must be the same for the data to be continued."""
        engine = self.model.engine
        digest = None if engine is None or isinstance(engine, External) else policy_digest(engine)
        return {
            "sampler": str(self.sampler), "gamma": self.gamma, "seed": self.seed, "lanes": self.lanes,
            "horizon": self.horizon, "policy": self.model.described, "digest": digest,
            "initial": 0 if self.initial is None else self.initial.steps,
        }  # fmt: skip

    def resume(self, path: str | Path) -> Recorder:
        """Take up where `save` left off: this collector must be new, and made with the same policy and settings."""
        try:
            self._take(*read_tensors(Path(path), KEY, LARGEST, DataError))
        except DataError as error:
            raise DataError(f"{Path(path).name}: {error}") from None
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise DataError(f"{Path(path).name}: not a saved collector ({first_line(error)})") from None
        return self

    def _take(self, spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """What was saved, all of it looked at before any of it is taken."""
        for name, value in self._identity().items():
            if spec.get(name) != value:
                raise DataError(f"it was saved with {name} {spec.get(name)}, not {value}")
        row, begun, pending = spec["row"], spec["begun"], spec["pending"]
        lanes = list(zip(spec["episode"], spec["length"], strict=True))
        numbers = [row, begun, *pending, *(n for lane in lanes for n in lane)]
        rows = len(arrays.get("columns.rewards", ()))
        ended = [(int(e), bool(t), float(s)) for e, t, s in arrays.get("ended", np.zeros((0, 3)))]
        over = [e for e, _, _ in ended]
        going = [e for e, _ in lanes if e != -1]
        columns = {name: (rows, x.shape[1], x.dtype) for name, x in self.columns.arrays.items()}
        if (
            not all(type(n) is int for n in numbers)
            or len(lanes) != self.lanes
            or len(set(over + going)) != len(over) + len(going)
            or not all(0 <= e < begun for e in over + going)
            or not all(n >= 0 for _, n in lanes)
            or not 0 <= row <= rows
            or pending != sorted(set(pending) & set(range(self.lanes)))
            or (pending and row + len(pending) != rows)
            or any(lanes[lane][0] == -1 for lane in pending)
        ):
            raise DataError("its episodes do not follow each other")

        def found(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            x = arrays.get(name, np.zeros(shape, dtype) if 0 in shape else None)
            if x is None or x.shape != shape or x.dtype != dtype or not np.isfinite(x).all():
                raise DataError(f"{name} does not fit")
            return x

        kept = {name: found(f"columns.{name}", (n, width), dtype) for name, (n, width, dtype) in columns.items()}
        if rows and not ((kept["episode"] >= 0) & (kept["episode"] < begun)).all():
            raise DataError("columns.episode does not fit")
        stepper = {} if self.stepper is None else self.stepper.state()
        steppers = {name: found(f"stepper.{name}", x.shape, x.dtype) for name, x in stepper.items()}
        last = {int(name[5:]): x for name, x in arrays.items() if name.startswith("last.")}
        if self.ros is not None:
            import torch

            S = found("ros.S", tuple(self.ros.S.shape), self.ros.S.numpy().dtype)
            k = int(found("ros.k", (1,), np.int64)[0])
            self.ros.S.copy_(torch.from_numpy(S))
            self.ros.k = k
        self.columns.rows = 0
        self.columns.more(rows)
        for name, x in kept.items():
            self.columns[name][:] = x
        for name, x in steppers.items():
            stepper[name][...] = x
        self._episode, self._length, self._pending = [e for e, _ in lanes], [n for _, n in lanes], pending
        self._ended, self._last, self._row, self._begun = ended, last, row, begun

    def close(self) -> None:
        """Leave the user's network as it was found."""
        if self.ros is not None:
            self.ros.close()
        self.model.close()


def see(model: Model, data: Rollouts) -> Rollouts:
    """The data as this policy sees it: log π_e, and features and outputs of a network that runs elsewhere."""
    observations, actions = data.column("observations"), data.column("actions")
    if observations.shape[1] != model.observations.size or actions.shape[1] != model.actions.dim:
        raise DataError(
            f"the data has observations of {observations.shape[1]} numbers and {actions.shape[1]}-d actions, the policy's "
            f"are {model.observations.size} and {model.actions.dim}"
        )
    _check_numbers("action", actions, model.actions.choices)
    if model.observations.n_states is not None:
        _check_numbers("state", observations, (model.observations.n_states,))
    features, outputs = model.of_rows(observations)
    log_e = External(0, choices=model.actions.choices, gaussian=model.actions.real).log_probs(outputs, actions)
    if not np.isfinite(log_e).all():
        raise DataError(f"the policy never takes the action of row {int(np.flatnonzero(~np.isfinite(log_e))[0])}")
    seen = dataclasses.replace(data, log_e=log_e)
    if isinstance(model.engine, External):
        seen = dataclasses.replace(seen, features=features, outputs=outputs.astype(np.float32))
    if data.log_b is not None:
        ratio = np.append(0.0, np.cumsum(log_e - data.log_b))
        seen = dataclasses.replace(seen, log_weights=np.diff(ratio[np.append(0, data.ends)]))
    return seen


def _check_numbers(what: str, rows: np.ndarray, counts: tuple[int, ...]) -> None:
    """Raise unless the columns are whole numbers from 0 to below `counts`; compiled code uses them as places in memory."""
    if counts and not ((rows >= 0) & (rows < counts) & (rows == np.floor(rows))).all():
        raise DataError(f"{what} outside 0 … {max(counts) - 1} in the data")


def _handed_in(engine: Policy, data: Rollouts | None) -> Rollouts | None:
    """Initial data as the engine observes it."""
    if data is None or not isinstance(engine, External):
        return data
    handed = np.append(data.column("features")[:, :-1], data.column("outputs"), axis=1)
    return dataclasses.replace(data, observations=handed)
