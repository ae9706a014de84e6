"""On-policy sampling: a ~ π_e."""

from __future__ import annotations

from dataclasses import dataclass

from evenroll.engine.pieces import Floats, Piece, piece
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, draw, forward_e
from evenroll.samplers.base import Sampler
from evenroll.samplers.interface import CHOOSE, SamplerView
from evenroll.samplers.sums import Sums


@dataclass(frozen=True)
class OnPolicy(Sampler):
    """Draw every action from the evaluation policy, independently of the data."""

    name = "os"
    independent = True
    on_policy = True

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose}

    def sums(self, policy: Policy) -> Sums:
        return Sums()  # it learns nothing


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward_e(policy, obs)
    draw(policy, u, action)
