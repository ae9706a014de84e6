"""Functions of one observation: they give action probabilities, a distribution of torch, or the action itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from evenroll.adapters.contract import Model, deterministic
from evenroll.adapters.our_policies import our_policy
from evenroll.adapters.probing import answers_alike, decides_alike
from evenroll.adapters.spaces import TABLE_SIZE, Actions, Observations
from evenroll.errors import PolicyError
from evenroll.policies.external import External
from evenroll.policies.tabular import TabularSoftmax
from evenroll.text.numbers import first_line

LONGEST = 64  # observations up to this long serve as the features of a function, which shows no other features
PROBABILITY_ERROR = 1e-3  # how far the sum of the probabilities that a function gives may be from 1
LEAST_LOG = -800.0  # the logarithm that stands for probability 0: e⁻⁸⁰⁰ is 0 in double precision
PROBES = 16  # how many observations a function is tried on; it is asked about each of them several times
CHANGES = (
    "{0} gives other probabilities when it is asked again about the same observation, so it draws or remembers: have it "
    "give the same probabilities always, or the action that it draws"
)
DRAWS = (
    "the policy draws its own actions, or remembers: asked again about the same observation, it did something else. "
    "The probabilities of its actions are not known, so nothing could be balanced, and it was evaluated on-policy"
)


def function_policy(
    function: Callable[[Any], Any], observations: Observations, actions: Actions, most_likely: bool
) -> Model:
    """A function of one observation. What it gives on the first probe says which kind it is.

    most_likely  take its likeliest action; where what it gives may be an action, it is one, and not probabilities
    """
    name = getattr(function, "__name__", type(function).__name__)
    probe = observations.each(observations.probes(1))[0]

    def ask(observation: Any) -> Any:
        try:
            return as_plain(function(observation))
        except Exception as error:
            raise PolicyError(
                f"{name} failed on observation {observation}: {type(error).__name__}: {first_line(error)}"
            ) from error

    first = ask(probe)
    if _is_distribution(first) or _are_distributions(first):
        return _likeliest(_of_distributions(name, ask, first, observations, actions), name, most_likely)
    if actions.choices and _may_be_probabilities(first, actions) and not (most_likely and _is_action(first, actions)):
        return _likeliest(_of_probabilities(name, ask, observations, actions), name, most_likely)
    if not _is_action(first, actions):
        raise PolicyError(
            f"{name} gives {first!r}, which is neither probabilities nor an action of {actions.space}: return "
            f"{_wanted(actions)} or a torch.distributions object"
        )
    return _of_actions(name, ask, observations, actions)


def as_plain(result: Any) -> Any:
    """Tensors and arrays of any make as NumPy's; anything else as it is."""
    if isinstance(result, np.ndarray | np.generic | int | float | list | tuple) or _is_distribution(result):
        return result
    if hasattr(result, "detach"):  # torch, whose bfloat16 NumPy does not know
        result = result.detach().cpu()
        return (result.double() if result.is_floating_point() else result).numpy()
    return np.asarray(result) if hasattr(result, "__array__") else result  # JAX and others


def _is_distribution(result: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(result, torch.distributions.Distribution)


def _are_distributions(result: Any) -> bool:
    """Whether a result holds a distribution for each of several actions."""
    parts = list(result.values()) if isinstance(result, dict) else result
    return isinstance(parts, list | tuple) and len(parts) > 0 and all(_is_distribution(part) for part in parts)


def _likeliest(model: Model, name: str, most_likely: bool) -> Model:
    """The model itself or, with `most_likely`, its likeliest actions."""
    if not most_likely or model.engine is None:
        return model
    encode, engine, actions, likeliest = model.encode, model.engine, model.actions, model.likeliest

    def decide(batch: Any) -> Any:
        assert encode is not None
        outputs = engine.parameters_of_actions(encode(batch))
        return likeliest(batch) if likeliest is not None else actions.to_envs(actions.distribution.mode(outputs))

    return deterministic(name, model.observations, model.environment_actions, decide)


def _wanted(actions: Actions) -> str:
    if not actions.choices:
        return f"an action of {actions.dim} numbers, torch.distributions.Normal(mean, scale)"
    return f"{sum(actions.choices)} probabilities ({' + '.join(str(n) for n in actions.choices)}), an action"


# ---- an action -----------------------------------------------------------------------------------------------------


def _is_action(result: Any, actions: Actions) -> bool:
    try:
        row = np.asarray(result, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        return False
    if row.shape != (actions.dim,) or not actions.choices:
        return row.shape == (actions.dim,)
    row = actions.from_env(row[None])[0]
    return bool(((row == np.floor(row)) & (row >= 0) & (row < actions.choices)).all())


def _of_actions(name: str, ask: Callable[[Any], Any], observations: Observations, actions: Actions) -> Model:
    """A function that gives the action. It is called deterministic only if it says the same whenever it is asked."""

    def decide(batch: Any) -> np.ndarray:
        decided = [ask(o) for o in observations.each(batch)]
        for action in decided:
            if not _is_action(action, actions):
                raise PolicyError(f"{name} gives {action!r}, which is no action of {actions.space}")
        shape = actions.space.shape or ()
        return np.array([np.asarray(action).reshape(shape) for action in decided], dtype=actions.space.dtype)

    if decides_alike(ask, observations.each(observations.probes(PROBES))):
        return deterministic(name, observations, actions, decide)
    return Model(f"{name}, which draws its own actions", observations, actions, decide=decide, why=DRAWS, draws=True)


# ---- probabilities -------------------------------------------------------------------------------------------------


def _may_be_probabilities(result: Any, actions: Actions) -> bool:
    """Whether a result has as many numbers as there are values of all factors, and is not one action of several factors."""
    if not isinstance(result, list | tuple | np.ndarray) or np.ndim(result) == 0:
        return False
    if len(actions.choices) == 1:
        return True
    rows = np.asarray(result)
    return rows.size == sum(actions.choices) or bool((rows != np.floor(rows)).any())


def _of_probabilities(name: str, ask: Callable[[Any], Any], observations: Observations, actions: Actions) -> Model:
    n = sum(actions.choices)
    starts = np.cumsum((0, *actions.choices[:-1]), dtype=np.int64)

    def logits(observation: Any) -> np.ndarray:
        given = ask(observation)
        try:
            p = np.asarray(given, dtype=np.float64)
            sums = np.add.reduceat(p, starts) if p.shape == (n,) else np.zeros(1)
        except (TypeError, ValueError):
            p, sums = np.full(1, np.nan), np.zeros(1)
        if not np.isfinite(p).all() or (p < 0).any() or (np.abs(sums - 1.0) > PROBABILITY_ERROR).any():
            several = "" if len(actions.choices) == 1 else f" for each of {len(actions.choices)} actions in turn"
            raise PolicyError(
                f"{name} gives {given} for observation {observation}: it must be {n} probabilities that sum to 1{several}"
            )
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(p), LEAST_LOG))

    if observations.n_states is not None and observations.n_states <= TABLE_SIZE and len(actions.choices) == 1:
        states = observations.start + np.arange(observations.n_states)
        _insist(name, lambda batch: np.stack([logits(s) for s in batch]), observations, actions)
        table = np.stack([logits(s) for s in states])
        policy = TabularSoftmax(np.where(table <= LEAST_LOG, -np.inf, table))
        return our_policy(policy, observations.space, actions.space, False)
    return _through(name, logits, observations, actions)


def _through(name: str, outputs: Callable[[Any], np.ndarray], observations: Observations, actions: Actions) -> Model:
    """A policy whose outputs a function gives, with the observation as its features."""
    width = observations.size if observations.size <= LONGEST else 0

    def of_batch(batch: Any) -> np.ndarray:
        return np.stack([outputs(o) for o in observations.each(batch)])

    def encode(batch: Any) -> np.ndarray:
        return np.concatenate([observations.rows(batch)[:, :width], of_batch(batch)], axis=1)

    _insist(name, of_batch, observations, actions)
    engine = External(width, choices=actions.choices, gaussian=actions.real)
    return Model(f"{name}, {width} features", observations, actions, engine, encode)


def _insist(name: str, outputs: Callable[[Any], np.ndarray], observations: Observations, actions: Actions) -> None:
    """Raise unless the function gives the same outputs whenever it is asked."""
    if not answers_alike(outputs, actions.distribution.same, observations, observations.probes(PROBES)):
        raise PolicyError(CHANGES.format(name))


# ---- distributions of torch ----------------------------------------------------------------------------------------


def _of_distributions(
    name: str, ask: Callable[[Any], Any], first: Any, observations: Observations, actions: Actions
) -> Model:
    from evenroll.adapters.torch_results import SQUASH, Reading, batch_of_one

    reading = Reading(actions)
    reading.settle(batch_of_one(first))
    noise, kept = reading.noise, list[Any]()

    def outputs(x: Any) -> np.ndarray:
        found = reading.outputs(batch_of_one(ask(x))).detach().double().numpy()[0]
        if noise is not None:
            kept.append(noise.parts)
        return found

    def described(batch: Any) -> np.ndarray:
        return np.concatenate([reading.described(batch_of_one(ask(x))).detach().numpy() for x in observations.each(batch)])

    if not answers_alike(described, reading.same, observations, observations.probes(PROBES)):
        raise PolicyError(CHANGES.format(name))
    made = _through(name, outputs, observations, reading.actions)
    made.described += reading.note
    made.clips = SQUASH
    made.played_actions = actions if noise is not None else None
    if noise is None:
        return made
    encode = made.encode
    assert encode is not None

    def encode_anew(batch: Any) -> np.ndarray:
        kept.clear()
        return encode(batch)

    def each(batch: Any, do: Callable[[int], Any]) -> list[Any]:
        """`do(i)` for every observation, with its own distributions in place."""
        if len(kept) != len(observations.rows(batch)):
            encode_anew(batch)
        results = []
        for i, parts in enumerate(list(kept)):
            noise.parts = parts
            results.append(do(i))
        return results

    made.encode = encode_anew
    made.play = lambda batch, rows: actions.batch(each(batch, lambda i: noise.played(rows[i : i + 1])))
    made.likeliest = lambda batch: actions.batch(each(batch, lambda i: noise.likeliest()))
    made.clipped = lambda: noise.clipped

    def noise_of(batch: Any, rows: np.ndarray) -> np.ndarray:
        encode_anew(batch)
        return np.concatenate(each(batch, lambda i: noise.noise_of(rows[i : i + 1])))

    made.noise_of = noise_of
    return made
