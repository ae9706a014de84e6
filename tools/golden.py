"""Golden results: small runs of everything that gives numbers, kept to the last bit, so that no change of them goes unseen.

    python tools/golden.py --write tests/golden     # compute every case, write one JSON file per group
    python tools/golden.py --check tests/golden     # compute them again, name every difference; exit with 1 if there is one

Only public names are used: `python -m evenroll compare --json`, and in Python `evenroll.compare`, `evenroll.evaluate`,
`evenroll.difference`, `evenroll.Collector` and the policies they take. Words and times are not kept.

Each file says on which processor and with which libraries it was made. Where both are the same, results must agree bit for
bit, and that is when the test in `make test` compares. Elsewhere linear algebra in single precision rounds otherwise: with
OpenBLAS as on a Sandy Bridge 136 of the numbers differ by more than 1e-9, the most by 3.4e-4. There `--check` allows
OTHER_MACHINE and names what is beyond it; `--write` in a checkout that is known to be right makes the files for a machine.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import llvmlite.binding
import numpy as np

import evenroll

OTHER_MACHINE = 1e-3  # relative difference allowed where another processor, or another library, did the arithmetic
DOMAINS = {"bandit": 128, "gridworld": 64, "cartpole": 64, "cartpole-continuous": 24}  # and their budgets
SAMPLERS = ("os", "ros", "off", "auto", "roa", "props", "ros-episode", "ros-head")  # wis sees their returns and weights
INITIAL = ("init+os", "init+ros", "init+auto")
ESTIMATORS = ("mc", "score", "ois", "wis", "pdis", "ris", "wris", "fqe", "dr", "wdr")
POLE, GRID, SEED = "CartPole-v1", "evenroll/GridWorld-v0", 7
PLAIN = {"estimator": "mc", "resets": 0}  # of evaluate: the number of further resets depends on the time that they take
SETTINGS = {"trials": 3, "seed": SEED, "initial_episodes": 20, "workers": 1}  # of compare


def numbers(result: Any, without: tuple[str, ...] = ()) -> Any:
    """The result without its words, its times, and these keys; a list of nulls becomes one null."""
    if isinstance(result, dict):
        without = ("seconds", "warnings", "interrupted", *without)
        kept = {key: x for key, x in result.items() if not isinstance(x, str) and key not in without}
        return {key: numbers(x, without) for key, x in kept.items()}
    return None if isinstance(result, list) and all(x is None for x in result) else result


def study(domain: str, budget: int, methods: list[str], command: bool = False) -> Any:
    """`evenroll.compare`; or `python -m evenroll compare … --json -`, with sampling errors and the spread of trials."""
    if command:
        options = [f"--{key.replace('_', '-')}={x}" for key, x in {**SETTINGS, "budget": budget}.items()]
        run = [sys.executable, "-P", "-m", "evenroll", "compare", domain, *options, "--sampling-error", "--json", "-"]
        found = json.loads(subprocess.check_output([*run, *(f"--method={method}" for method in methods)]))
    else:
        found = evenroll.compare(domain, methods, budget=budget, **SETTINGS).to_json()
    found["methods"] = dict(zip(methods, found["methods"], strict=True))
    return numbers(found, () if command else ("mse_se", "median", "q25", "q75"))


def layers(seed: int, *widths: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of linear layers, from NumPy's generator."""
    rng, sizes = np.random.default_rng(seed), itertools.pairwise(widths)
    return [(rng.normal(size=(out, n)) / math.sqrt(n), 0.1 * rng.normal(size=out)) for n, out in sizes]


def network(inputs: int, seed: int = 1, **options: Any) -> Any:
    """One of our networks: 4 inputs and a softmax suit CartPole-v1, 3 and head="gaussian" Pendulum-v1."""
    *hidden, head = layers(seed, inputs, 20, 13, 2)
    return evenroll.MLP(hidden, *head, **options)


def module(activation: str) -> Any:
    """A torch network for CartPole-v1, float64. evenroll compiles one with Tanh; one with LeakyReLU runs through torch."""
    import torch

    torch.set_num_threads(1)
    parts: list[Any] = []
    for weight, bias in layers(2, 4, 20, 13, 2):
        parts += [torch.nn.Linear(*weight.shape[::-1], dtype=torch.float64), getattr(torch.nn, activation)()]
        parts[-2].load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
    return torch.nn.Sequential(*parts[:-1])


def leaning(observation: Any) -> list[float]:
    """A function that gives probabilities: push, most of the time, to the side to which the pole leans."""
    return [0.2, 0.8] if observation[2] > 0.0 else [0.7, 0.3]


def evaluation(where: Any, policy: Callable[[], Any] | None = None, lanes: int = 0, **options: Any) -> Any:
    """`evenroll.evaluate` of a domain; or of a policy in a Gymnasium environment, or in so many side by side."""
    if policy is None:
        new = ("action_share", "quantities", "policy", "remark")  # domains' results had none when the files were made
        return numbers(evenroll.evaluate(where, seed=SEED, **PLAIN | {"episodes": 64} | options).to_json(), new)
    env = gym.vector.SyncVectorEnv([functools.partial(gym.make, where)] * lanes) if lanes else gym.make(where)
    return numbers(
        evenroll.evaluate(env, policy(), seed=SEED, **PLAIN | {"episodes": 20, "gamma": 0.99} | options).to_json()
    )


def paired(where: str, first: Callable[[], Any], second: Callable[[], Any], sampler: str) -> Any:
    """`evenroll.difference` of two policies."""
    options: dict[str, Any] = {"sampler": sampler, "episodes": 20, "gamma": 0.99, "seed": SEED}
    return numbers(evenroll.difference(gym.make(where), first(), second(), resets=0, **options).to_json())


def own_loop(sampler: str) -> Any:
    """200 steps of `evenroll.Collector` in a loop of one's own, and an evaluation that starts from their data."""
    env, actions = gym.make(POLE), []
    collector = evenroll.Collector(network(4), sampler, gamma=0.99, seed=SEED)
    observation, _ = env.reset(seed=SEED)
    for step in range(200):
        actions.append(int(collector.act(observation)))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        if collector.observe(reward, terminated, truncated, observation):
            observation, _ = env.reset(seed=step)
    after = evaluation(POLE, functools.partial(network, 4), initial=collector.rollouts(unfinished=False))
    return {"actions": actions, "result": numbers(collector.result(estimator="mc").to_json()), "started_from_it": after}


def cases() -> dict[tuple[str, str], Callable[[], Any]]:
    """(Group, name) → the function that computes it."""
    do, found = functools.partial, {}
    for domain, budget in DOMAINS.items():
        tabular = ["revar/fqe", "odi/pdis"] if domain in ("bandit", "gridworld") else []
        methods = [*(f"{s}/wis" for s in SAMPLERS), "bpg/ois", *(f"{s}/mc" for s in INITIAL), *tabular]
        found["samplers", domain] = do(study, domain, budget, methods, command=True)
        methods = [f"{s}/{e}" for s in ("os", "auto") for e in ESTIMATORS] + [f"{s}/wis+mc" for s in INITIAL]
        found["estimators", domain] = do(study, domain, budget // 2, methods)
        for sampler, how in (("auto", "mc"), ("auto", "score"), ("os", "mc")):
            found["evaluate", f"{domain} {sampler}/{how}"] = do(evaluation, domain, sampler=sampler, estimator=how)
        found["evaluate", f"{domain} half_width"] = do(evaluation, domain, half_width="3%", episodes=400)
        found["evaluate", f"{domain} bca"] = do(evaluation, domain, sampler="os", interval="bca")
    for spec in ("bandit:redraw=1", "gridworld:noise=1"):
        found["estimators", spec] = do(study, spec, 16, ["os/mc", "ros/mc", "auto/mc", "revar/fqe", "odi/pdis"])
    kinds = {POLE: do(network, 4), "Pendulum-v1": do(network, 3, head="gaussian")}
    kinds |= {f"torch {activation}": do(module, activation) for activation in ("Tanh", "LeakyReLU")}
    for (kind, policy), lanes, sampler in itertools.product(kinds.items(), (0, 4), ("auto", "os", "ros:alpha=0.1")):
        case = do(evaluation, POLE if "torch" in kind else kind, policy, lanes, sampler=sampler)
        found["gymnasium", f"{kind}, {lanes or 'no'} lanes, {sampler}"] = case
    del found["gymnasium", "torch LeakyReLU, 4 lanes, ros:alpha=0.1"]  # raises when all lanes reset at once
    tables = [do(evenroll.TabularSoftmax, logits) for logits in np.random.default_rng(1).normal(size=(2, 16, 4))]
    found["gymnasium", "float64"] = do(evaluation, POLE, do(network, 4, dtype=np.float64, activation="tanh"), episodes=40)
    found["gymnasium", "function"] = do(evaluation, POLE, lambda: leaning, estimator="score")
    found["gymnasium", "half_width"] = do(evaluation, GRID, tables[0], half_width="10%", episodes=400)
    found["gymnasium", "difference, networks, auto"] = do(paired, POLE, do(network, 4), do(network, 4, 3), "auto")
    found["gymnasium", "difference, tables, os"] = do(paired, GRID, tables[0], tables[1], "os")
    return found | {("gymnasium", f"own loop, {sampler}"): do(own_loop, sampler) for sampler in ("auto", "os")}


def machine() -> dict[str, Any]:
    """What the last bits of a result may depend on."""
    info = Path("/proc/cpuinfo")
    lines = [line.partition(":") for line in info.read_text().splitlines()] if info.is_file() else []
    model = next((text.strip() for key, _, text in lines if key.strip() == "model name"), platform.processor())
    features = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    core = llvmlite.binding.get_host_cpu_name()  # what Numba compiles for; generations share names and features
    versions = {name: version(name) for name in ("numpy", "numba", "scipy", "gymnasium", "torch")}
    return {"cpu": " ".join([platform.machine(), model, core, *features]), "libraries": versions}


def differences(golden: Any, now: Any, exact: bool, path: str) -> Iterator[str]:
    """Every place where `now` is not what it was, as `path: then, now`."""
    if isinstance(golden, dict) and isinstance(now, dict):
        for key in sorted(golden.keys() | now.keys()):
            yield from differences(golden.get(key, "absent"), now.get(key, "absent"), exact, f"{path}/{key}")
    elif isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        for i, pair in enumerate(zip(golden, now, strict=True)):
            yield from differences(*pair, exact, f"{path}/{i}")
    elif repr(golden) != repr(now):  # repr tells all floats apart, 0.0 from −0.0, and 1 from 1.0
        real = isinstance(golden, float) and isinstance(now, float)
        if exact or not real or not math.isclose(golden, now, rel_tol=OTHER_MACHINE):
            yield f"{path}: {golden!r}, {now!r}"


def made_here(directory: Path, group: str) -> bool:
    """Whether the files were made on a processor, and with libraries, like those of this machine."""
    golden, here = json.loads((directory / f"{group}.json").read_text()), machine()
    return all(golden[key] == here[key] for key in here)


def check(directory: Path, group: str, name: str) -> list[str]:
    """Compute one case again, and list how it differs from its golden file."""
    golden = json.loads((directory / f"{group}.json").read_text())
    now = json.loads(json.dumps(cases()[group, name]()))
    return list(differences(golden["cases"][name], now, made_here(directory, group), f"{group}/{name}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="DIR", type=Path)
    what.add_argument("--check", metavar="DIR", type=Path)
    arguments = parser.parse_args()
    if arguments.write:
        for group in sorted({group for group, _ in cases()}):
            results = {name: function() for (where, name), function in cases().items() if where == group}
            text = json.dumps(machine() | {"cases": results}, indent=1, sort_keys=True)
            (arguments.write / f"{group}.json").write_text(text + "\n")
    else:
        found = [line for case in cases() for line in check(arguments.check, *case)]
        print("\n".join(found) or f"no difference ({evenroll.__file__})")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
