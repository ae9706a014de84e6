"""Entrances for other people's things: environments, functions, networks that remember, masks, squashes, statistics.

`entrances.py` attacks them together with all others. What needs torch or sb3-contrib is left out where they are missing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.model import as_model
from evenroll.adapters.normalization import Normalization, load_normalization, save_normalization
from evenroll.collection.environments import collect
from evenroll.errors import DataError
from evenroll.evaluation.collector import Collector
from evenroll.files.safe_files import read_tensors, tensor_bytes

Entrance = tuple[Callable[[Any], Any], Any]
BOX, TWO = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64), gym.spaces.Discrete(2)
DICT = gym.spaces.Dict({"place": gym.spaces.Box(-1.0, 1.0, (2,)), "room": gym.spaces.Discrete(3)})
PAIR = gym.spaces.Tuple((gym.spaces.Box(-1.0, 1.0, (2,)), gym.spaces.MultiBinary(2)))


def of_adapters(place: Path) -> Iterator[tuple[str, Entrance]]:
    yield from of_functions()
    yield from of_structures()
    yield from of_recording()
    yield from of_environments()
    yield from of_statistics(place)
    with contextlib.suppress(ImportError):
        yield from of_networks(place)
    with contextlib.suppress(ImportError):
        yield from of_masks()


def stored(x: Any) -> np.ndarray | None:
    """A value as a file of ours could hold it; None if it could not."""
    array = np.asarray(x, dtype=object if isinstance(x, list) else None)
    good = array.dtype.kind in "fiub" and array.dtype != np.longdouble and array.dtype.isnative
    return np.ascontiguousarray(array) if good else None


class Answering:
    """A function of one observation, which gives what it is told to give."""

    def __init__(self, good: Any) -> None:
        self.good = self.answer = good

    def __call__(self, observation: Any) -> Any:
        return self.answer

    def collector(self, lanes: int | None = None, actions: Any = TWO) -> Collector:
        self.answer = self.good
        return Collector(self, lanes=lanes, observation_space=BOX, action_space=actions)


def of_functions() -> Iterator[tuple[str, Entrance]]:
    """What a policy answers once it has been recognised."""
    kinds = {
        "probabilities": (np.array([0.5, 0.5]), TWO), "an action": (np.array(1), TWO),
        "several": (np.array([0.5, 0.5, 0.2, 0.3, 0.5]), gym.spaces.MultiDiscrete([2, 3])),
        "a real action": (np.array([0.1, 0.2]), gym.spaces.Box(-1.0, 1.0, (2,), np.float64)),
    }  # fmt: skip
    for name, (good, space) in kinds.items():
        for lanes in (None, 2):

            def asked(x: Any, good: Any = good, space: Any = space, lanes: Any = lanes) -> None:
                policy = Answering(good)
                collector = policy.collector(lanes, space)
                policy.answer = x
                collector.act(np.zeros(4) if lanes is None else np.zeros((2, 4)))

            yield f"a function that gives {name}, {lanes} lanes: x", (asked, good)


def of_structures() -> Iterator[tuple[str, Entrance]]:
    """Dicts and Tuples as observations."""

    def half(observation: Any) -> list[float]:
        return [0.5, 0.5]

    def made(space: Any, lanes: int | None = None) -> Collector:
        return Collector(half, observation_space=space, action_space=TWO, lanes=lanes)

    good = {"place": np.zeros(2), "room": 1}
    many = {"place": np.zeros((3, 2)), "room": np.ones(3, np.int64)}
    for part in good:
        yield f"Dict: act({part}=x)", (lambda x, p=part: made(DICT).act(good | {p: x}), good[part])
        yield f"Dict, lanes: act({part}=x)", (lambda x, p=part: made(DICT, 3).act(many | {p: x}), many[part])
    yield "Dict: act(x)", (lambda x: made(DICT).act(x), good)
    yield "Tuple: act((x, …))", (lambda x: made(PAIR).act((x, np.ones(2, np.int8))), np.zeros(2))
    yield "Tuple: act(x)", (lambda x: made(PAIR).act(x), (np.zeros(2), np.ones(2, np.int8)))

    def ended(x: Any, part: str) -> None:
        collector = made(DICT)
        collector.act(good)
        collector.observe(1.0, True, False, good | {part: x})
        collector.rollouts()

    yield "Dict: observe(next_obs: place = x)", (functools.partial(ended, part="place"), good["place"])


def of_recording() -> Iterator[tuple[str, Entrance]]:
    """What comes with a reward, and what becomes of an open episode."""

    def half(observation: Any) -> list[float]:
        return [0.5, 0.5]

    def made(lanes: int | None = None) -> Collector:
        collector = Collector(half, observation_space=BOX, action_space=TWO, lanes=lanes)
        collector.act(np.zeros(4) if lanes is None else np.zeros((lanes, 4)))
        return collector

    yes = np.ones(2, dtype=bool)

    def single(**given: Any) -> None:
        collector = made()
        try:
            collector.observe(1.0, True, False, **given)
        finally:
            collector.abandon()
            collector.act(np.zeros(4))
            collector.observe(1.0, True)
            collector.result()

    def several(**given: Any) -> None:
        collector = made(2)
        collector.observe(np.ones(2), yes, ~yes, **given)
        collector.rollouts()

    yield "observe(reward=x)", (lambda x: made().observe(x, True), 1.0)
    yield "observe(terminated=x)", (lambda x: made().observe(1.0, x), True)
    yield "observe(next_obs=x)", (lambda x: single(next_obs=x), np.zeros(4))
    yield "observe(info=x)", (lambda x: single(info=x), None)
    for name in ("is_success", "success"):
        yield f"observe(info: {name} = x)", (lambda x, n=name: single(info={n: x}), True)
        yield f"lanes: observe(info: {name} = x)", (lambda x, n=name: several(info=[{n: x}, {}]), True)
    yield "lanes: observe(next_obs=x)", (lambda x: several(next_obs=x), np.zeros((2, 4)))
    yield "lanes: observe(info=x)", (lambda x: several(info=x), None)

    def dropped(x: Any) -> None:
        collector = made(2)
        collector.abandon(x)
        collector.go_on()
        collector.rollouts()

    yield "lanes: abandon(x)", (dropped, 1)


class Giving(gym.Env):
    """An environment of four steps, in which one thing is not as it should be."""

    def __init__(self, **given: Any) -> None:
        self.given, self.t = given, 0
        self.observation_space, self.action_space = BOX, TWO

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros(4), {}

    def step(self, action: Any) -> tuple[Any, ...]:
        self.t += 1
        good = {"observation": np.zeros(4), "reward": 1.0, "terminated": self.t >= 4, "truncated": False, "info": {}}
        return tuple((good | (self.given if self.t == 3 else {})).values())


class Growing(gym.vector.VectorEnv):
    """A vector environment in which one thing is not as it should be, such as flags that grow."""

    num_envs = 2
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2, 4), np.float64)
    single_observation_space, single_action_space = BOX, TWO
    action_space = gym.spaces.MultiDiscrete([2, 2])
    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, **given: Any) -> None:
        self.given, self.t = given, 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros((2, 4)), {}

    def step(self, actions: Any) -> tuple[Any, ...]:
        self.t += 1
        over = np.full(2, self.t % 5 == 4)
        good = {"obs": np.zeros((2, 4)), "reward": np.ones(2), "terminated": over, "truncated": ~over & over, "info": {}}
        return tuple((good | (self.given if self.t == 3 else {})).values())


def of_environments() -> Iterator[tuple[str, Entrance]]:
    def half(observation: Any) -> list[float]:
        return [0.5, 0.5]

    def run(env: Any, lanes: int | None) -> None:
        collector = Collector(half, observation_space=BOX, action_space=TWO, lanes=lanes)
        for _ in collect(collector, env, episodes=4):
            pass
        collector.result()

    one = {"observation": np.zeros(4), "reward": 1.0, "terminated": False, "truncated": False, "info": {}}
    for name, good in one.items():
        yield f"an environment gives {name} = x", (lambda x, n=name: run(Giving(**{n: x}), None), good)
    no = np.zeros(2, dtype=bool)
    several = {"obs": np.zeros((2, 4)), "reward": np.ones(2), "terminated": no, "truncated": no, "info": {}}
    for name, good in several.items():
        yield f"a vector environment gives {name} = x", (lambda x, n=name: run(Growing(**{n: x}), 2), good)


def of_statistics(place: Path) -> Iterator[tuple[str, Entrance]]:
    """A VecNormalize's statistics: the file, and the observations that go through it."""
    good = Normalization(np.zeros(4), np.ones(4), 10.0, 1e-8)
    path = place / "norm.safetensors"
    save_normalization(good, path)
    spec, arrays = read_tensors(path, "evenroll.normalization", 1 << 30, DataError)

    def used(statistics: Normalization) -> None:
        env = statistics.around(Giving())
        collector = Collector(lambda o: [0.5, 0.5], observation_space=env.observation_space, action_space=TWO)
        for _ in collect(collector, env, episodes=1):
            pass

    def array(x: Any, name: str) -> None:
        changed = stored(x)
        if changed is not None:
            path.write_bytes(tensor_bytes("evenroll.normalization", spec, arrays | {name: changed}))
            used(load_normalization(path))

    def number(x: Any, name: str) -> None:
        if isinstance(x, int | float | str | None | dict):
            path.write_bytes(tensor_bytes("evenroll.normalization", spec | {name: x}, arrays))
            used(load_normalization(path))

    for name in ("mean", "var"):
        yield f"statistics: {name} = x", (functools.partial(array, name=name), arrays[name])
    for name in ("clip", "epsilon"):
        yield f"statistics: {name} = x", (functools.partial(number, name=name), 0.5)
    yield "statistics of observation x", (good.of, np.zeros(4))


def of_networks(place: Path) -> Iterator[tuple[str, Entrance]]:
    """Networks that run through torch: their features, a memory for each lane, a squash."""
    import torch
    from torch import nn
    from torch.distributions import AffineTransform, Categorical, Normal, TanhTransform, TransformedDistribution

    torch.set_num_threads(1)

    class Remembering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.head = nn.GRUCell(4, 8), nn.Linear(8, 2)
            self.given: Any = None

        def step(self, x, state):
            state = self.cell(x, state)
            result = Categorical(logits=self.head(state))
            return result, state if self.given is None else torch.as_tensor(self.given)

    class Squashed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = nn.Linear(4, 2)

        def forward(self, x):
            transforms = [TanhTransform(), AffineTransform(0.0, 2.0)]
            return TransformedDistribution(Normal(self.net(x), 0.3), transforms)

    real = gym.spaces.Box(-2.0, 2.0, (2,))
    kinds: dict[str, tuple[Any, Any]] = {
        "a network with memory": (Remembering(), TWO),
        "a squashed network": (Squashed(), real),
    }
    for name, (module, actions) in kinds.items():

        def made(lanes: int | None = None, module: Any = module, actions: Any = actions) -> Collector:
            return Collector(module, lanes=lanes, observation_space=BOX, action_space=actions)

        yield f"{name}: act(x)", (lambda x, made=made: made().act(x), np.zeros(4))
        yield f"{name}, lanes: act(x)", (lambda x, made=made: made(3).act(x), np.zeros((3, 4)))
        yield f"{name}, lanes: act(obs, x)", (lambda x, made=made: made(3).act(np.zeros((3, 4)), x), np.array([1, 0, 1]))

        def saved(made: Any = made, name: str = name) -> Any:
            path = place / f"{name}.safetensors"
            collector = made(2)
            for t in range(6):
                collector.act(np.full((2, 4), 0.1 * t))
                collector.observe(np.ones(2), np.array([t == 3, False]))
            collector.save(path)
            return path, *read_tensors(path, "evenroll.collector", 1 << 30, DataError)

        path, spec, arrays = saved()

        def resumed(x: Any, key: str, path: Any = path, spec: Any = spec, arrays: Any = arrays, made: Any = made) -> None:
            changed = stored(x)
            if changed is not None:
                path.write_bytes(tensor_bytes("evenroll.collector", spec, arrays | {key: changed}))
                again = made(2).resume(path)
                again.go_on()
                again.act(np.zeros((2, 4)))
                again.observe(np.ones(2), np.ones(2, bool))
                again.abandon()
                again.rollouts()

        for key, good in arrays.items():
            if key.startswith(("memory.", "columns.", "ended", "stepper.traj", "stepper.memory")):
                yield f"{name}: resume({key} = x)", (functools.partial(resumed, key=key), good)

        def initial(x: Any, column: str, module: Any = module, actions: Any = actions) -> None:
            low = np.zeros((4, 2)) if actions is real else np.array([[0.0], [1.0], [1.0], [0.0]])
            data = {"episode": np.array([0, 0, 1, 1]), "observation": np.zeros((4, 4)), "action": low, "reward": np.ones(4)}
            spaces = {"observation_space": BOX, "action_space": actions}
            collector = Collector(module, initial=data | {column: x}, **spaces)
            collector.act(np.zeros(4))

        good_action = np.zeros((4, 2)) if actions is real else np.array([[0.0], [1.0], [1.0], [0.0]])
        yield f"{name}: initial action = x", (functools.partial(initial, column="action"), good_action)
        yield f"{name}: initial observation = x", (functools.partial(initial, column="observation"), np.zeros((4, 4)))

    def state_changed(x: Any) -> None:
        module = Remembering()
        collector = Collector(module, lanes=2, observation_space=BOX, action_space=TWO)
        collector.act(np.zeros((2, 4)))
        collector.observe(np.ones(2), np.zeros(2, bool))
        changed = stored(x)
        if changed is not None:
            module.given = np.array(changed)
            collector.act(np.zeros((2, 4)))
            collector.observe(np.ones(2), np.zeros(2, bool))
            collector.act(np.zeros((2, 4)))

    yield "a network whose memory becomes x", (state_changed, np.zeros((2, 8), np.float32))


def of_masks() -> Iterator[tuple[str, Entrance]]:
    from sb3_contrib import MaskablePPO

    class Masked(Giving):
        def action_masks(self) -> np.ndarray:
            return np.ones(2, bool)

    model = as_model(MaskablePPO("MlpPolicy", Masked(), n_steps=8, batch_size=8, device="cpu", seed=0), None, None)

    def made(lanes: int | None = None) -> Collector:
        return Collector(model, lanes=lanes, observation_space=BOX, action_space=TWO)

    yield "masks: act(obs, masks=x)", (lambda x: made().act(np.zeros(4), masks=x), np.array([True, False]))
    yield (
        "masks, lanes: act(obs, masks=x)",
        (lambda x: made(3).act(np.zeros((3, 4)), masks=x), np.array([[True, False], [False, True], [True, True]])),
    )
    yield "masks: act(x, masks)", (lambda x: made().act(x, masks=[True, True]), np.zeros(4))
