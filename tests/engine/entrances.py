"""Every public entrance to compiled code, and wrong numbers for each. `test_border.py` runs this file in a child process.

    python -m tests.engine.entrances [--short] [NAME …]

An entrance is a function of one argument, with an example of what it takes. It is attacked with arrays of other lengths,
types, signs, sizes and layouts, and with things that are no numbers. Allowed are an EvenrollError, or success where the
value is sound after all. After each attack the entrance takes its example again, so that damage shows. Before each attack
its name is told on standard error: were a signal to end this process, the last line would name the culprit.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.model import as_model
from evenroll.collection.lanes import Lanes
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.seeing import see
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.domains.environment import Environment
from evenroll.domains.gymnasium_env import DomainEnv
from evenroll.errors import EvenrollError
from evenroll.evaluation.collector import Collector
from evenroll.files.safe_files import read_tensors, tensor_bytes
from evenroll.policies import MLP, External, TabularSoftmax
from evenroll.policies.base import Policy
from evenroll.samplers import Auto
from evenroll.samplers.props import PROPS
from evenroll.samplers.table import SAMPLERS, get_sampler
from tests.engine.entrances_of_adapters import of_adapters
from tests.engine.entrances_of_data import of_data

Entrance = tuple[Callable[[Any], Any], Any]  # what takes the number, and an example of what it takes


def attacks(good: Any) -> Iterator[tuple[str, Any]]:
    """Wrong values beside a good one, with a name for each."""
    x = np.array(good)
    x = np.array(1.0) if x.dtype == object else x  # a dictionary, or nothing
    flat = np.atleast_1d(x).astype(np.float64)
    yield from {
        "longer": np.append(flat.ravel(), np.zeros(1)), "much longer": np.resize(flat, 10_000), "empty": np.zeros(0),
        "shorter": flat.ravel()[:-1], "a dimension more": x[None], "transposed": flat.T if flat.ndim > 1 else flat[:, None],
        "a number": 0.3, "more rows": np.concatenate([flat, flat]), "fewer rows": flat[:0],
        "negative": -np.ones(x.shape), "a little negative": np.full(x.shape, -1e-9), "half": np.full(x.shape, 0.5),
        "large": np.full(x.shape, 1e9), "larger": np.full(x.shape, 1e18), "largest": np.full(x.shape, 1e300),
        "int64": np.full(x.shape, 2**62), "uint64": np.full(x.shape, 2**64 - 1, dtype=np.uint64), "2⁷⁰": 2**70,
        "nan": np.full(x.shape, np.nan), "inf": np.full(x.shape, np.inf), "-inf": np.full(x.shape, -np.inf),
        "text": np.full(x.shape, "x"), "complex": np.full(x.shape, 1j), "objects": np.full(x.shape, None),
        "dates": np.full(x.shape, np.datetime64("2020-01-01")), "durations": np.full(x.shape, np.timedelta64(1, "s")),
        "none": None, "a dict": {}, "ragged": [[1.0], [1.0, 2.0]], "a string": "abc", "a list": x.tolist(),
        "float16": x.astype(np.float16), "float32": x.astype(np.float32), "bool": x.astype(bool), "int8": x.astype(np.int8),
        "longdouble": x.astype(np.longdouble), "big-endian": x.astype(">f8"), "Fortran": np.asfortranarray(flat),
        "strided": np.repeat(flat, 3, axis=-1)[..., ::3], "backwards": flat[..., ::-1],
        "overlapping": np.lib.stride_tricks.as_strided(flat, flat.shape, (0,) * flat.ndim),
        "one for all": np.broadcast_to(flat.ravel()[:1], flat.shape) if flat.size else flat,
        "a matrix": np.matrix(np.atleast_2d(flat.reshape(len(flat), -1))), "masked": np.ma.masked_all(x.shape),
        "records": np.zeros(x.shape, dtype=[("a", "f8"), ("b", "i4")]),
    }.items()  # fmt: skip
    frozen = flat.copy()
    frozen.flags.writeable = False
    yield "read-only", frozen


def network(gaussian: bool = False) -> MLP:
    rng = np.random.default_rng(0)
    head = {"head": "gaussian", "mean": "identity"} if gaussian else {}
    return MLP([(rng.normal(size=(8, 4)), np.zeros(8))], rng.normal(size=(2, 8)), np.zeros(2), **head)


def table() -> TabularSoftmax:
    return TabularSoftmax(np.random.default_rng(0).normal(size=(16, 4)))


def data() -> Rollouts:
    domain = get_domain("gridworld")
    driver = Driver(table(), get_sampler("os"), (0,), gamma=1.0, horizon=100, record_steps=True)
    return driver.run(domain.environment(None), episodes=3)


def entrances(place: Path) -> Iterator[tuple[str, Entrance]]:
    yield from of_policies()
    yield from of_collectors(place)
    yield from of_trials()
    yield from of_environments()
    yield from of_data(place, table(), network(), data())
    yield from of_adapters(place)


def of_policies() -> Iterator[tuple[str, Entrance]]:
    policies: dict[str, tuple[Policy, Any, Any]] = {
        "table": (table(), np.array([3.0]), np.array([1.0])), "network": (network(), np.zeros(4), np.array([1.0])),
        "gaussian": (network(True), np.zeros(4), np.array([0.2])),
        "external": (External(2, choices=(3, 2)), np.zeros(7), np.array([2.0, 1.0])),
    }  # fmt: skip
    for name, (policy, obs, action) in policies.items():
        rows, acts = np.tile(obs, (3, 1)), np.tile(action, (3, 1))
        yield from {
            f"{name}.log_prob(x, action)": (lambda x, p=policy, a=action: p.log_prob(x, a), obs),
            f"{name}.log_prob(obs, x)": (lambda x, p=policy, o=obs: p.log_prob(o, x), action),
            f"{name}.score(x, action)": (lambda x, p=policy, a=action: p.score(x, a), obs),
            f"{name}.score(obs, x)": (lambda x, p=policy, o=obs: p.score(o, x), action),
            f"{name}.outputs(x)": (lambda x, p=policy: p.outputs(x), obs),
            f"{name}.outputs(obs, shift=x)": (
                lambda x, p=policy, o=obs: p.outputs(o, x, 0.1), np.zeros(policy.parameters, policy.dtype)
            ),
            f"{name}.outputs(obs, step=x)": (lambda x, p=policy, o=obs: p.outputs(o, p.zero_vector(), x), 0.1),
            f"{name}.score_sum(x, actions)": (lambda x, p=policy, a=acts: p.score_sum(x, a), rows),
            f"{name}.score_sum(observations, x)": (lambda x, p=policy, o=rows: p.score_sum(o, x), acts),
            f"{name}.score_sum(…, weights=x)": (lambda x, p=policy, o=rows, a=acts: p.score_sum(o, a, x), np.ones(3)),
        }.items()  # fmt: skip
        if isinstance(policy, MLP | TabularSoftmax):
            yield f"{name}.parameters_of_actions(x)", (policy.parameters_of_actions, rows)
        if isinstance(policy, MLP):
            yield f"{name}.features(x)", (policy.features, rows)
    hidden, head = np.ones((8, 4)), np.ones((2, 8))
    yield from {
        "TabularSoftmax(x)": (lambda x: TabularSoftmax(x).log_prob(0, 0), np.zeros((3, 2))),
        "TabularSoftmax.from_probabilities(x)": (
            lambda x: TabularSoftmax.from_probabilities(x).score(0, 0), np.full((3, 2), 0.5)
        ),
        "MLP(weight=x)": (lambda x: MLP([(x, np.zeros(8))], head, np.zeros(2)).score(np.zeros(4), 1), hidden),
        "MLP(bias=x)": (lambda x: MLP([(hidden, x)], head, np.zeros(2)).score(np.zeros(4), 1), np.zeros(8)),
        "MLP(head=x)": (lambda x: MLP([(hidden, np.zeros(8))], x, np.zeros(2)).score(np.zeros(4), 1), head),
        "MLP(log_std=x)": (
            lambda x: MLP(
                [], np.ones((2, 4)), np.zeros(2), head="gaussian", scale="log_std", log_std=x
            ).score(np.zeros(4), [1, 1]),
            np.zeros(2),
        ),
        "External(x)": (lambda x: External(x, choices=(2,)), 2),
        "External(choices=[x])": (lambda x: External(2, choices=[x]), 3),
        "External(gaussian=x)": (lambda x: External(2, gaussian=x), 3),
    }.items()  # fmt: skip


def of_collectors(place: Path) -> Iterator[tuple[str, Entrance]]:
    box, two = gym.spaces.Box(-np.inf, np.inf, (4,), np.float64), gym.spaces.Discrete(2)

    def made(policy: Any, lanes: int | None = None, sampler: Any = "auto") -> Collector:
        spaces = {} if isinstance(policy, Policy) else {"observation_space": box, "action_space": two}
        return Collector(policy, sampler, lanes=lanes, **spaces)

    def half(observation: Any) -> list[float]:
        return [0.5, 0.5]

    def first(observation: Any) -> int:
        return 0

    kinds: dict[str, tuple[Any, Any]] = {  # functions are recognised once, which takes longer than an attack
        "table": (table(), 3), "network": (network(), np.zeros(4)), "gaussian": (network(True), np.zeros(4)),
        "function": (as_model(half, box, two), np.zeros(4)), "deterministic": (as_model(first, box, two), np.zeros(4)),
    }  # fmt: skip
    for name, (policy, obs) in kinds.items():
        yield f"collector of a {name}: act(x)", (lambda x, p=policy: made(p).act(x), obs)
        batch = np.stack([np.asarray(obs)] * 3)
        yield f"lanes of a {name}: act(x)", (lambda x, p=policy: made(p, 3).act(x), batch)
        yield (
            f"lanes of a {name}: act(obs, active=x)",
            (lambda x, p=policy, o=batch: made(p, 3).act(o, x), np.array([1, 0, 1])),
        )
        yield f"collector of a {name}: act(obs, active=x)", (lambda x, p=policy, o=obs: made(p).act(o, x), np.array([1]))

        def acted(p: Any = policy, o: Any = batch) -> Collector:
            collector = made(p, 3)
            collector.act(o)
            return collector

        no = np.zeros(3, dtype=bool)
        yield f"lanes of a {name}: observe(x, …)", (lambda x, a=acted, n=no: a().observe(x, n, n), np.zeros(3))
        yield f"lanes of a {name}: observe(…, terminated=x)", (lambda x, a=acted, n=no: a().observe(np.zeros(3), x, n), no)
        yield f"lanes of a {name}: observe(…, truncated=x)", (lambda x, a=acted, n=no: a().observe(np.zeros(3), n, x), no)
    stepper = Lanes(table(), Auto(), (0,), gamma=1.0, lanes=3)
    yield "Lanes.advance(x, active)", (lambda x: stepper.advance(x, np.ones(3, np.int64)), np.ones((3, 1)))
    yield "Lanes.advance(obs, x)", (lambda x: stepper.advance(np.ones((3, 1)), x), np.ones(3, np.int64))
    yield "Lanes.advance(its own actions)", (lambda x: stepper.advance(stepper.actions, x), np.ones(3, np.int64))
    yield "Lanes.end(x)", (lambda x: stepper.end(x), 1)
    yield from of_saved(place)


def of_saved(place: Path) -> Iterator[tuple[str, Entrance]]:
    """Collectors that were saved and edited by hand."""
    for name, sampler in (("auto", Auto()), ("props", PROPS(every=4, buffer=8))):
        saved = Saved(place / f"{name}.safetensors", sampler)
        for key, x in saved.arrays.items():
            yield f"resume({name}: {key} = x)", (functools.partial(saved.with_array, key), x)
            yield f"resume({name}: last entry of {key} = x)", (functools.partial(saved.with_entry, key), x)
        for key, good in saved.spec.items():
            if isinstance(good, int | list):
                yield f"resume({name}: {key} = x in the description)", (functools.partial(saved.with_spec, key), good)


class Saved:
    """A saved collector of a table, in the middle of an episode."""

    def __init__(self, path: Path, sampler: Any) -> None:
        self.path, self.sampler = path, sampler
        collector = Collector(table(), sampler)
        for t in range(12):
            collector.act(t % 16)
            if t < 11:
                collector.observe(1.0, t % 5 == 4)
        collector.save(path)
        self.spec, self.arrays = read_tensors(path, "evenroll.collector", 1 << 30, EvenrollError)

    def resumed(self, spec: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Write it with a checksum that fits, take it up, and go on."""
        self.path.write_bytes(tensor_bytes("evenroll.collector", spec, arrays))
        again = Collector(table(), self.sampler).resume(self.path)
        again.go_on()
        if not again._pending:
            again.act(0)
        again.observe(1.0, False)
        again.act(2)
        again.abandon()
        for _ in range(8):
            again.act(1)
            again.observe(1.0, True)
        again.result()

    def with_array(self, key: str, value: Any) -> None:
        array = np.asarray(value, dtype=object if isinstance(value, list) else None)
        if array.dtype.kind in "fiub" and array.dtype != np.longdouble:
            self.resumed(self.spec, self.arrays | {key: np.array(value)})  # nothing else can be in such a file

    def with_entry(self, key: str, value: Any) -> None:
        changed = np.array(self.arrays[key])
        number = np.asarray(value, dtype=object if isinstance(value, list) else None)
        if number.dtype.kind in "fiub" and number.size and changed.size:
            changed.ravel()[-1] = number.ravel()[0].astype(changed.dtype)
            self.resumed(self.spec, self.arrays | {key: changed})

    def with_spec(self, key: str, value: Any) -> None:
        value = value.tolist() if isinstance(value, np.ndarray) else value
        try:
            json.dumps(value)
        except TypeError:
            return  # it cannot be in such a file
        self.resumed(self.spec | {key: value}, self.arrays)


def of_trials() -> Iterator[tuple[str, Entrance]]:
    collected = data()
    env = get_domain("gridworld").environment(None)

    def run(**changes: Any) -> None:
        initial = dataclasses.replace(collected, **changes)
        for sampler in ("auto", "revar", "props"):
            driver = Driver(table(), get_sampler(sampler), (0,), gamma=1.0, horizon=100, initial=initial)
            driver.run(env, episodes=2)

    def seen(**changes: Any) -> None:
        collector = Collector(table(), initial=dataclasses.replace(collected, **changes))
        collector.act(0)
        see(collector.model, dataclasses.replace(collected, **changes))

    for column in ("observations", "actions", "rewards", "ends", "returns", "log_weights", "steps"):
        good = getattr(collected, column)
        yield f"Driver(initial: {column} = x)", (lambda x, c=column: run(**{c: x}), good)
        yield f"Collector(initial: {column} = x)", (lambda x, c=column: seen(**{c: x}), good)

    def trial(x: Any, **options: Any) -> None:
        driver = Driver(table(), get_sampler("os"), (0,), gamma=1.0, horizon=options.get("horizon", 5))
        driver.run(env, **{name: value for name, value in options.items() if name != "horizon"})

    def small(x: Any) -> bool:
        number = np.asarray(x, dtype=object)
        return number.ndim > 0 or not isinstance(number.item(), int | float) or number.item() < 1e6

    yield "Driver(horizon=x)", (lambda x: trial(x, horizon=x, steps=9), 5)
    yield "Driver.run(steps=x)", (lambda x: trial(x, steps=x) if small(x) else None, 5)
    yield "Driver.run(episodes=x)", (lambda x: trial(x, episodes=x) if small(x) else None, 5)
    for name, kind in SAMPLERS.items():
        for field in dataclasses.fields(kind):
            if field.type in ("int", "float"):

                def chosen(x: Any, kind: Any = kind, field: Any = field, name: str = name) -> None:
                    whole = isinstance(x, int | float)
                    if whole:
                        made = dataclasses.replace(get_sampler(name, {"ros": {"alpha": 1}} | PAPER), **{field.name: x})
                        Driver(table(), made, (0,), gamma=1.0, horizon=5).run(env, episodes=20)

                yield f"{name}: {field.name} = x", (chosen, 1)


PAPER = {name: dict(values) for name, values in get_domain("gridworld").paper.items()} | {"off": {"delta": 0.1}}


def of_environments() -> Iterator[tuple[str, Entrance]]:
    for name, action in (("gridworld", 1), ("bandit", 7), ("cartpole", 1), ("cartpole-continuous", np.array([0.1]))):
        env = DomainEnv(name)
        env.reset(seed=0)
        yield f"{name}: step(x)", (env.step, action)
        wrapped = gym.make(env.domain.gymnasium_id)
        wrapped.reset(seed=0)

        def stepped(x: Any, wrapped: Any = wrapped) -> None:
            wrapped.reset(seed=0)
            try:
                wrapped.step(x)
            except (AssertionError, TypeError, ValueError):
                if "env_checker" not in _raised_in():
                    raise

        yield f"gymnasium.make({name}): step(x)", (stepped, action)
    noisy = DomainEnv("gridworld", noise=1.0)
    noisy.reset(seed=0)

    def drawn(x: Any) -> None:
        noisy.uniform = lambda: x
        noisy.step(0)

    yield "DomainEnv.uniform = x", (drawn, 0.5)
    built = get_domain("gridworld").environment(None)

    def changed(**values: Any) -> None:
        env: Environment = dataclasses.replace(built, **values)
        Driver(table(), get_sampler("os"), (0,), gamma=1.0, horizon=5).run(env, episodes=2)

    for field in ("obs_dim", "n_actions", "action_dim", "n_states", "state_dim", "reset_uniforms", "step_uniforms"):

        def sized(x: Any, field: str = field) -> None:
            if not isinstance(x, int) or abs(x) < 10_000:  # a state of 10⁹ numbers is a wish that can be granted
                changed(**{field: x})

        yield f"Environment({field}=x)", (sized, getattr(built, field))


def _raised_in() -> str:
    """Where the error that is being handled was raised: Gymnasium's own check refuses in its own words."""
    trace = sys.exc_info()[2]
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else trace.tb_frame.f_code.co_filename


# The attacks that `make test` carries out at every entrance: one of each kind. `make attack` carries out all.
SHORT = (
    "longer", "empty", "shorter", "a dimension more", "a number", "negative", "half", "large", "2⁷⁰", "nan", "text",
    "objects", "none", "float32", "big-endian", "strided", "overlapping", "read-only",
)  # fmt: skip


def main(chosen: list[str], short: bool) -> None:
    """Attack all entrances, or those whose names contain one of the words. One line of JSON says what came of it."""
    refused, taken, wrong, times = 0, 0, [], {}
    with tempfile.TemporaryDirectory() as place, np.errstate(all="ignore"):
        for name, (enter, example) in entrances(Path(place)):
            if chosen and not any(word in name for word in chosen):
                continue
            started = time.perf_counter()
            gc.freeze()  # what was there before is not looked through again when the garbage of the attacks is collected
            for attack, value in attacks(example):
                if short and attack not in SHORT:
                    continue
                print(f"{name}: {attack}", file=sys.stderr, flush=True)
                try:
                    enter(value)
                    taken += 1
                except EvenrollError:
                    refused += 1
                except Exception as error:
                    wrong.append(f"{name}: {attack}: {type(error).__name__}: {error}")
            try:
                enter(example)
            except Exception as error:
                wrong.append(f"{name}: the good example: {type(error).__name__}: {error}")
            gc.collect()
            times[name] = time.perf_counter() - started
    slowest = sorted(times.items(), key=lambda pair: -pair[1])[:10]
    print(json.dumps({"entrances": len(times), "refused": refused, "taken": taken, "wrong": wrong, "slowest": slowest}))


if __name__ == "__main__":
    main([word for word in sys.argv[1:] if word != "--short"], "--short" in sys.argv)
