"""Full ROS for a network that runs through torch, whose parameters are all changed at every step."""

from __future__ import annotations

import numpy as np
import torch

from evenroll.adapters.torch_module import TorchPolicy
from evenroll.errors import PolicyError


class RosThroughTorch:
    """Full ROS for any network: θ_b = θ_e − (α/k) S, where `backward` itself sums S = Σ ∇log π_e into one flat buffer.

    A step of all lanes is a forward pass at θ_b, and a forward and a backward pass at θ_e. θ_b stays the same for all lanes
    of a step, because ROS, unlike `auto`, must run the network again to use what it has just learnt.
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
        """S += Σ ∇log π_e(a|s). Returns log π_e(a|s)."""
        log_e = self.policy.log_probs(observations, actions)
        log_e.sum().backward()
        self.k += len(actions)
        return log_e.detach().double().numpy()

    def close(self) -> None:
        for p in self.parameters:
            p.grad = None
