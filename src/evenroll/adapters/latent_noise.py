"""Policies whose randomness is a vector of noise that is handed to them: diffusion, flow and other generative policies.

Such a policy is a function act(observation, noise). Its noise has the same distribution in every state, standard Gaussian
or uniform, so it is what the sampler draws and balances; the environment gets act(observation, noise). Uniform noise is
Φ(z) of Gaussian noise z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.special import ndtr

from evenroll.adapters.contract import Model, deterministic
from evenroll.adapters.functions import LONGEST, as_plain
from evenroll.adapters.probing import answers_alike
from evenroll.adapters.spaces import Actions, Observations, of_noise
from evenroll.errors import PolicyError, SpecError
from evenroll.policies.external import External
from evenroll.text.numbers import first_line
from evenroll.text.specs import whole_number

KINDS = ("gaussian", "uniform")
MOST_FEATURES = 256  # more features are projected at random, as those of networks are
PROBES = 8  # how many observations the policy is tried on


@dataclass(frozen=True, eq=False)
class LatentNoise:
    """A policy act(observation, noise), whose noise is balanced. Pass it to `evaluate` or `Collector` as the policy.

    act       (observation, noise [size]) → the action or, with `chunk`, that many actions one after the other
    size      how many numbers of noise a decision takes
    kind      gaussian: of mean 0 and variance 1; uniform: between 0 and 1
    chunk     how many actions come of one decision; they are all played before the policy is asked again
    features  observation → numbers that describe it, by which the noise is balanced; the observation itself by default
    batched   whether `act` and `features` take a batch, act(observations [n, …], noise [n, size]) → [n, …]
    """

    act: Callable[[Any, np.ndarray], Any]
    size: int
    kind: str = "gaussian"
    chunk: int = 1
    features: Callable[[Any], Any] | None = None
    batched: bool = False

    def __post_init__(self) -> None:
        whole_number("size", self.size, 1)
        whole_number("chunk", self.chunk, 1)
        if self.kind not in KINDS:
            raise SpecError(f"the kind of noise must be one of {', '.join(KINDS)}, not {self.kind!r}")
        if not callable(self.act) or not (self.features is None or callable(self.features)):
            raise PolicyError("LatentNoise takes functions: act(observation, noise) and features(observation)")


def latent_policy(latent: LatentNoise, observations: Observations, actions: Actions, most_likely: bool) -> Model:
    """The policy as the loop needs it. With `most_likely` its noise is 0 (or ½), so that nothing is left to chance."""
    name = getattr(latent.act, "__name__", type(latent.act).__name__)
    acting = _Acting(latent, observations, actions, name)
    probes = observations.probes(PROBES)
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((PROBES, latent.size))
    index = observations.rows(probes)

    def again(batch: Any) -> np.ndarray:
        """What is done at observations of the probes, each with the noise that belongs to it."""
        rows = [int(np.flatnonzero((index == row).all(axis=1))[0]) for row in observations.rows(batch)]
        return acting.numbers(batch, noise[rows])

    if not answers_alike(again, actions.same, observations, probes):
        raise PolicyError(
            f"{name} does something else when it is asked again with the same observation and the same noise: it draws "
            "further numbers, or remembers; let all of its randomness come from the noise it is given"
        )
    chunk = "" if latent.chunk == 1 else f" for every {latent.chunk} actions"
    described = f"{name} with {latent.kind} noise of {latent.size} numbers{chunk}, {acting.width} features"
    if most_likely:
        made = deterministic(
            f"{name}, its noise in the middle", observations, actions,
            lambda batch: acting.play(batch, np.zeros((len(observations.rows(batch)), latent.size))),
        )  # fmt: skip
        if latent.chunk > 1:
            raise SpecError(
                "deterministic=True and chunks of actions are not supported together: pass act(x, 0) as a function"
            )
        return made
    return Model(
        described, observations, of_noise(latent.size), External(acting.width, gaussian=latent.size), acting.encode,
        play=acting.play, played_actions=actions, chunk=latent.chunk,
    )  # fmt: skip


class _Acting:
    """The user's functions, asked about batches and checked."""

    def __init__(self, latent: LatentNoise, observations: Observations, actions: Actions, name: str) -> None:
        self.latent, self.observations, self.actions, self.name = latent, observations, actions, name
        if actions.parts:
            raise SpecError(f"actions {actions.space} are several: have act give one array, and wrap the environment")
        self.shape = tuple(actions.space.shape or ())
        self.projection: np.ndarray | None = None
        self.width = observations.size if latent.features is None and observations.size <= LONGEST else 0
        if latent.features is not None:
            found = self._features(observations.probes(2))
            self.width = found.shape[1]
            if self.width > MOST_FEATURES:
                spread = np.random.default_rng(0).standard_normal((self.width, MOST_FEATURES))
                self.projection, self.width = spread / np.sqrt(len(spread)), MOST_FEATURES

    def _asked(self, function: Callable[..., Any], batch: Any, *others: np.ndarray) -> np.ndarray:
        """The answers to a batch, [n, …]."""
        try:
            if self.latent.batched:
                return np.asarray(as_plain(function(batch, *others)))
            rows = enumerate(self.observations.each(batch))
            return np.stack([np.asarray(as_plain(function(x, *(other[i] for other in others)))) for i, x in rows])
        except Exception as error:
            raise PolicyError(f"{self.name} failed: {type(error).__name__}: {first_line(error)}") from error

    def _features(self, batch: Any) -> np.ndarray:
        assert self.latent.features is not None
        found = self._asked(self.latent.features, batch).astype(np.float64)
        found = found.reshape(len(self.observations.rows(batch)), -1)
        return found if self.projection is None else found @ self.projection

    def encode(self, batch: Any) -> np.ndarray:
        """The features, and the mean 0 and log scale 0 of every number of noise."""
        rows = self.observations.rows(batch)
        features = rows[:, : self.width] if self.latent.features is None else self._features(batch)
        return np.append(features, np.zeros((len(rows), 2 * self.latent.size)), axis=1)

    def numbers(self, batch: Any, noise: np.ndarray) -> np.ndarray:
        """The actions as rows of numbers."""
        played = self.play(batch, noise)
        rows = self.actions.from_env(played.reshape(-1, *self.shape))
        return rows.reshape(len(noise), -1)

    def play(self, batch: Any, noise: np.ndarray) -> np.ndarray:
        """The actions for noise [n, size], as the environment wants them: [n, …], or with chunks [n, chunk, …]."""
        latent, actions = self.latent, self.actions
        handed = noise if latent.kind == "gaussian" else ndtr(noise)
        given = self._asked(latent.act, batch, handed)
        shape = (len(noise), *([latent.chunk] if latent.chunk > 1 else []), *self.shape)
        if given.size != int(np.prod(shape)) or given.dtype.kind not in "biuf" or not np.isfinite(given).all():
            raise PolicyError(
                f"{self.name} gives an array of shape {list(given.shape)} for {len(noise)} observations, or numbers that "
                f"are not finite: wanted is {list(shape)}, actions of {actions.space}"
            )
        if isinstance(actions.space, gym.spaces.Box):
            given = np.clip(given.reshape(shape), actions.space.low, actions.space.high)
        return given.reshape(shape).astype(actions.space.dtype)
