"""The policies of saved models, built of torch's own layers: nothing of the zip is executed, its tensors are only copied.

Each policy has just those methods of its original in Stable-Baselines3 or sb3-contrib that `sb3_models.py` calls. The sizes
of the layers are those of the tensors. What tensors there are says which features extractor there was: one that only
flattens, the convolutions of `NatureCNN`, or these for each part of a Dict.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, Normal

from evenroll.adapters.sb3_saved import SavedModel, check_spaces, in_python
from evenroll.adapters.spaces import Observations
from evenroll.errors import PolicyError

MOST_LAYERS = 100  # layers of one network
CONVOLUTIONS = ((0, 4), (2, 2), (4, 1))  # the number and the stride of each convolution of NatureCNN
LOG_STD = (-20.0, 2.0)  # the bounds of a squashed Gaussian's log scale in Stable-Baselines3
FORBIDDEN = -1e8  # the logit that sb3-contrib gives to an action that is not allowed
RENORM_EPSILON = 1e-3  # CrossQ's default of what is added to a variance


def policy_of(saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> SavedPolicy:
    """The policy of a saved model, for an environment with these spaces."""
    check_spaces(saved, observation_space, action_space)
    kinds: dict[str, type[SavedPolicy]] = {
        "distribution": ActorCritic, "masked": MaskedActorCritic, "recurrent": RecurrentActorCritic, "squashed": Squashed,
        "greedy": Greedy, "certain": Certain,
    }  # fmt: skip
    try:
        made = kinds[saved.kind.acts](saved, observation_space, action_space)
        made._check_all_used()
        made.eval()
        made.predict(Observations.of(observation_space).probes(2))  # raises if its layers do not fit together
        return made
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        raise PolicyError(f"its tensors do not fit together ({str(error).splitlines()[0][:100]})") from None


def _is_image(space: gym.Space[Any]) -> bool:
    """Whether Stable-Baselines3 takes a space for an image."""
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return False
    return bool((space.low == 0).all() and (space.high == 255).all())


def _channels_first(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space as a model sees it: an image's channels, which are the smallest of its dimensions, stand first."""
    if isinstance(space, gym.spaces.Dict):
        return gym.spaces.Dict({key: _channels_first(part) for key, part in space.spaces.items()})
    if not _is_image(space) or int(np.argmin(space.shape or ())) == 0:
        return space
    height, width, channels = space.shape  # type: ignore[misc]
    return gym.spaces.Box(0, 255, (channels, height, width), np.uint8)


class Renorm(nn.Module):
    """CrossQ's batch renormalisation with the statistics that were learnt."""

    def __init__(self, mean: Any, variance: Any, scale: Any, bias: Any, epsilon: float) -> None:
        super().__init__()
        if not mean.shape == variance.shape == scale.shape == bias.shape or mean.ndim != 1 or bool((variance < 0).any()):
            raise PolicyError("the statistics of its normalisation do not fit together")
        self.mean, self.root = nn.Parameter(mean), nn.Parameter((variance + epsilon).sqrt())
        self.scale, self.bias = nn.Parameter(scale), nn.Parameter(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * (x - self.mean) / self.root + self.bias


class NatureCNN(nn.Module):
    """Three convolutions and a linear layer, with ReLU after each."""

    def __init__(self, policy: SavedPolicy, prefix: str) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for place, stride in CONVOLUTIONS:
            weight, bias = policy._tensor(f"{prefix}cnn.{place}.weight"), policy._tensor(f"{prefix}cnn.{place}.bias")
            if weight.ndim != 4 or bias.shape != weight.shape[:1] or math.prod(weight.shape) == 0:
                raise PolicyError(f"tensors {prefix}cnn.{place} are no convolution")
            layer = nn.Conv2d(weight.shape[1], weight.shape[0], tuple(weight.shape[2:]), stride)
            layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
            parts += [layer, nn.ReLU()]
        self.cnn = nn.Sequential(*parts, nn.Flatten())
        self.linear = nn.Sequential(policy._linear(f"{prefix}linear.0"), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.cnn(x))


class SavedPolicy(nn.Module):
    """What all saved policies have: preprocessing of observations, and layers that take their tensors."""

    takes_masks = False

    def __init__(self, saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__()
        self.saved, self.name = saved, saved.kind.name
        self.observation_space, self.action_space = _channels_first(observation_space), action_space
        self.scales_images = bool(saved.setting("normalize_images", 1.0))
        self.used: set[str] = set()

    def set_training_mode(self, mode: bool) -> None:
        self.train(mode)

    # ---- tensors and layers ----------------------------------------------------------------------------------------

    def _tensor(self, name: str) -> torch.Tensor:
        if name not in self.saved.tensors:
            raise PolicyError(f"tensor {name} is missing")
        self.used.add(name)
        return torch.tensor(self.saved.tensors[name], dtype=torch.float32)

    def _linear(self, prefix: str) -> nn.Linear:
        weight = self._tensor(f"{prefix}.weight")
        bias = self._tensor(f"{prefix}.bias") if f"{prefix}.bias" in self.saved.tensors else None
        if weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            raise PolicyError(f"tensors {prefix} are no linear layer")
        layer = nn.Linear(1, 1, bias=bias is not None)
        layer.in_features, layer.out_features = weight.shape[1], weight.shape[0]
        layer.weight = nn.Parameter(weight)
        if bias is not None:
            layer.bias = nn.Parameter(bias)
        return layer

    def _mlp(self, prefix: str, activated: bool) -> nn.Sequential:
        """The layers `prefix.0`, `prefix.1` …: a number without tensors is an activation. `activated`: one comes last."""
        places = {name[len(prefix) + 1 :].partition(".")[0] for name in self.saved.tensors if name.startswith(f"{prefix}.")}
        if not all(place.isascii() and place.isdigit() and len(place) < 4 for place in places):
            raise PolicyError(f"tensors {prefix} are no chain of layers")
        numbers, parts = sorted(int(place) for place in places), list[nn.Module]()
        if len(numbers) > MOST_LAYERS or any(b - a > 2 for a, b in zip([-1, *numbers], numbers, strict=False)):
            raise PolicyError(f"tensors {prefix} are no chain of layers")
        for i in range(numbers[-1] + 1 if numbers else 0):
            if i not in numbers:
                parts.append(self._activation())
            elif f"{prefix}.{i}.ra_mean" in self.saved.tensors:
                parts.append(self._renorm(f"{prefix}.{i}"))
            else:
                parts.append(self._linear(f"{prefix}.{i}"))
        if activated and parts and isinstance(parts[-1], nn.Linear):
            parts.append(self._activation())
        return nn.Sequential(*parts)

    def _activation(self) -> nn.Module:
        made = getattr(nn, self.saved.activation)()
        assert isinstance(made, nn.Module)
        return made

    def _renorm(self, prefix: str) -> Renorm:
        self.used.add(f"{prefix}.steps")
        mean, variance, scale, bias = (self._tensor(f"{prefix}.{part}") for part in ("ra_mean", "ra_var", "scale", "bias"))
        return Renorm(mean, variance, scale, bias, self.saved.setting("batch_norm_eps", RENORM_EPSILON))

    def _check_all_used(self) -> None:
        """Raise if a tensor of what acts was not used: then the policy does something that is not known."""
        acting = ("pi_features_extractor.", "mlp_extractor.policy_net.", "action_net.", "lstm_actor.", "log_std", "actor.",
                  "q_net.", "quantile_net.")  # fmt: skip
        unused = [name for name in self.saved.tensors if name.startswith(acting) and name not in self.used]
        if unused:
            raise PolicyError(f"tensor {min(unused)} needs code to be run: {in_python(self.saved.kind)}")

    # ---- observations ----------------------------------------------------------------------------------------------

    def _extractor(self, *prefixes: str) -> nn.ModuleDict:
        """The convolutions for each image of the observations, by its key; "" if the observation is one image."""
        names = self.saved.tensors
        prefix = next((p for p in prefixes if any(name.startswith(p) for name in names)), prefixes[0])
        if any(name.startswith(f"{prefix}cnn.") for name in names):
            return nn.ModuleDict({"whole": NatureCNN(self, prefix)})
        found = {}
        if isinstance(self.observation_space, gym.spaces.Dict):
            for key in self.observation_space.spaces:
                if any(name.startswith(f"{prefix}extractors.{key}.cnn.") for name in names):
                    found[f"part {key}"] = NatureCNN(self, f"{prefix}extractors.{key}.")
        return nn.ModuleDict(found)

    def obs_to_tensor(self, batch: Any) -> tuple[Any, bool]:
        """Observations [n, …] as the network takes them: numbers are one-hot, images scaled, channels first."""
        return self._encoded(self.observation_space, batch), True

    def _encoded(self, space: gym.Space[Any], x: Any) -> Any:
        if isinstance(space, gym.spaces.Dict):
            return {key: self._encoded(part, x[key]) for key, part in space.spaces.items()}
        x = np.asarray(x)
        if isinstance(space, gym.spaces.Discrete):
            return nn.functional.one_hot(torch.as_tensor(x.reshape(-1)).long(), int(space.n)).float()
        if isinstance(space, gym.spaces.MultiDiscrete):
            columns = torch.as_tensor(x.reshape(len(x), -1)).long().unbind(dim=1)
            parts = [nn.functional.one_hot(c, int(n)) for c, n in zip(columns, np.ravel(space.nvec), strict=True)]
            return torch.cat(parts, dim=1).float()
        image = _is_image(space)
        if image and x.shape[1:] != space.shape:
            x = np.moveaxis(x, -1, 1)
        tensor = torch.as_tensor(np.ascontiguousarray(x)).reshape(len(x), *space.shape).float()  # type: ignore[misc]
        return tensor / 255.0 if image and self.scales_images else tensor

    def _features(self, x: Any, extractor: nn.ModuleDict) -> torch.Tensor:
        if not isinstance(x, dict):
            return extractor["whole"](x) if "whole" in extractor else x.flatten(start_dim=1)
        parts = []
        for key, part in x.items():
            name = f"part {key}"
            parts.append(extractor[name](part) if name in extractor else part.flatten(start_dim=1))
        return torch.cat(parts, dim=1)

    # ---- actions ---------------------------------------------------------------------------------------------------

    def predict(self, batch: Any, deterministic: bool = True) -> tuple[np.ndarray, None]:
        """The likeliest actions, as the environment wants them."""
        with torch.inference_mode():
            actions = self._likeliest(self.obs_to_tensor(batch)[0])
        rows = actions.numpy().reshape(-1, *(self.action_space.shape or ()))
        if not isinstance(self.action_space, gym.spaces.Box):
            return rows, None
        low, high = self.action_space.low, self.action_space.high
        return (low + 0.5 * (rows + 1.0) * (high - low) if self._squashes() else np.clip(rows, low, high)), None

    def _likeliest(self, x: Any) -> torch.Tensor:
        raise NotImplementedError

    def _squashes(self) -> bool:
        return False


class ActorCritic(SavedPolicy):
    """PPO, A2C and TRPO."""

    def __init__(self, saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(saved, observation_space, action_space)
        self.extractor = self._extractor("pi_features_extractor.", "features_extractor.")
        self.policy_net = self._mlp("mlp_extractor.policy_net", True)
        self.action_net = self._linear("action_net")
        self.log_std = nn.Parameter(self._tensor("log_std")) if "log_std" in saved.tensors else None
        if (self.log_std is not None) != isinstance(action_space, gym.spaces.Box):
            raise PolicyError(f"its head does not fit actions {action_space}")
        if "value_net.weight" in saved.tensors and saved.kind.acts != "recurrent":
            self.value_extractor = self._extractor("vf_features_extractor.", "features_extractor.")
            self.value_chain = self._mlp("mlp_extractor.value_net", True)
            self.value_net = self._linear("value_net")
            self.predict_values = self._values

    def _values(self, x: Any) -> torch.Tensor:
        return self.value_net(self.value_chain(self._features(x, self.value_extractor)))

    def _outputs(self, x: Any) -> torch.Tensor:
        return self.action_net(self.policy_net(self._features(x, self.extractor)))

    def _distribution(self, out: torch.Tensor) -> Any:
        """The distribution of the actions; a list of them for several actions at once."""
        space = self.action_space
        if self.log_std is not None:
            return Normal(out, self.log_std.exp().expand_as(out))
        if isinstance(space, gym.spaces.MultiDiscrete):
            return [Categorical(logits=part) for part in torch.split(out, [int(n) for n in np.ravel(space.nvec)], dim=1)]
        return Bernoulli(logits=out) if isinstance(space, gym.spaces.MultiBinary) else Categorical(logits=out)

    def get_distribution(self, x: Any) -> Any:
        return self._distribution(self._outputs(x))

    def _likeliest(self, x: Any) -> torch.Tensor:
        result = self._distribution(self._outputs(x))
        if isinstance(result, list):
            return torch.stack([part.logits.argmax(dim=1) for part in result], dim=1)
        if isinstance(result, Bernoulli):
            return (result.probs > 0.5).to(torch.int8)
        return result.loc if isinstance(result, Normal) else result.logits.argmax(dim=1)


class MaskedActorCritic(ActorCritic):
    """MaskablePPO: what is not allowed gets the logit that sb3-contrib gives it."""

    takes_masks = True

    def get_distribution(self, x: Any, masks: Any = None) -> Any:
        out = self._outputs(x)
        if masks is not None:
            allowed = torch.as_tensor(np.asarray(masks), dtype=torch.bool).reshape(len(out), -1)
            if isinstance(self.action_space, gym.spaces.MultiBinary):
                raise PolicyError("masks of a MultiBinary action are not supported: load it in Python")
            out = torch.where(allowed, out, torch.tensor(FORBIDDEN))
        return self._distribution(out)


class RecurrentActorCritic(ActorCritic):
    """RecurrentPPO: an LSTM between the observation and the actor."""

    def __init__(self, saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(saved, observation_space, action_space)
        layers = 0
        while f"lstm_actor.weight_ih_l{layers}" in saved.tensors and layers < MOST_LAYERS:
            layers += 1
        if layers == 0 or saved.tensors["lstm_actor.weight_ih_l0"].ndim != 2:
            raise PolicyError("tensor lstm_actor.weight_ih_l0 is missing, or is no matrix")
        four, inputs = saved.tensors["lstm_actor.weight_ih_l0"].shape
        width = four // 4
        shapes = {"weight_hh": (4 * width, width), "bias_ih": (4 * width,), "bias_hh": (4 * width,)}
        tensors = {}
        for i in range(layers):
            for part, shape in {"weight_ih": (4 * width, width if i else inputs), **shapes}.items():
                tensors[f"{part}_l{i}"] = found = self._tensor(f"lstm_actor.{part}_l{i}")
                if tuple(found.shape) != shape or width == 0:
                    raise PolicyError(f"tensor lstm_actor.{part}_l{i} does not fit")
        self.lstm_actor = nn.LSTM(inputs, width, num_layers=layers)
        self.lstm_actor.load_state_dict(tensors)
        self.lstm_hidden_state_shape = (layers, 1, width)

    def get_distribution(self, x: Any, state: Any = None, starts: Any = None) -> Any:
        hidden, state = self.lstm_actor(self._features(x, self.extractor)[None], state)
        return self._distribution(self.action_net(self.policy_net(hidden[0]))), state

    def _outputs(self, x: Any) -> torch.Tensor:
        """Those at the start of an episode."""
        return self.action_net(self.policy_net(self.lstm_actor(self._features(x, self.extractor)[None])[0][0]))


class Squashed(SavedPolicy):
    """SAC, TQC and CrossQ."""

    def __init__(self, saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(saved, observation_space, action_space)
        if not isinstance(action_space, gym.spaces.Box):
            raise PolicyError(f"its actions are real numbers, the environment's are {action_space}")
        self.extractor, self.latent_pi = self._extractor("actor.features_extractor."), self._mlp("actor.latent_pi", True)
        self.mu, self.log_std = self._linear("actor.mu"), self._linear("actor.log_std")

    @property
    def actor(self) -> Squashed:
        return self

    def get_action_dist_params(self, x: Any) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        latent = self.latent_pi(self._features(x, self.extractor))
        return self.mu(latent), torch.clamp(self.log_std(latent), *LOG_STD), {}

    def _likeliest(self, x: Any) -> torch.Tensor:
        return torch.tanh(self.get_action_dist_params(x)[0])

    def _squashes(self) -> bool:
        return True


class Greedy(SavedPolicy):
    """DQN and QR-DQN, whose values are the means of their quantiles."""

    def __init__(self, saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(saved, observation_space, action_space)
        net = saved.kind.prefixes[0].removesuffix(".")
        self.extractor, self.q_net = self._extractor(f"{net}.features_extractor."), self._mlp(f"{net}.{net}", False)
        self.exploration_rate = saved.exploration
        if not isinstance(action_space, gym.spaces.Discrete):
            raise PolicyError(f"its actions are discrete, the environment's are {action_space}")

    def _predict(self, x: Any, deterministic: bool = True) -> torch.Tensor:
        values = self.q_net(self._features(x, self.extractor))
        return values.reshape(len(values), -1, int(self.action_space.n)).mean(dim=1).argmax(dim=1)  # type: ignore[attr-defined]

    def _likeliest(self, x: Any) -> torch.Tensor:
        return self._predict(x)


class Certain(SavedPolicy):
    """TD3, DDPG and ARS, which draw nothing."""

    def __init__(self, saved: SavedModel, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        super().__init__(saved, observation_space, action_space)
        of_ars = saved.kind.name == "ARS"
        self.extractor = self._extractor("features_extractor." if of_ars else "actor.features_extractor.")
        self.net = self._mlp("action_net" if of_ars else "actor.mu", False)
        self.squashes = bool(saved.setting("squash_output", 0.0 if saved.made == "ARSLinearPolicy" else 1.0))

    def _likeliest(self, x: Any) -> torch.Tensor:
        out = self.net(self._features(x, self.extractor))
        if isinstance(self.action_space, gym.spaces.Discrete):
            return out.argmax(dim=1)
        return torch.tanh(out) if self.squashes else out

    def _squashes(self) -> bool:
        return self.squashes
