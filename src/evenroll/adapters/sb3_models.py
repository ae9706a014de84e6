"""Models of Stable-Baselines3 and sb3-contrib. What a model is, is told by what its policy has, not by its name.

PPO, A2C, TRPO      `get_distribution` gives the distribution of the actions
SAC, TQC, CrossQ    the actor gives a Gaussian, which tanh squashes: balanced before the squash
DQN, QR-DQN         ε-greedy with the model's own exploration_rate, which is a distribution in closed form
RecurrentPPO        as PPO, with the state of its LSTM for each lane
MaskablePPO         as PPO, among the actions that the environment allows
TD3, DDPG, ARS      deterministic
use_sde             the noise is a function of the state that is redrawn now and then: run as it is, on-policy
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from torch.distributions import Normal

from evenroll.adapters.contract import Model, deterministic
from evenroll.adapters.masks import with_masks
from evenroll.adapters.modules import network
from evenroll.adapters.probing import answers_alike
from evenroll.adapters.recurrent import remembering_policy
from evenroll.adapters.spaces import Actions, Observations
from evenroll.adapters.torch_module import training_flags
from evenroll.adapters.torch_results import IMPOSSIBLE, Logits
from evenroll.errors import PolicyError
from evenroll.policies.external import External
from evenroll.policies.mlp import MLP

SDE = (
    "the policy explores with state-dependent noise (use_sde): it stays the same for a while, so the actions of an episode "
    "do not come from a distribution each, nothing could be balanced, and it was evaluated on-policy, with new noise for "
    "every episode and as often as sde_sample_freq says"
)
NOTHING_DRAWN = (
    "{0} draws nothing when it acts, the noise that it trains with is none of its own: there is no action noise to "
    "balance, so it was evaluated on-policy"
)
GREEDY = "{0} is greedy (its exploration_rate is 0): there is no action noise to balance, so it was evaluated on-policy"


def sb3_model(
    model: Any, observations: Observations, actions: Actions, most_likely: bool, compile: bool, takes_masks: bool
) -> Model:
    """A model, or its policy alone. With `most_likely` its actions are those of `predict(…, deterministic=True)`."""
    name = model.name if hasattr(model, "saved") else type(model).__name__
    policy = getattr(model, "policy", model)
    _check_spaces(name, policy, observations, actions)
    restore = training_flags(policy)
    try:
        made = _recognised(model, policy, name, observations, actions, most_likely, compile, takes_masks)
    except Exception:
        restore()
        raise
    made.restore.append(restore)
    made.critic = _critic(policy, made.masked)
    return made


def _critic(policy: Any, masked: bool) -> Callable[[Any], np.ndarray] | None:
    """The value V(s) that the model's critic gives. One that remembers is left out: it has no value of a state alone."""
    if not hasattr(policy, "predict_values") or hasattr(policy, "lstm_actor"):
        return None

    def values(batch: Any) -> np.ndarray:
        policy.set_training_mode(False)
        with torch.inference_mode():
            x = policy.obs_to_tensor(batch["observation"] if masked else batch)[0]
            return np.asarray(policy.predict_values(x).double().numpy().reshape(-1))

    return values


def _recognised(
    model: Any, policy: Any, name: str, observations: Observations, actions: Actions, most_likely: bool, compile: bool,
    takes_masks: bool,
) -> Model:  # fmt: skip
    if hasattr(policy, "lstm_actor"):
        return _recurrent(policy, name, observations, actions, most_likely)
    if takes_masks:
        return _masked(policy, name, observations, actions, most_likely)
    if most_likely:
        return _likeliest(model, policy, name, observations, actions, compile)
    if getattr(policy, "use_sde", False) or getattr(getattr(policy, "actor", None), "use_sde", False):
        return _state_dependent_noise(model, policy, name, observations, actions)
    if hasattr(policy, "q_net") or hasattr(policy, "quantile_net"):
        return _greedy(model, policy, name, observations, actions)
    if hasattr(getattr(policy, "actor", None), "get_action_dist_params"):
        return _squashed(policy, name, observations, actions)
    if hasattr(policy, "get_distribution"):
        return network(_distribution(policy), policy, observations, actions, compile, name)
    return _without_noise(model, name, observations, actions)


def _distribution(policy: Any) -> Callable[[Any], Any]:
    return lambda batch: policy.get_distribution(policy.obs_to_tensor(batch)[0])


def _predict(model: Any, most_likely: bool) -> Callable[[Any], Any]:
    return lambda batch: model.predict(batch, deterministic=most_likely)[0]


# ---- spaces --------------------------------------------------------------------------------------------------------


def _check_spaces(name: str, policy: Any, observations: Observations, actions: Actions) -> None:
    for what, theirs, ours in (
        ("observations", policy.observation_space, observations.space), ("actions", policy.action_space, actions.space),
    ):  # fmt: skip
        if not _fits(theirs, ours):
            raise PolicyError(f"{name} was made for {what} {theirs}, the environment has {ours}")


def _fits(theirs: gym.Space[Any], ours: gym.Space[Any]) -> bool:
    """Whether a model takes what the environment gives. Images may have their channels last: the model transposes them."""
    if type(theirs) is not type(ours) or getattr(theirs, "n", 0) != getattr(ours, "n", 0):
        return False
    if isinstance(theirs, gym.spaces.Dict) and isinstance(ours, gym.spaces.Dict):
        return theirs.spaces.keys() == ours.spaces.keys() and all(_fits(theirs[key], ours[key]) for key in theirs.spaces)
    a, b = theirs.shape or (), ours.shape or ()
    image = len(b) == 3 and theirs.dtype == ours.dtype == np.uint8
    return a == b or (image and a == (b[2], b[0], b[1]))


# ---- kinds ---------------------------------------------------------------------------------------------------------


def _likeliest(
    model: Any, policy: Any, name: str, observations: Observations, actions: Actions, compile: bool
) -> Model:  # fmt: skip
    """What `predict(…, deterministic=True)` gives.

    Where the network can be compiled, its copy is asked, which takes less time. `predict` is asked afterwards, whether it
    would have done the same. Where it does something of its own beforehand, as in a class that overrides it, it stays.
    """
    predict = _predict(model, True)
    made = deterministic(name, observations, actions, predict)
    if not compile or not hasattr(policy, "get_distribution") or getattr(policy, "use_sde", False):
        return made
    copied = network(_distribution(policy), policy, observations, actions, True, name)
    copy, playing = copied.engine, copied.actions
    if not isinstance(copy, MLP):
        copied.close()
        return made

    def decide(batch: Any) -> Any:
        return playing.to_envs(playing.distribution.mode(copy.parameters_of_actions(observations.rows(batch))))

    probes = observations.probes()
    if not actions.same(actions.from_env(predict(probes)), actions.from_env(decide(probes))):
        copied.close()
        return made
    made.described, made.original, made.decide = f"deterministic {name}, a compiled MLP", predict, decide
    made.restore += copied.restore
    return made


def _squashed(policy: Any, name: str, observations: Observations, actions: Actions) -> Model:
    """b + a·tanh(x) of x ~ Normal(mean, scale), where b and a stretch [−1, 1] to the bounds of the actions."""
    actor, space = policy.actor, policy.action_space
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)

    def call(batch: Any) -> Any:
        mean, log_std, _ = actor.get_action_dist_params(policy.obs_to_tensor(batch)[0])
        return Normal(mean, log_std.exp())

    made = network(call, actor, observations, actions.squashed((low + high) / 2, (high - low) / 2), False, name)
    made.described += ", squashed"
    return made


def _masked(policy: Any, name: str, observations: Observations, actions: Actions, most_likely: bool) -> Model:
    """A policy that is told which actions are allowed: only these have a probability, and only these are balanced."""
    observed = with_masks(observations, actions)

    def call(batch: Any) -> Any:
        result = policy.get_distribution(policy.obs_to_tensor(batch["observation"])[0], batch["action_mask"])
        parts = getattr(result, "distributions", None)  # several actions at once
        return getattr(result, "distribution", result) if parts is None else list(parts)

    made = network(call, policy, observed, actions, False, f"{name} with its masks")
    made.masked = True
    if not most_likely:
        return made
    assert made.encode is not None
    engine, encode = cast(External, made.engine), made.encode

    def decide(batch: Any) -> Any:
        return actions.to_envs(actions.distribution.mode(engine.parameters_of_actions(encode(batch))))

    certain = deterministic(f"{name} with its masks", observed, actions, decide)
    certain.masked, certain.restore = True, made.restore
    return certain


def _recurrent(policy: Any, name: str, observations: Observations, actions: Actions, most_likely: bool) -> Model:
    if getattr(policy, "use_sde", False) and not most_likely:
        raise PolicyError(
            f"{name} is recurrent and has state-dependent noise (use_sde), which is not supported: pass deterministic=True, "
            "or use stable_baselines3.common.evaluation.evaluate_policy(model, env)"
        )
    layers, _, width = policy.lstm_hidden_state_shape

    def step(batch: Any, state: Any) -> tuple[Any, Any]:
        x = policy.obs_to_tensor(batch)[0]
        n = len(next(iter(x.values())) if isinstance(x, dict) else x)
        if state is None:
            zeros = torch.zeros(layers, n, width)
            state = (zeros, zeros) if isinstance(policy.lstm_actor, torch.nn.LSTM) else zeros
        return policy.get_distribution(x, state, torch.zeros(n))

    return remembering_policy(step, policy, observations, actions, name, most_likely)


def _greedy(model: Any, policy: Any, name: str, observations: Observations, actions: Actions) -> Model:
    """With probability 1 − ε the action of the largest value, else one of all actions, all of them equally likely."""
    epsilon = float(getattr(model, "exploration_rate", 0.0))
    if epsilon == 0.0:
        made = deterministic(name, observations, actions, _predict(model, True))
        made.why = GREEDY.format(name)
        return made
    n = actions.choices[0]
    of_best = (torch.full((n, n), epsilon / n, dtype=torch.float64) + (1.0 - epsilon) * torch.eye(n)).log()
    of_best = of_best.clamp(min=IMPOSSIBLE)

    def call(batch: Any) -> Any:
        best = policy._predict(policy.obs_to_tensor(batch)[0], deterministic=True).reshape(-1)
        return Logits(of_best[best])

    made = network(call, policy, observations, actions, False, f"{name}, ε-greedy with ε = {epsilon:g}")
    made.torch = None  # the probabilities jump with the parameters: they have no gradient for ROS to follow
    return made


def _without_noise(model: Any, name: str, observations: Observations, actions: Actions) -> Model:
    """A model that acts as deterministic as it is asked to: that it draws nothing is checked."""
    act = _predict(model, False)
    alike = answers_alike(lambda x: actions.from_env(act(x)), actions.same, observations, observations.probes())
    if not alike:
        raise PolicyError(
            f"{name}: the distribution of its actions is not known: give evenroll its likeliest actions with "
            "deterministic=True, or a function of one observation: lambda x: model.predict(x, deterministic=False)[0]"
        )
    made = deterministic(name, observations, actions, _predict(model, True))
    made.why = NOTHING_DRAWN.format(name)
    return made


def _state_dependent_noise(model: Any, policy: Any, name: str, observations: Observations, actions: Actions) -> Model:
    """gSDE as Stable-Baselines3 plays it. Every lane has noise of its own, which is redrawn when its episode begins."""
    noise = getattr(getattr(policy, "actor", None), "action_dist", None) or policy.action_dist
    often, act = int(getattr(model, "sde_sample_freq", -1)), _predict(model, False)
    lanes, asked, numbers = 1, 0, _OwnNumbers()

    def begin(lane: int, of: int) -> None:
        nonlocal lanes
        with torch.no_grad():
            if of != lanes or len(noise.exploration_matrices) != of:
                lanes, seeded = of, numbers.state
                with numbers.drawn():
                    policy.reset_noise(of)
                numbers.state = seeded  # what a lane draws does not depend on the others
            with numbers.drawn():
                fresh = noise.weights_dist.rsample()
            noise.exploration_matrices[lane] = fresh
            noise.exploration_mat = fresh

    def decide(batch: Any) -> Any:
        nonlocal asked
        asked += 1
        with torch.no_grad(), numbers.drawn():
            if often > 0 and asked % often == 0:
                policy.reset_noise(lanes)
            return act(batch)

    policy.reset_noise(1)
    return Model(
        f"{name} with state-dependent noise", observations, actions, decide=decide, why=SDE, draws=True, begin=begin,
        seeded=numbers.seeded,
    )  # fmt: skip


class _OwnNumbers:
    """Random numbers of torch that are ours: the seed decides them, and everybody else's stay as they were."""

    def __init__(self) -> None:
        self.state = torch.Generator().get_state()

    def seeded(self, seed: int) -> None:
        self.state = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def drawn(self) -> Iterator[None]:
        before = torch.random.get_rng_state()
        torch.random.set_rng_state(self.state)
        try:
            yield
        finally:
            self.state = torch.random.get_rng_state()
            torch.random.set_rng_state(before)
