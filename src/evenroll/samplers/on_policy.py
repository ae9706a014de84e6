"""On-policy sampling: a ~ π_e."""

from __future__ import annotations

from dataclasses import dataclass

from evenroll.kernel import CHOOSE, Floats, Piece, PolicyView, SamplerView, draw, forward, piece
from evenroll.samplers.base import Sampler


@dataclass(frozen=True)
class OnPolicy(Sampler):
    """Independent actions from the evaluation policy."""

    name = "os"
    independent = True
    on_policy = True
    needs_rewards = False

    def pieces(self) -> dict[str, Piece]:
        return {"choose": choose}


@piece(CHOOSE)
def choose(policy: PolicyView, sampler: SamplerView, obs: Floats, u: Floats, action: Floats) -> None:
    forward(policy, sampler.vectors, 0.0, obs)
    draw(policy, u, action)
