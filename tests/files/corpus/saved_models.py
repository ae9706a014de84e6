"""Zips of models of every kind, small and made by hand, and what is wrong with bad ones."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from evenroll.adapters.sb3_networks import policy_of
from evenroll.adapters.sb3_saved import KINDS, SavedModel
from evenroll.adapters.sb3_zip import load_sb3
from tests.files.corpus.valid import BIG, sb3_data, sb3_zip

VECTOR = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
IMAGE = gym.spaces.Box(0, 255, (36, 36, 1), np.uint8)
REAL, TWO = gym.spaces.Box(-1.0, 1.0, (2,), np.float32), gym.spaces.Discrete(2)


def layers(**shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """Weights and biases of layers. In a name, "__" stands for a dot."""
    found = {}
    for name, shape in shapes.items():
        prefix = name.replace("__", ".")
        found[f"{prefix}.weight"] = torch.full(shape, 0.1)
        found[f"{prefix}.bias"] = torch.zeros(shape[0])
    return found


def _norm(name: str, n: int) -> dict[str, torch.Tensor]:
    statistics = {part: torch.ones(n) for part in ("scale", "bias", "ra_mean", "ra_var")} | {"steps": torch.tensor(3)}
    return {f"{name}.{part}": x for part, x in statistics.items()}


_ACTOR = layers(actor__latent_pi__0=(5, 4), actor__mu=(2, 5), actor__log_std=(2, 5))
_CROSS = layers(actor__latent_pi__1=(5, 4), actor__mu=(2, 5), actor__log_std=(2, 5))
_LSTM = {
    "lstm_actor.weight_ih_l0": torch.ones(12, 4), "lstm_actor.weight_hh_l0": torch.ones(12, 3),
    "lstm_actor.bias_ih_l0": torch.zeros(12), "lstm_actor.bias_hh_l0": torch.zeros(12),
}  # fmt: skip
_CNN = {
    f"pi_features_extractor.cnn.{i}.{part}": torch.ones(shape) / 9
    for i, size in ((0, (2, 1, 8, 8)), (2, (2, 2, 4, 4)), (4, (2, 2, 3, 3)))
    for part, shape in (("weight", size), ("bias", size[:1]))
}
# name → (module, class, spaces, tensors)
MODELS: dict[str, tuple[str, str, gym.Space, gym.Space, dict[str, torch.Tensor]]] = {
    "squashed": ("stable_baselines3.sac.policies", "SACPolicy", VECTOR, REAL, _ACTOR),
    "normalised": (
        "sb3_contrib.crossq.policies", "CrossQPolicy", VECTOR, REAL,
        _CROSS | _norm("actor.latent_pi.0", 4) | _norm("actor.latent_pi.3", 5),
    ),
    "greedy": (
        "stable_baselines3.dqn.policies", "DQNPolicy", VECTOR, TWO,
        layers(q_net__q_net__0=(5, 4), q_net__q_net__2=(2, 5), q_net_target__q_net__0=(5, 4)),
    ),
    "certain": ("sb3_contrib.ars.policies", "ARSPolicy", VECTOR, REAL, layers(action_net__0=(5, 4), action_net__2=(2, 5))),
    "recurrent": (
        "sb3_contrib.common.recurrent.policies", "RecurrentActorCriticPolicy", VECTOR, TWO,
        layers(action_net=(2, 3), value_net=(1, 3)) | _LSTM,
    ),
    "images": (
        "stable_baselines3.common.policies", "ActorCriticCnnPolicy", IMAGE, TWO,
        layers(pi_features_extractor__linear__0=(3, 2), action_net=(2, 3)) | _CNN,
    ),
}  # fmt: skip


def words(space: gym.Space) -> dict[str, Any]:
    """A space as a zip describes it."""
    shape = list(space.shape or ())
    found: dict[str, Any] = {":type:": str(type(space)), "dtype": str(space.dtype), "_shape": shape}
    if isinstance(space, gym.spaces.Discrete):
        return found | {"n": str(space.n), "start": "0"}
    return found | {"low": str(getattr(space, "low", "")), "high": str(getattr(space, "high", ""))}


def model_zip(name: str, settings: dict[str, Any] | None = None, **change: Any) -> bytes:
    """The zip of a model. `settings` are entries of its data, `change` other tensors ("__" in a name is a dot)."""
    module, made, observed, acted, tensors = MODELS[name]
    if observed is IMAGE:
        observed = gym.spaces.Box(0, 255, (1, 36, 36), np.uint8)
    data = sb3_data() | {
        "policy_class": {"__module__": module, "__init__": f"<function {made}.__init__ at 0x7f00>"},
        "observation_space": words(observed), "action_space": words(acted), "exploration_rate": 0.1,
    }  # fmt: skip
    out = io.BytesIO()
    torch.save(tensors | {key.replace("__", "."): x for key, x in change.items()}, out)
    return sb3_zip(data | (settings or {}), out.getvalue())


def opened(name: str, path: Path) -> None:
    """Read a zip, and ask the policy that it describes."""
    saved = load_sb3(path)
    _, _, observed, acted, _ = MODELS[name]
    if isinstance(saved, SavedModel):
        policy_of(saved, observed, acted)


assert {module for module, *_ in MODELS.values()} <= set(KINDS)
# name → zip. The environment is CartPole-v1, which has the spaces of VECTOR and TWO.
BAD_ZIPS = {
    "a layer of number 10^9": model_zip("greedy", q_net__q_net__999999999__weight=torch.ones(1, 1)),
    "a layer whose number is none": model_zip("greedy", **{"q_net__q_net__²__weight": torch.ones(1, 1)}),
    "layers that do not fit": model_zip("greedy", q_net__q_net__2__weight=torch.ones(2, 7)),
    "layers missing in between": model_zip("greedy", **layers(q_net__q_net__8=(2, 2))),
    "an ε of 10^30": model_zip("greedy", {"exploration_rate": 10**30}),
    "an ε that is no number": model_zip("greedy", {"exploration_rate": float("nan")}),
    "a memory of another size": model_zip("recurrent", lstm_actor__weight_hh_l0=torch.ones(12, 9)),
    "a memory of no size": model_zip("recurrent", lstm_actor__weight_ih_l0=torch.ones(0, 4)),
    "a memory that is a number": model_zip("recurrent", lstm_actor__weight_ih_l0=torch.ones(())),
    "a state of 10^12 numbers": model_zip("recurrent", {"observation_space": words(VECTOR) | {"_shape": [BIG]}}),
    "a network that nobody uses": model_zip("recurrent", lstm_actor__weight_hr_l0=torch.ones(12, 3)),
    "an image for a vector": model_zip("images"),
    "real actions for discrete ones": model_zip("squashed"),
    "a bomb of an activation": model_zip("greedy", {"policy_kwargs": {"activation_fn": "<class 'torch.nn.Module'>"}}),
}
