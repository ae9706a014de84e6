"""Anybody's torch modules as policies that evenroll can run.

A network runs through torch, with one forward pass a step. It hands its features (the input of its last `nn.Linear`) and its
outputs to the compiled pieces. An MLP is recognised by what it computes, and compiled. torch is an optional dependency: this
file and the two beside it import torch at their top, so they are themselves imported only where a torch policy is met.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from evenroll.adapters.probing import answers_alike
from evenroll.adapters.spaces import Actions, Observations
from evenroll.adapters.torch_results import Reading
from evenroll.errors import PolicyError
from evenroll.policies.distributions import Distribution
from evenroll.policies.mlp import MLP
from evenroll.text.numbers import first_line

MOST_FEATURES = 256  # more features are projected at random: a step costs D², and few episodes cannot balance more of them
CLOSE = 1e-4  # how far the outputs of a network and of its compiled copy may differ, relative to their size
NO_FUNCTION = (
    "the policy answers otherwise when it is asked again about the same observations, so it draws inside its network or "
    "remembers: return the distribution of its actions (torch.distributions.Normal(mean, scale), Categorical(logits=…)) "
    "instead of a draw from it; or have it act as it does, without balancing, as a function of one observation that "
    "gives the action: evenroll.evaluate(env, lambda x: act(x))"
)
NO_FORWARD = (
    "{0} has no forward: wrap it in a torch.nn.Module whose forward(x) takes a batch of observations and returns the "
    "distribution of the actions, such as torch.distributions.Categorical(logits=…) (docs/policies.md)"
)


class TorchPolicy:
    """A network that maps observations to distributions of actions.

    call          a batch of observations (array [n, …]) → a distribution, a list of distributions, or a tensor
    module        what `call` runs; it is switched to evaluation mode and searched for its last linear layer
    observations  the environment's, which give the probes that the network is tried on
    actions       the environment's
    """

    def __init__(
        self, call: Callable[[Any], Any], module: torch.nn.Module, observations: Observations, actions: Actions
    ) -> None:
        self.call, self.module = call, module
        self.reading = Reading(actions)
        self.probed = np.zeros((0, 0))  # the normalised outputs on the probes, once `_watch` has run
        module.eval()
        self.probes = observations.probes()
        self.calls = _watch(self, self.probes)
        if not answers_alike(self.described, self.reading.same, observations, self.probes):
            raise PolicyError(NO_FUNCTION)
        self.head_call = self._find_head()
        self.head = None if self.head_call is None else self.head_call.layer
        self._features: torch.Tensor | None = None
        self.projection: np.ndarray | None = None
        self.width = 0
        if self.head is not None:
            self._hook = self.head.register_forward_pre_hook(self._remember)
            self.projection = projection_of(self.head.in_features)
            self.width = min(self.head.in_features, MOST_FEATURES)

    @property
    def distribution(self) -> Distribution:
        return self.reading.actions.distribution

    @property
    def choices(self) -> tuple[int, ...]:
        return self.reading.actions.choices

    @property
    def real(self) -> int:
        return self.reading.actions.real

    def close(self) -> None:
        """Take our hook off the network. Nothing can be encoded after that."""
        if self.head is not None:
            self._hook.remove()

    def _remember(self, module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        self._features = inputs[0]

    def _find_head(self) -> _Call | None:
        """The last linear layer whose outputs are the policy's, else the last one that ran on one row per observation."""
        rows = [c for c in self.calls if c.inputs.ndim == 2 and len(c.inputs) == len(self.probed)]
        n = sum(self.choices) or self.real
        if self.reading.noise is not None:  # parameters of any number; a critic's layer has a single output
            return next((c for c in reversed(rows) if c.outputs.shape[1] >= n), rows[-1] if rows else None)
        fitting = [c for c in rows if c.outputs.shape[1] in (n, 2 * n)]
        for candidates in ([c for c in fitting if self._explains(c.outputs)], fitting, rows):
            if candidates:
                return candidates[-1]
        return None

    def _explains(self, outputs: np.ndarray) -> bool:
        theirs = self.probed
        if self.choices:
            return outputs.shape == theirs.shape and _close(self.distribution.normalised(outputs), theirs)
        return any(
            part.shape == theirs[:, 0::2].shape and _close(part, theirs[:, 0::2]) for part in (outputs, np.tanh(outputs))
        )

    def outputs(self, observations: np.ndarray) -> np.ndarray:
        """The outputs [n, outputs]: logits, or the mean and log scale of each dimension in turn."""
        with torch.inference_mode():
            return self.reading.outputs(self.call(observations)).double().numpy()

    def described(self, observations: Any) -> np.ndarray:
        """The numbers by which two answers of the policy are compared."""
        with torch.inference_mode():
            return self.reading.described(self.call(observations)).double().numpy()

    def encode(self, observations: np.ndarray) -> np.ndarray:
        """The features and outputs [n, features + outputs], float64, which `External` observes."""
        out = self.outputs(observations)
        if self.head is None:
            return out
        assert self._features is not None
        features = self._features.detach().float().numpy()
        if self.projection is not None:
            features = features @ self.projection
        return np.concatenate([features, out], axis=1, dtype=np.float64)

    def log_probs(self, observations: Any, actions: np.ndarray) -> torch.Tensor:
        """log π(a|s) [n] of actions [n, dim] with its graph, so that `backward` of the sum gives the sum of scores."""
        return self.reading.log_probs(self.reading.outputs(self.call(observations)), actions)

    # ---- recognised ------------------------------------------------------------------------------------------------

    def compiled(self) -> MLP | None:
        """The same function as an MLP of ours, or None if the network is no MLP.

        In an MLP the first layer's input is the observation, each other layer's input is the activation of the layer
        before, and the last layer's outputs are the policy's. All of this is checked on the probes, to CLOSE.
        """
        if len(self.choices) > 1 or self.reading.noise is not None or isinstance(self.probes, dict | tuple):
            return None
        rows = np.asarray(self.probes, dtype=np.float64).reshape(len(self.probes), -1)
        chain = next((found for name in _ACTIVATIONS if (found := self._chain(name, rows))), None)
        if chain is None:
            return None
        activation, calls = chain
        tensors = [(c.layer.weight.detach().double().numpy(), _bias(c.layer)) for c in calls]
        log_std, squashed = None, False
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
        ours = mlp.distribution.normalised(np.array([mlp.outputs(row) for row in rows]))
        return mlp if ours.shape == self.probed.shape and _close(ours, self.probed) else None

    def _chain(self, activation: str, rows: np.ndarray) -> tuple[str, list[_Call]] | None:
        """The layers that lead from the observation to the head, found backwards. Others, of a critic say, are left out."""
        chain, earlier = [self.head_call] if self.head_call is not None else [], self.calls
        while chain and not _close(chain[0].inputs, rows):
            earlier = earlier[: earlier.index(chain[0])]
            outputs = ((c, _ACTIVATIONS[activation](c.outputs)) for c in reversed(earlier) if c.inputs.ndim == 2)
            before = next((c for c, out in outputs if _close(out, chain[0].inputs)), None)
            if before is None:
                return None
            chain.insert(0, before)
        return (activation, chain) if chain else None


_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}


class _Call:
    """The inputs and outputs of one linear layer on the probes."""

    def __init__(self, layer: torch.nn.Linear, inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        self.layer = layer
        self.inputs, self.outputs = inputs.detach().double().numpy(), outputs.detach().double().numpy()


def _watch(policy: TorchPolicy, probes: np.ndarray) -> list[_Call]:
    """All linear layers that ran, in their order. The policy's outputs are left in `policy.probed`."""
    calls: list[_Call] = []
    hooks = [
        part.register_forward_hook(lambda layer, inputs, outputs: calls.append(_Call(layer, inputs[0], outputs)))
        for part in policy.module.modules()
        if isinstance(part, torch.nn.Linear)
    ]
    try:
        with torch.inference_mode():
            result = policy.call(probes)
            policy.reading.settle(result)
            out = policy.reading.outputs(result).double().numpy()
    except PolicyError:
        raise
    except NotImplementedError as error:
        raise PolicyError(NO_FORWARD.format(type(policy.module).__name__)) from error
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError, AssertionError) as error:
        shapes = list(probes.shape) if isinstance(probes, np.ndarray) else type(probes).__name__
        raise PolicyError(
            f"the policy fails on observations {shapes}: {first_line(error)}; if it wants them otherwise, wrap it in a "
            "torch.nn.Module whose forward(x) takes a batch and returns a distribution (docs/policies.md)"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    n = len(probes if isinstance(probes, np.ndarray) else out)
    if len(out) != n:
        raise PolicyError(f"the policy gives {len(out)} distributions for {n} observations: it must take a batch")
    policy.probed = policy.distribution.normalised(out)
    return calls


def projection_of(width: int) -> np.ndarray | None:
    """The random matrix [width, MOST_FEATURES] that so many features are multiplied by; None if they are few enough."""
    if width <= MOST_FEATURES:
        return None
    return (np.random.default_rng(0).standard_normal((width, MOST_FEATURES)) / np.sqrt(width)).astype(np.float32)


def _bias(layer: torch.nn.Linear) -> np.ndarray:
    return np.zeros(layer.out_features) if layer.bias is None else layer.bias.detach().double().numpy()


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max() <= CLOSE * (1.0 + np.abs(b).max()))


def tensors_for(module: torch.nn.Module, whole: bool) -> Callable[[Any], Any]:
    """A function that turns observations into tensors of the kind that the module's parameters have.

    whole  observations are whole numbers and stay whole, as an embedding needs them
    """
    first = next((p for p in module.parameters() if p.is_floating_point()), None)
    dtype, device = (torch.float32, "cpu") if first is None else (first.dtype, first.device)
    if str(device) != "cpu":
        raise PolicyError(f"the policy lives on {device}: move it to the processor with .cpu()")
    kind = torch.int64 if whole else dtype

    def tensors(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: tensors(part) for key, part in x.items()}
        if isinstance(x, tuple):
            return tuple(tensors(part) for part in x)
        return torch.as_tensor(x).to(kind)

    return tensors


def training_flags(module: torch.nn.Module) -> Callable[[], None]:
    """A function that puts the module and each of its parts back into the mode that it is in now.

    The parts may differ: a layer that is frozen in evaluation mode inside a network that is being trained stays frozen.
    """
    flags = [(part, part.training) for part in module.modules()]

    def restore() -> None:
        for part, training in flags:
            part.training = training

    return restore
