"""Entrances for data: rollouts made by hand, data frames, CSV, estimators, tables of an MDP, parameters of domains."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evenroll.collection.given_data import as_rollouts
from evenroll.collection.rollout_files import load_rollouts
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.domains.gymnasium_env import DomainEnv
from evenroll.domains.tabular import tabular_domain
from evenroll.errors import EvenrollError
from evenroll.estimators.table import ESTIMATORS
from evenroll.evaluation.collector import Collector
from evenroll.evaluation.diagnosis import diagnose
from evenroll.policies import MLP, External, TabularSoftmax
from evenroll.samplers.table import get_sampler

Entrance = tuple[Callable[[Any], Any], Any]
SLOW = ("fqe-net", "fqe-net-small")  # they train a network, in NumPy


def of_data(place: Path, table: TabularSoftmax, network: MLP, collected: Rollouts) -> Iterator[tuple[str, Entrance]]:
    yield from of_estimators(table, collected)
    yield from of_features(network)
    yield from of_columns(place, table)
    yield from of_tables()
    yield from of_numbers(table)


def of_estimators(policy: TabularSoftmax, collected: Rollouts) -> Iterator[tuple[str, Entrance]]:
    """Rollouts made by hand, in front of every estimator and of `diagnose`."""
    users: dict[str, Callable[[Rollouts], Any]] = {
        name: functools.partial(_estimate, name, policy) for name in ESTIMATORS if name not in SLOW
    }
    users["diagnose"] = lambda data: diagnose(data, policy)
    users["as_rollouts(gamma=0.5)"] = lambda data: as_rollouts(data, 0.5)
    for column in ("observations", "actions", "rewards", "ends", "returns", "log_e", "log_b", "terminated", "steps"):

        def given(x: Any, column: str = column) -> None:
            refused = None
            for use in users.values():
                try:
                    use(dataclasses.replace(collected, **{column: x}))
                except EvenrollError as error:
                    refused = error
            if refused is not None:
                raise refused

        yield f"estimators(data: {column} = x)", (given, getattr(collected, column))


def _estimate(name: str, policy: TabularSoftmax, data: Rollouts) -> float:
    return ESTIMATORS[name](data, policy)


def of_features(policy: MLP) -> Iterator[tuple[str, Entrance]]:
    """Features and outputs that somebody else has computed, in data of networks."""
    rng, n = np.random.default_rng(0), 12
    seen, done = rng.normal(size=(n, 4)), rng.integers(2, size=(n, 1)).astype(np.float64)
    logs = np.full(n, np.log(0.5))
    data = Rollouts(
        1.0, n, np.ones(3), np.array([4, 8, 12]), np.ones(3, bool), None, seen, done, np.ones(n), logs, logs,
        features=policy.features(seen), outputs=policy.parameters_of_actions(seen),
    )  # fmt: skip
    elsewhere = External(8, choices=(2,))
    for name in ("ris", "fqe", "score", "dr"):
        for column in ("features", "outputs", "observations", "actions"):
            for kind, of in (("network", policy), ("external", elsewhere)):

                def given(x: Any, name: str = name, column: str = column, of: Any = of) -> None:
                    ESTIMATORS[name](dataclasses.replace(data, **{column: x}), of)

                good = getattr(data, column)
                if kind == "network" or (name == "score" and column != "observations"):  # nobody looks at the others
                    yield f"{name} of a {kind}(data: {column} = x)", (given, good)


COLUMNS: dict[str, Any] = {
    "episode": np.array([0, 0, 1]), "t": np.array([0, 1, 0]), "observation": np.array([[1.0], [2.0], [3.0]]),
    "action": np.array([0, 1, 2]), "reward": np.ones(3), "log_e": np.full(3, -1.0), "log_b": np.full(3, -1.0),
    "terminated": np.array([False, True, True]), "truncated": np.zeros(3, bool), "success": np.array([0.0, 1.0, 1.0]),
}  # fmt: skip


def of_columns(place: Path, policy: TabularSoftmax) -> Iterator[tuple[str, Entrance]]:
    """Data frames and CSV files, used as initial data."""

    def used(data: Any) -> None:
        collector = Collector(policy, initial=data)
        collector.act(1)
        collector.observe(1.0, True)
        collector.result()

    def frame(x: Any, name: str) -> None:
        used(COLUMNS | {name: x})

    def csv(x: Any, name: str) -> None:
        values = {key: np.ravel(column).tolist() for key, column in COLUMNS.items()}
        values[name] = np.ravel(np.asarray(x, dtype=object)).tolist() if not isinstance(x, dict) else [x] * 3
        rows = [[str(column[i]) if i < len(column) else "" for column in values.values()] for i in range(3)]
        path = place / "data.csv"
        path.write_text("\n".join([",".join(values), *(",".join(row) for row in rows)]))
        used(load_rollouts(path))

    for name, good in COLUMNS.items():
        yield f"a data frame: {name} = x", (functools.partial(frame, name=name), good)
        yield f"a CSV file: {name} = x", (functools.partial(csv, name=name), good)


def of_tables() -> Iterator[tuple[str, Entrance]]:
    """An MDP given by its tables."""
    transitions = np.full((3, 2, 3), 1 / 3)
    good = {
        "transitions": transitions,
        "rewards": np.ones((3, 2)),
        "start": np.full(3, 1 / 3),
        "terminal": np.array([0, 0, 1]),
    }

    def run(x: Any, name: str) -> None:
        domain = tabular_domain("mine", **(good | {name: x}), horizon=5)
        env = domain.environment(None)
        policy = TabularSoftmax(np.zeros((env.n_states or 1, env.n_actions or 1)))
        Driver(policy, get_sampler("auto"), (0,), gamma=1.0, horizon=5).run(env, episodes=20)
        domain.known_truth(policy)

    for name, example in good.items():
        yield f"tabular_domain({name}=x)", (functools.partial(run, name=name), example)


def of_numbers(policy: TabularSoftmax) -> Iterator[tuple[str, Entrance]]:
    """Single numbers: seeds, discounts, counts, parameters of the built-in domains."""
    env = get_domain("gridworld").environment(None)

    def driver(**options: Any) -> None:
        settings: dict[str, Any] = {"seed": (0,), "gamma": 1.0, "horizon": 5, "value": 1.0} | options
        Driver(policy, get_sampler("bpg:batch=2,step_size=1"), **settings).run(env, episodes=5)

    def collector(**options: Any) -> None:
        if not isinstance(options.get("lanes"), int) or options["lanes"] < 10_000:
            Collector(policy, **options)

    yield "Driver(seed=(x,))", (lambda x: driver(seed=(x,)), 3)
    yield "Driver(gamma=x)", (lambda x: driver(gamma=x), 0.5)
    yield "Driver(value=x)", (lambda x: driver(value=x), 0.5)
    for name, example in (("seed", 3), ("gamma", 0.5), ("lanes", 2), ("horizon", 4)):
        yield f"Collector({name}=x)", (lambda x, name=name: collector(**{name: x}), example)

    def stepped(domain: str, name: str, x: Any) -> None:
        made = DomainEnv(domain, **{name: x})
        made.reset(seed=0)
        for _ in range(5):
            made.step(0)

    yield "gridworld: noise = x", (functools.partial(stepped, "gridworld", "noise"), 0.5)
