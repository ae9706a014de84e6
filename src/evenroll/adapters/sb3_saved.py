"""What a zip of Stable-Baselines3 or sb3-contrib describes: which kind of policy it is, its settings, spaces and tensors.

A zip names its policy class, not its algorithm. The class says which networks there are and what they mean; the shapes of
the tensors say how large they are. A plain MLP of an actor-critic model becomes an MLP of ours. Anything else is built of
torch's own layers (`sb3_networks.py`). What would need code from the zip is refused, with the line that loads it in Python.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from evenroll.errors import PolicyError
from evenroll.policies.mlp import MLP

LARGEST_SPACE = 1 << 20  # the most numbers of an observation or action that a zip may describe


class Kind(NamedTuple):
    """A kind of policy.

    name        what people call its algorithm
    acts        how it acts: distribution, masked, recurrent, squashed, greedy or certain
    classes     the policy classes of this kind that are read
    load        the call that loads such a zip in Python
    activation  the activation where the zip names none
    prefixes    what the names of all of its tensors begin with
    """

    name: str
    acts: str
    classes: tuple[str, ...]
    load: str
    activation: str
    prefixes: tuple[str, ...]


_ACTOR_CRITIC = (
    "features_extractor.", "pi_features_extractor.", "vf_features_extractor.", "mlp_extractor.policy_net.",
    "mlp_extractor.value_net.", "action_net.", "value_net.", "log_std",
)  # fmt: skip
_SOFT = ("actor.", "critic.", "critic_target.")


def _kind(name: str, acts: str, module: str, stem: str, activation: str, prefixes: tuple[str, ...]) -> Kind:
    classes = (f"{stem}Policy", "CnnPolicy", "MultiInputPolicy") if stem != "ARS" else ("ARSPolicy", "ARSLinearPolicy")
    return Kind(name, acts, classes, f"{module}.load(path)", activation, prefixes)


# By the module that the policy class lives in.
KINDS = {
    "stable_baselines3.common.policies": Kind(
        "PPO, A2C or TRPO", "distribution",
        ("ActorCriticPolicy", "ActorCriticCnnPolicy", "MultiInputActorCriticPolicy"),
        "stable_baselines3.PPO.load(path) or A2C.load(path)", "Tanh", _ACTOR_CRITIC,
    ),
    "sb3_contrib.common.maskable.policies": Kind(
        "MaskablePPO", "masked",
        ("MaskableActorCriticPolicy", "MaskableActorCriticCnnPolicy", "MaskableMultiInputActorCriticPolicy"),
        "sb3_contrib.MaskablePPO.load(path)", "Tanh", _ACTOR_CRITIC,
    ),
    "sb3_contrib.common.recurrent.policies": Kind(
        "RecurrentPPO", "recurrent",
        ("RecurrentActorCriticPolicy", "RecurrentActorCriticCnnPolicy", "RecurrentMultiInputActorCriticPolicy"),
        "sb3_contrib.RecurrentPPO.load(path)", "Tanh", (*_ACTOR_CRITIC, "lstm_actor.", "lstm_critic.", "critic."),
    ),
    "stable_baselines3.sac.policies": _kind("SAC", "squashed", "stable_baselines3.SAC", "SAC", "ReLU", _SOFT),
    "sb3_contrib.tqc.policies": _kind("TQC", "squashed", "sb3_contrib.TQC", "TQC", "ReLU", _SOFT),
    "sb3_contrib.crossq.policies": _kind("CrossQ", "squashed", "sb3_contrib.CrossQ", "CrossQ", "ReLU", _SOFT),
    "stable_baselines3.dqn.policies": _kind(
        "DQN", "greedy", "stable_baselines3.DQN", "DQN", "ReLU", ("q_net.", "q_net_target.")
    ),
    "sb3_contrib.qrdqn.policies": _kind(
        "QRDQN", "greedy", "sb3_contrib.QRDQN", "QRDQN", "ReLU", ("quantile_net.", "quantile_net_target.")
    ),
    "stable_baselines3.td3.policies": _kind(
        "TD3 or DDPG", "certain", "stable_baselines3.TD3 or DDPG", "TD3", "ReLU", (*_SOFT, "actor_target.")
    ),
    "sb3_contrib.ars.policies": _kind(
        "ARS", "certain", "sb3_contrib.ARS", "ARS", "ReLU", ("features_extractor.", "action_net.")
    ),
}  # fmt: skip
# Settings of a policy that its tensors tell as well, that only training needs, or that are looked at.
HARMLESS = {
    "net_arch", "activation_fn", "log_std_init", "ortho_init", "optimizer_class", "optimizer_kwargs", ":type:",
    ":serialized:", "normalize_images", "use_sde", "n_critics", "n_quantiles", "share_features_extractor", "clip_mean",
    "use_expln", "full_std", "features_extractor_class", "features_extractor_kwargs", "lstm_hidden_size", "n_lstm_layers",
    "shared_lstm", "enable_critic_lstm", "batch_norm", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps",
    "with_bias", "squash_output",
}  # fmt: skip
EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")
# Activations that take no settings. The first two are those of our own MLP.
ACTIVATIONS = (
    "Tanh", "ReLU", "ELU", "LeakyReLU", "SiLU", "GELU", "Sigmoid", "Softplus", "SELU", "CELU", "Mish", "ReLU6", "Hardswish",
    "Softsign",
)  # fmt: skip
OF_OURS = {"Tanh": "tanh", "ReLU": "relu"}


class Critic:
    """The value V(s) that an MLP gives to observations [n, inputs], as [n]."""

    def __init__(self, layers: list[tuple[np.ndarray, np.ndarray]], activation: str) -> None:
        self.layers, self.activation = layers, activation

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        x = rows
        for i, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            if i < len(self.layers) - 1:
                x = np.tanh(x) if self.activation == "tanh" else np.maximum(x, 0.0)
        return np.asarray(x[:, 0])


def text_of(entry: Any, key: str) -> str:
    return str(entry.get(key, "")) if isinstance(entry, dict) else ""


def kind_of(data: dict[str, Any]) -> tuple[Kind, str]:
    """The kind of policy that a zip describes, and its class. What would need code to be run is refused."""
    described = data.get("policy_class")
    module, made = text_of(described, "__module__"), text_of(described, "__init__")
    kind = KINDS.get(module)
    found = next((x for x in kind.classes if made.startswith(f"<function {x}.__init__")), None) if kind else None
    if kind is None or found is None:
        known = kind or KINDS["stable_baselines3.common.policies"]
        raise PolicyError(
            f"its policy is not one of Stable-Baselines3's or sb3-contrib's own, and the code of others would have to be "
            f"run: {in_python(known)}"
        )
    if data.get("use_sde"):
        raise PolicyError(f"its state-dependent exploration (use_sde) needs Stable-Baselines3 itself: {in_python(kind)}")
    settings = data.get("policy_kwargs")
    unknown = set(settings if isinstance(settings, dict) else {"policy_kwargs": None}) - HARMLESS
    if unknown:
        raise PolicyError(f"its policy was made with {min(unknown)}, which needs code to be run: {in_python(kind)}")
    extractor = _class_name(text_of(settings, "features_extractor_class"))
    if extractor and extractor not in [f"stable_baselines3.common.torch_layers.{name}" for name in EXTRACTORS]:
        raise PolicyError(
            f"its policy was made with features_extractor_class {extractor}, which needs code to be run: {in_python(kind)}"
        )
    return kind, found


def in_python(kind: Kind) -> str:
    return f"load it in Python: model = {kind.load}, then evenroll.evaluate(env, model)"


def _class_name(text: str) -> str:
    return text.removeprefix("<class '").removesuffix("'>")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model as its zip describes it: nothing of it has been executed. `evenroll.evaluate` takes it as a policy.

    kind         which networks it has and how it acts
    made         the name of its policy class
    settings     what its policy was made with, beside the shapes of its tensors
    spaces       how the zip describes its observations and its actions
    exploration  ε of an ε-greedy policy
    tensors      all tensors of its policy
    """

    kind: Kind
    made: str
    settings: dict[str, Any]
    spaces: tuple[dict[str, Any], dict[str, Any]]
    exploration: float
    tensors: dict[str, np.ndarray]

    @classmethod
    def of(cls, data: dict[str, Any], tensors: dict[str, np.ndarray]) -> SavedModel:
        kind, made = kind_of(data)
        for name, tensor in tensors.items():
            if not name.startswith(kind.prefixes):
                raise PolicyError(f"tensor {name} belongs to a network that needs code to be run: {in_python(kind)}")
            if not np.isfinite(tensor).all():
                raise PolicyError(f"tensor {name} has numbers that are not finite")
        spaces = [data.get(name) for name in ("observation_space", "action_space")]
        described = [space if isinstance(space, dict) else {} for space in spaces]
        if _space_name(described[0]) not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict"):
            raise PolicyError(
                f"its observations ({text_of(described[0], ':type:') or 'unknown'}) need Stable-Baselines3's own encoding: "
                f"{in_python(kind)}"
            )
        epsilon = number(data.get("exploration_rate"), 0.0)
        if not 0.0 <= epsilon <= 1.0:
            raise PolicyError(f"its exploration_rate is {epsilon}, not a probability")
        return cls(kind, made, data["policy_kwargs"], (described[0], described[1]), epsilon, tensors)

    @property
    def activation(self) -> str:
        name = _class_name(text_of(self.settings, "activation_fn"))
        if not name:
            return self.kind.activation
        short = name.rpartition(".")[2]
        if short not in ACTIVATIONS or name != f"torch.nn.modules.activation.{short}":
            raise PolicyError(f"activation {short} is not known: {in_python(self.kind)}")
        return short

    def setting(self, name: str, default: float) -> float:
        """A number or truth value that the policy was made with."""
        return number(self.settings.get(name), default)

    # ---- a plain MLP -----------------------------------------------------------------------------------------------

    def compiled(self) -> MLP | None:
        """The same policy as an MLP of ours, with its critic; None if it is something else."""
        observed, acted = self.spaces
        plain = _space_name(observed) == "Box" and text_of(observed, "dtype") != "uint8"
        simple = _space_name(acted) in ("Box", "Discrete", "")
        images = any("features_extractor." in name for name in self.tensors)
        activation = OF_OURS.get(self.activation)
        if self.kind.acts != "distribution" or not plain or not simple or images or activation is None:
            return None
        layers, head = self._chain("mlp_extractor.policy_net"), self._layer("action_net")
        log_std = self.tensors.get("log_std")
        gaussian: dict[str, Any] = {"head": "gaussian", "mean": "identity", "scale": "log_std", "log_std": log_std}
        made = MLP(layers, *head, activation=activation, **({} if log_std is None else gaussian))
        if "value_net.weight" in self.tensors:
            made.critic = self._critic(made.obs_dim, activation)
        return made

    def _critic(self, inputs: int, activation: str) -> Critic:
        layers = [*self._chain("mlp_extractor.value_net"), self._layer("value_net")]
        widths = [inputs, *(weight.shape[0] for weight, _ in layers)]
        if any(w.shape != (b, a) for (w, _), a, b in zip(layers, widths[:-1], widths[1:], strict=True)) or widths[-1] != 1:
            raise PolicyError("the layers of its value network do not fit together")
        return Critic(layers, activation)

    def _chain(self, prefix: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Linear layers with an activation after each."""
        layers: list[tuple[np.ndarray, np.ndarray]] = []
        while f"{prefix}.{2 * len(layers)}.weight" in self.tensors:
            layers.append(self._layer(f"{prefix}.{2 * len(layers)}"))
        if sum(name.startswith(f"{prefix}.") for name in self.tensors) != 2 * len(layers):
            raise PolicyError("its layers are not linear ones with an activation in between")
        return layers

    def _layer(self, prefix: str) -> tuple[np.ndarray, np.ndarray]:
        weight, bias = (self.tensors.get(f"{prefix}.{part}") for part in ("weight", "bias"))
        if weight is None or bias is None:
            raise PolicyError(f"tensor {prefix}.weight or {prefix}.bias is missing")
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise PolicyError(f"tensors {prefix}.weight and {prefix}.bias do not fit together")
        return weight, bias

    # ---- spaces ----------------------------------------------------------------------------------------------------

    @property
    def observation_space(self) -> gym.Space[Any] | None:
        """What it observes, as far as the zip says; None if the environment must say."""
        return described_space(self.spaces[0], bounds=False)

    @property
    def action_space(self) -> gym.Space[Any] | None:
        return described_space(self.spaces[1], bounds=self.kind.acts in ("squashed", "certain"))


# ---- what a zip says of its spaces -------------------------------------------------------------------------------------


def _space_name(described: dict[str, Any]) -> str:
    """The class of a space, such as Box. Zips of before Gymnasium name Gym's."""
    found = re.fullmatch(r"<class '(?:gym|gymnasium)\.spaces\.\w+\.(\w+)'>", text_of(described, ":type:"))
    return found[1] if found else ""


def number(value: Any, default: float) -> float:
    """A number or truth value, which a zip may hold as text."""
    if isinstance(value, str):
        value = {"True": 1.0, "False": 0.0}.get(value, value)
    try:
        return default if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        raise PolicyError(f"{str(value)[:40]!r} is no number") from None


def _numbers(text: Any) -> list[float]:
    """The numbers in what NumPy prints of an array; none if it left some out."""
    words = str(text)[: 1 << 16]
    return [] if "..." in words else [float(x) for x in re.findall(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf)", words)]


def _shape(described: dict[str, Any]) -> tuple[int, ...] | None:
    shape = described.get("_shape")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        return None
    if math.prod(shape) > LARGEST_SPACE:
        raise PolicyError(f"it describes an observation or action of more than {LARGEST_SPACE:,} numbers")
    return tuple(shape)


def described_space(described: dict[str, Any], bounds: bool) -> gym.Space[Any] | None:
    """The space that a zip describes, or None where it does not say enough. `bounds` asks for those of a Box."""
    try:
        return _described(described, bounds)
    except (AssertionError, TypeError, ValueError):  # Gymnasium has no such space: no actions, a lower bound of +∞ …
        return None


def _described(described: dict[str, Any], bounds: bool) -> gym.Space[Any] | None:
    name, shape, counts = _space_name(described), _shape(described), _numbers(described.get("n", ""))
    if name == "Discrete" and len(counts) == 1 and 0 < counts[0] <= LARGEST_SPACE:
        first = [int(x) for x in _numbers(described.get("start", 0)) if abs(x) <= LARGEST_SPACE]
        return gym.spaces.Discrete(int(counts[0]), start=first[0] if len(first) == 1 else 0)
    if shape is None:
        return None
    if name == "MultiBinary":
        return gym.spaces.MultiBinary(list(shape))
    if name == "MultiDiscrete":
        nvec = _numbers(described.get("nvec"))
        sound = len(nvec) == math.prod(shape) and all(0 < n <= LARGEST_SPACE for n in nvec)
        return gym.spaces.MultiDiscrete(np.array(nvec, dtype=np.int64).reshape(shape)) if sound else None
    if name != "Box":
        return None
    if text_of(described, "dtype") == "uint8":
        return gym.spaces.Box(0, 255, shape, np.uint8)
    low, high = (_numbers(described.get(side, "")) for side in ("low", "high"))
    if not len(low) == len(high) == math.prod(shape):
        return None if bounds else gym.spaces.Box(-np.inf, np.inf, shape, np.float32)
    ends = [np.array(side, dtype=np.float32).reshape(shape) for side in (low, high)]
    return gym.spaces.Box(ends[0], ends[1], dtype=np.float32) if (ends[0] <= ends[1]).all() else None


def check_spaces(saved: SavedModel, observations: gym.Space[Any], actions: gym.Space[Any]) -> None:
    """Raise if the zip says plainly that its policy was made for other spaces than these."""
    for what, described, space in zip(("observations", "actions"), saved.spaces, (observations, actions), strict=True):
        theirs = described_space(described, bounds=False)
        shapes = [tuple(space.shape or ())]
        if what == "observations" and len(shapes[0]) == 3:
            shapes.append((shapes[0][2], *shapes[0][:2]))  # an image with its channels last is transposed
        strange = theirs is not None and (
            not isinstance(space, type(theirs))
            or tuple(theirs.shape or ()) not in shapes
            or (isinstance(space, gym.spaces.Discrete) and theirs != space)
        )
        if strange or _space_name(described) not in (type(space).__name__, ""):
            raise PolicyError(f"it was made for {what} {theirs or _space_name(described)}, the environment has {space}")
    _check_bounds(saved, actions)


def _check_bounds(saved: SavedModel, actions: gym.Space[Any]) -> None:
    """Raise if the bounds, which a squashed action is stretched to, are not those that the zip names."""
    if not isinstance(actions, gym.spaces.Box) or saved.kind.acts not in ("squashed", "certain"):
        return
    for side, ours in (("low", actions.low), ("high", actions.high)):
        theirs = _numbers(saved.spaces[1].get(side, ""))
        if len(theirs) == ours.size and not np.allclose(theirs, ours.ravel(), rtol=1e-3, atol=1e-3):
            raise PolicyError(f"it was made for actions whose {side} is {theirs}, the environment's is {ours.ravel()}")
