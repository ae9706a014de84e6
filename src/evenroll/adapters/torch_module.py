"""Policies and torch: ours as torch modules, and anybody's torch modules as policies that evenroll can run.

A network is run through torch, one forward pass a step, and hands its features (the input of its last `nn.Linear`) and
outputs to the compiled pieces; an MLP is recognised, by what it computes, and compiled. The only file that imports torch.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical, Independent, Normal

from evenroll.errors import PolicyError
from evenroll.policies.base import Policy
from evenroll.policies.external import normalised
from evenroll.policies.mlp import MLP, NORM_EPSILON
from evenroll.policies.tabular import TabularSoftmax

MOST_FEATURES = 256  # wider ones are projected at random: a step costs D², and few episodes cannot balance more
IMPOSSIBLE = -800.0  # a logit so low that its action is never drawn, for −inf
CLOSE = 1e-4  # outputs of a network and of its compiled copy agree to this, relative to their size
RECURRENT = (torch.nn.RNNBase, torch.nn.RNNCellBase)


def _parameter(x: Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(np.asarray(x), dtype=torch.float64))


class _Table(torch.nn.Module):
    def __init__(self, policy: TabularSoftmax) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(policy.logits))

    def forward(self, state: Any) -> Any:
        return Categorical(logits=self.logits[int(state)])


class _Network(torch.nn.Module):
    def __init__(self, policy: MLP) -> None:
        super().__init__()
        self.policy = policy
        if policy.norm is not None:
            mean, var, weight, bias = policy.norm
            self.register_buffer("mean", torch.tensor(mean))
            self.register_buffer("scale", 1.0 / torch.sqrt(torch.tensor(var) + NORM_EPSILON))
            self.norm_weight, self.norm_bias = _parameter(weight), _parameter(bias)
        self.weights = torch.nn.ParameterList([_parameter(w) for w, _ in policy.layers] + [_parameter(policy.head_weight)])
        self.biases = torch.nn.ParameterList([_parameter(b) for _, b in policy.layers] + [_parameter(policy.head_bias)])
        if policy.scale == "log_std" and policy.head == "gaussian":
            self.log_std = _parameter(policy.log_std)

    def forward(self, state: Any) -> Any:
        x = torch.as_tensor(np.asarray(state), dtype=torch.float64)
        policy = self.policy
        if policy.norm is not None:
            x = (x - self.mean) * self.scale * self.norm_weight + self.norm_bias
        *hidden, head = zip(self.weights, self.biases, strict=True)
        for w, b in hidden:
            x = torch.nn.functional.linear(x, w, b)
            x = torch.relu(x) if policy.activation == "relu" else torch.tanh(x)
        out = torch.nn.functional.linear(x, *head)
        if policy.head == "softmax":
            return Categorical(logits=out)
        if policy.scale == "log_std":
            mean, scale = out, self.log_std.exp()
        else:
            mean, scale = out[..., 0::2], torch.nn.functional.softplus(out[..., 1::2])
        return Normal(torch.tanh(mean) if policy.mean == "tanh" else mean, scale)


def to_torch(policy: Policy) -> torch.nn.Module:
    """The same policy in torch, float64."""
    if isinstance(policy, TabularSoftmax):
        return _Table(policy)
    if isinstance(policy, MLP):
        return _Network(policy)
    raise PolicyError(f"no torch version of a policy of type {type(policy).__name__}")


# ---- anybody's networks ----------------------------------------------------------------------------------------


class TorchPolicy:
    """A network that maps observations to distributions of actions.

    call       a batch of observations (array [n, …]) → distribution, list of them, or tensor of logits
    module     what `call` runs: switched to evaluation mode, searched for its last linear layer
    choices, real  the actions (spaces.Actions)
    probes     observations to try it on
    """

    def __init__(
        self,
        call: Callable[[np.ndarray], Any],
        module: torch.nn.Module,
        choices: Sequence[int],
        real: int,
        probes: np.ndarray,
    ) -> None:
        for part in module.modules():
            if isinstance(part, RECURRENT):
                raise PolicyError(
                    f"recurrent policies ({type(part).__name__}) are not supported yet: their features depend on the past"
                )
        self.call, self.module, self.choices, self.real = call, module, tuple(choices), real
        self.probed = np.zeros((0, 0))  # outputs on the probes; logits as log-probabilities
        module.eval()
        self.calls = _watch(self, probes)
        self.head = self._find_head()
        self._features: torch.Tensor | None = None
        self.projection: np.ndarray | None = None
        self.width = 0
        if self.head is not None:
            self._hook = self.head.register_forward_pre_hook(self._remember)
            self.width = self.head.in_features
            if self.width > MOST_FEATURES:
                rng = np.random.default_rng(0)
                spread = np.sqrt(self.width)
                self.projection = (rng.standard_normal((self.width, MOST_FEATURES)) / spread).astype(np.float32)
                self.width = MOST_FEATURES

    def close(self) -> None:
        """Take our hook off the network; nothing can be encoded after that."""
        if self.head is not None:
            self._hook.remove()

    def _remember(self, module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        self._features = inputs[0]

    def _find_head(self) -> torch.nn.Linear | None:
        """The last linear layer whose outputs are the policy's, else the last that ran on one row per observation."""
        rows = [c for c in self.calls if c.inputs.ndim == 2 and len(c.inputs) == len(self.probed)]
        n = sum(self.choices) or self.real
        fitting = [c for c in rows if c.outputs.shape[1] in (n, 2 * n)]
        for found in ([c for c in fitting if self._explains(c.outputs)], fitting, rows):
            if found:
                return found[-1].layer
        return None

    def _explains(self, outputs: np.ndarray) -> bool:
        theirs = self.probed
        if self.choices:
            return outputs.shape == theirs.shape and _close(normalised(outputs, self.choices), theirs)
        return any(
            part.shape == theirs[:, 0::2].shape and _close(part, theirs[:, 0::2]) for part in (outputs, np.tanh(outputs))
        )

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """[n, outputs]: logits, or mean and log scale of each dimension in turn."""
        with torch.inference_mode():
            return self._outputs(self.call(observations)).double().numpy()

    def encode(self, observations: np.ndarray) -> np.ndarray:
        """[n, features + outputs], float64: what `External` observes."""
        out = self.outputs(observations)
        if self.head is None:
            return out
        assert self._features is not None
        features = self._features.detach().numpy()
        if self.projection is not None:
            features = features @ self.projection
        return np.concatenate([features, out], axis=1, dtype=np.float64)

    def _outputs(self, result: Any) -> torch.Tensor:
        result = getattr(result, "distribution", result)  # Stable-Baselines3 wraps torch's
        if isinstance(result, Independent):
            result = result.base_dist
        if isinstance(result, list | tuple) and all(isinstance(x, Categorical) for x in result):
            return self._logits(torch.cat([x.logits for x in result], dim=-1))
        if isinstance(result, Categorical):
            return self._logits(result.logits)
        if isinstance(result, Normal):
            if not self.real:
                raise PolicyError("the policy gives a Normal distribution, the actions are discrete")
            mean, scale = (x.reshape(len(x), -1) for x in (result.loc, result.scale))
            if mean.shape[1] != self.real:
                raise PolicyError(f"the policy gives {mean.shape[1]} real actions, the environment takes {self.real}")
            return torch.stack([mean, scale.log()], dim=-1).reshape(len(mean), -1)
        if isinstance(result, torch.Tensor):
            if self.real:
                raise PolicyError(
                    "the policy gives a tensor for real actions: return torch.distributions.Normal(mean, scale), or pass "
                    "deterministic=True if the tensor is the action"
                )
            return self._logits(result)
        raise PolicyError(
            f"the policy gives a {type(result).__name__}; known are Categorical, Normal, Independent Normal of "
            "torch.distributions, and logits"
        )

    def _logits(self, logits: torch.Tensor) -> torch.Tensor:
        n = sum(self.choices)
        if logits.ndim != 2 or logits.shape[1] != n:
            has = f"{n} action values" if n else "real actions"
            raise PolicyError(f"the policy gives logits of shape {list(logits.shape)}, the environment has {has}")
        return torch.clamp(logits, min=IMPOSSIBLE)  # clamp keeps nan

    def log_probs(self, observations: np.ndarray, actions: np.ndarray) -> torch.Tensor:
        """log π(a|s) [n] of actions [n, dim], with its graph: `backward` of the sum gives the sum of scores."""
        out = self._outputs(self.call(observations))
        if self.real:
            a = torch.as_tensor(actions, dtype=out.dtype)
            return Normal(out[:, 0::2], out[:, 1::2].exp()).log_prob(a).sum(dim=1)
        parts = torch.split(out, self.choices, dim=1)
        chosen = torch.as_tensor(actions, dtype=torch.int64)
        return sum(Categorical(logits=x).log_prob(chosen[:, i]) for i, x in enumerate(parts))

    # ---- recognised ------------------------------------------------------------------------------------------------

    def compiled(self, probes: np.ndarray) -> MLP | None:
        """The same function as an MLP of ours, if it is one: each layer's input is the activation of the one before,
        the first one's is the observation, the last one's output the policy's. Checked on the probes to CLOSE."""
        calls = [c for c in self.calls if c.inputs.ndim == 2]
        if not calls or len(calls) != len(self.calls) or len(self.choices) > 1:
            return None
        rows = np.asarray(probes, dtype=np.float64).reshape(len(probes), -1)
        if calls[0].inputs.shape != rows.shape or not _close(calls[0].inputs, rows):
            return None
        activation = None
        for before, after in itertools.pairwise(calls):
            fits = [name for name, f in _ACTIVATIONS.items() if _close(f(before.outputs), after.inputs)]
            if not fits or (activation is not None and activation not in fits):
                return None
            activation = activation or fits[0]
        tensors = [(c.layer.weight.detach().numpy(), _bias(c.layer)) for c in calls]
        activation, log_std, squashed = activation or "tanh", None, False
        if self.real:
            scales = self.probed[:, 1::2]
            if calls[-1].outputs.shape != scales.shape or np.ptp(scales, axis=0).max() > 1e-6:
                return None
            log_std = scales[0]
            squashed = not _close(calls[-1].outputs, self.probed[:, 0::2])
        mlp = MLP(
            tensors[:-1], *tensors[-1], activation=activation, head="gaussian" if self.real else "softmax",
            mean="tanh" if squashed else "identity", scale="log_std" if self.real else "softplus", log_std=log_std,
        )  # fmt: skip
        ours = np.array([mlp.outputs(row) for row in rows])
        ours = ours if self.real else normalised(ours, self.choices)
        return mlp if ours.shape == self.probed.shape and _close(ours, self.probed) else None


_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}


class _Call:
    """One linear layer at work on the probes."""

    def __init__(self, layer: torch.nn.Linear, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        self.layer = layer
        self.inputs, self.outputs = inputs.detach().double().numpy(), outputs.detach().double().numpy()


def _watch(policy: TorchPolicy, probes: np.ndarray) -> list[_Call]:
    """All linear layers that ran, in their order; the outputs are left in `policy.probed`."""
    calls: list[_Call] = []
    hooks = [
        part.register_forward_hook(lambda layer, inputs, outputs: calls.append(_Call(layer, inputs[0], outputs)))
        for part in policy.module.modules()
        if isinstance(part, torch.nn.Linear)
    ]
    try:
        out = policy.outputs(probes)
    except PolicyError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise PolicyError(f"the policy fails on observations {list(probes.shape)}: {str(error).splitlines()[0]}") from error
    finally:
        for hook in hooks:
            hook.remove()
    if len(out) != len(probes):
        raise PolicyError(f"the policy gives {len(out)} distributions for {len(probes)} observations: it must take a batch")
    policy.probed = normalised(out, policy.choices) if policy.choices else out
    return calls


def _bias(layer: torch.nn.Linear) -> np.ndarray:
    return np.zeros(layer.out_features) if layer.bias is None else layer.bias.detach().numpy()


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max() <= CLOSE * (1.0 + np.abs(b).max()))


def call_module(module: torch.nn.Module, whole: bool) -> Callable[[np.ndarray], Any]:
    """Observations as tensors of the module's own kind; `whole` numbers stay whole (embeddings)."""
    first = next((p for p in module.parameters() if p.is_floating_point()), None)
    dtype, device = (torch.float32, "cpu") if first is None else (first.dtype, first.device)
    if str(device) != "cpu":
        raise PolicyError(f"the policy lives on {device}: move it to the processor with .cpu()")
    kind = torch.int64 if whole else dtype
    return lambda observations: module(torch.as_tensor(observations).to(kind))


class RosThroughTorch:
    """Full ROS for any network: θ_b = θ_e − (α/k) S, with S = Σ ∇log π_e summed by `backward` itself into one flat buffer.

    A step of all lanes is a forward pass at θ_b, and a forward and a backward pass at θ_e. θ_b stays the same for all lanes
    of a step: unlike `auto`, ROS must run the network again to use what it has just learnt.
    """

    def __init__(self, policy: TorchPolicy, alpha: float) -> None:
        self.policy, self.alpha, self.k = policy, alpha, 0
        self.parameters = [p for p in policy.module.parameters() if p.requires_grad]
        if not self.parameters:
            raise PolicyError("ros needs a network with parameters that require gradients")
        self.theta = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self.S = torch.zeros_like(self.theta)
        at = 0
        for p in self.parameters:
            p.grad = self.S[at : at + p.numel()].view_as(p)
            at += p.numel()

    def _set(self, theta: torch.Tensor) -> None:
        at = 0
        with torch.no_grad():
            for p in self.parameters:
                p.copy_(theta[at : at + p.numel()].view_as(p))
                at += p.numel()

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """The network's outputs at θ_b."""
        if self.k == 0 or self.alpha == 0.0:
            return self.policy.outputs(observations)
        self._set(torch.add(self.theta, self.S, alpha=-self.alpha / self.k))
        try:
            return self.policy.outputs(observations)
        finally:
            self._set(self.theta)

    def learn(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """S += Σ ∇log π_e(a|s); returns log π_e(a|s)."""
        log_e = self.policy.log_probs(observations, actions)
        log_e.sum().backward()
        self.k += len(actions)
        return log_e.detach().double().numpy()

    def close(self) -> None:
        for p in self.parameters:
            p.grad = None


# ---- files -------------------------------------------------------------------------------------------------------


def load_tensors(data: bytes) -> dict[str, np.ndarray]:
    """Named tensors of a .pth file; `weights_only`: nothing in it is executed."""
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        if sum(tensor.numel() for tensor in found.values()) > len(data):  # one number may be told to fill a huge tensor
            raise ValueError("more numbers than bytes")
        return {str(name): tensor.double().numpy() for name, tensor in found.items()}
    except Exception as error:  # whatever a damaged or malicious file makes torch raise
        raise PolicyError(f"its tensors cannot be read ({type(error).__name__})") from None


def sequential(tensors: Sequence[tuple[np.ndarray, np.ndarray]], activation: str) -> torch.nn.Module:
    """Linear layers with an activation in between, from their tensors."""
    parts: list[torch.nn.Module] = []
    for w, b in tensors:
        layer = torch.nn.Linear(w.shape[1], w.shape[0])
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(w))
            layer.bias.copy_(torch.tensor(b))
        parts += [layer, torch.nn.Tanh() if activation == "tanh" else torch.nn.ReLU()]
    return torch.nn.Sequential(torch.nn.Flatten(), *parts[:-1])
