"""A recorder that can be saved at any step, and taken up again by a new one with the same policy and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from evenroll.collection.abandoning import AbandoningRecorder
from evenroll.engine import border
from evenroll.errors import DataError, SpecError
from evenroll.files.safe_files import read_tensors, tensor_bytes, write_atomically
from evenroll.policies import External, policy_digest
from evenroll.text.numbers import first_line

KEY = "evenroll.collector"
LARGEST = 4 << 30  # the most bytes of a saved recorder
SAME_NETWORK = 1e-5  # how far, relative to their size, a network's outputs may differ on another machine or thread count


RESUMED = (
    "{name} was saved within an episode, after {steps}: if the environment is still where it was then, call go_on(); if it "
    "starts anew, call abandon(), which drops that episode; then go on"
)


class SavedRecorder(AbandoningRecorder):
    """A recorder with `save` and `resume`."""

    def save(self, path: str | Path) -> None:
        """Write everything but the policy into one .safetensors file, at any step, also between `act` and `observe`."""
        if self._half:
            raise SpecError(self._blocked)
        arrays = {f"columns.{name}": np.ascontiguousarray(self.columns[name]) for name in self.columns.arrays}
        if self.stepper is not None:
            arrays |= {f"stepper.{name}": x for name, x in self.stepper.state().items()}
        if self.model.memory is not None:
            arrays |= {f"memory.{name}": x for name, x in self.model.memory.state(self.lanes).items()}
        if self.ros is not None:
            arrays |= {"ros.S": self.ros.S.numpy(), "ros.k": np.array([self.ros.k])}
        arrays["ended"] = np.array(self._ended, dtype=np.float64).reshape(-1, 3)
        arrays |= _stacked(self._last)
        arrays["probe"] = self._probe()
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

    def _probe(self) -> np.ndarray:
        """What the policy says to some observations: by this a network is known that the engine does not see into."""
        model = self.model
        if model.engine is not None and not isinstance(model.engine, External):
            return np.zeros(0)
        asked = model.observations.probes()
        answers = model.encode(asked) if model.engine is not None and model.encode is not None else None
        if answers is None and model.decide is not None:
            answers = model.actions.from_env(model.decide(asked))
        return np.zeros(0) if answers is None else np.array(answers, dtype=np.float64)

    def resume(self, path: str | Path) -> Self:
        """Continue where `save` left off. This recorder must be new, and made with the same policy and settings.

        If an episode was open (`open_episodes`), nothing is recorded before `go_on()` or `abandon()` says what became of it.
        """
        name = Path(path).name or str(path)  # "." has no name
        if self._begun:
            raise SpecError(f"resume is for a new collector: this one has begun {self._begun} episodes, which would be lost")
        try:
            self._take(*read_tensors(Path(path), KEY, LARGEST, DataError))
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise DataError(f"{name}: not a saved collector ({first_line(error)})") from None
        if self.open_episodes:
            lengths = [length for episode, length in zip(self._episode, self._length, strict=True) if episode >= 0]
            steps = ", ".join(map(str, lengths)) + " steps" + (" and an action" if self._pending else "")
            self._blocked = RESUMED.format(name=name, steps=steps)
        return self

    def _take(self, spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take over what was saved. All of it is checked before any of it is taken."""
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
            or not all(0 <= n <= rows for _, n in lanes)
            or not 0 <= begun <= rows
            or not 0 <= row <= rows
            or pending != sorted(set(pending) & set(range(self.lanes)))
            or (pending and row + len(pending) != rows)
            or any(lanes[lane][0] == -1 for lane in pending)
            or any(success not in (0.0, 1.0) and success == success for _, _, success in ended)
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
        self._check_columns(kept)
        stepper = {} if self.stepper is None else self.stepper.state()
        saved_stepper = {name: found(f"stepper.{name}", x.shape, x.dtype) for name, x in stepper.items()}
        memory = {} if self.model.memory is None else self.model.memory.state(self.lanes)
        saved_memory = {name: found(f"memory.{name}", x.shape, x.dtype) for name, x in memory.items()}
        if saved_memory:
            border.flags("memory.fresh", saved_memory["fresh"], self.lanes, DataError)
        if self.stepper is not None:
            self.sampler.check_memory(self.stepper.balance.policy, saved_stepper["memory"])
            if (saved_stepper["clock"] < 0).any():
                raise DataError("stepper.clock does not fit")
        probe, now = arrays.get("probe", np.zeros(0)), self._probe()
        if probe.size and (probe.shape != now.shape or not _alike(probe, now)):
            raise DataError("it was saved with another policy: this one answers otherwise to the same observations")
        last = _unstacked(arrays, begun)
        if self.ros is not None:
            import torch

            S = found("ros.S", tuple(self.ros.S.shape), self.ros.S.numpy().dtype)
            k = int(found("ros.k", (1,), np.int64)[0])
            if k < 0:
                raise DataError("ros.k does not fit")
            self.ros.S.copy_(torch.from_numpy(S))
            self.ros.k = k
        self.columns.rows = 0
        self.columns.more(rows)
        for name, x in kept.items():
            self.columns[name][:] = x
        for name, x in saved_stepper.items():
            stepper[name][...] = x
        for name, x in saved_memory.items():
            memory[name][...] = x
        self._episode, self._length, self._pending = [e for e, _ in lanes], [n for _, n in lanes], pending
        self._ended, self._last, self._row, self._begun = ended, last, row, begun
        self._complete = row if pending else rows

    def _check_columns(self, kept: dict[str, np.ndarray]) -> None:
        """Raise unless the states and actions that were saved are those of the policy: compiled code will use them."""
        model, policy, states = self.model, self.model.engine, self.model.observations.n_states
        border.places("columns.actions has an action", kept["actions"], model.actions.choices, DataError)
        if "observations" in kept and states is not None:
            border.places("columns.observations has a state", kept["observations"], (states,), DataError)
        if "encoded" in kept and policy is not None:
            policy.checked_observations(kept["encoded"], DataError)


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=SAME_NETWORK, atol=SAME_NETWORK))


def _stacked(last: dict[int, np.ndarray]) -> dict[str, np.ndarray]:
    """Last observations by episode as two arrays for all that have the same shape and type, which mostly is all of them."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for episode, x in last.items():
        groups.setdefault((x.shape, x.dtype.str), []).append(episode)
    arrays = {}
    for i, episodes in enumerate(groups.values()):
        arrays[f"last.{i}.episodes"] = np.array(episodes, dtype=np.int64)
        arrays[f"last.{i}.values"] = np.stack([np.atleast_1d(last[e]) for e in episodes])
    return arrays


def _unstacked(arrays: dict[str, np.ndarray], begun: int) -> dict[int, np.ndarray]:
    """The last observations of `_stacked`, or of earlier versions, which wrote an array for each."""
    last = {int(name[5:]): x for name, x in arrays.items() if name.startswith("last.") and name[5:].isdigit()}
    for name, episodes in arrays.items():
        if name.startswith("last.") and name.endswith(".episodes"):
            values = arrays[name.removesuffix("episodes") + "values"]
            if episodes.ndim != 1 or episodes.dtype != np.int64 or len(values) != len(episodes):
                raise DataError(f"{name} does not fit")
            last |= dict(zip(episodes.tolist(), values, strict=True))
    if not all(0 <= episode < begun for episode in last):
        raise DataError("an observation belongs to no episode")
    return last
