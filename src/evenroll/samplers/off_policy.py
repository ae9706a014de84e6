"""The slightly off-policy behaviour that collects the paper's initial data D₁."""

from __future__ import annotations

from dataclasses import dataclass

from evenroll.engine.pieces import Floats, Piece, piece
from evenroll.engine.views import Fields
from evenroll.policies.interface import PolicyView, draw, forward_e, soften
from evenroll.samplers.base import Sampler, require
from evenroll.samplers.interface import CHOOSE, SamplerView


class Settings(Fields):
    delta: float


@dataclass(frozen=True)
class OffPolicy(Sampler):
    """π_b is (1 − δ) π_e + δ/|A| for a discrete action; for a Gaussian it has the same mean, and σ_b = (1 + δ) σ_e."""

    delta: float
    name = "off"
    independent = True

    def __post_init__(self) -> None:
        require(0.0 <= self.delta <= 1.0, f"off: delta must lie in [0, 1], not {self.delta}")

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose}


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward_e(policy, obs)
    soften(policy, Settings(sampler.settings).delta)
    draw(policy, u, action)
