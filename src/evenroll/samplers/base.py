"""What every sampler is: frozen hyper-parameters, and pieces that say how it chooses and what it learns.

choose        draws an action, given the state and uniform numbers       (P, M, obs, u, action)
log_behavior  gives log π_b of that action, where somebody needs it      (P, M, action) → float
update        runs after each step, and for each step of initial data    (P, M, obs, action, reward)
end_episode   runs after each finished trajectory                        (P, M, return, log weight)

P is the policy's view and M the sampler's. `choose` leaves in P a forward pass at θ_e in this state. For initial data the
loop makes one before `update`. The loop alone owns randomness and the record.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from evenroll.engine import border
from evenroll.engine.pieces import Floats, Piece, piece
from evenroll.engine.views import Fields
from evenroll.errors import SpecError
from evenroll.policies import Policy
from evenroll.policies.interface import PolicyView, log_prob, out_b
from evenroll.samplers.interface import END_EPISODE, LOG_BEHAVIOR, UPDATE, SamplerView
from evenroll.samplers.sums import Sums

MOST_WORK = 1 << 31  # numbers that a step may work on: 0.9 s, measured for roa with networks of 64 × 64 and 256 × 256


@dataclasses.dataclass(frozen=True)
class Sampler:
    """Base of all samplers.

    name               its name in a specification such as "ros:alpha=10"; unless given, the name of its class
    independent        its trajectories are i.i.d. given the past behaviour, so that classical intervals hold
    on_policy          its actions come from π_e
    needs_weights      its `end_episode` uses the trajectory's importance weight
    whole_trials_only  why it can run only on a built-in domain, a whole trial at a time; None if it can run anywhere.
                       Elsewhere `update` follows `choose` at once, with a reward of 0: the environment has not moved yet
    memory             names for the first entries of its memory
    trajectory         which of these entries belong to the running trajectory: of several side by side each has its own
    lane               the entry, if any, that tells the number of the running trajectory among those side by side: its own
                       numbers (`each`) lie there
    """

    name: ClassVar[str]
    independent: ClassVar[bool] = False
    on_policy: ClassVar[bool] = False
    needs_weights: ClassVar[bool] = False
    whole_trials_only: ClassVar[str | None] = None
    memory: ClassVar[type[Fields]] = Fields
    trajectory: ClassVar[tuple[str, ...]] = ()
    lane: ClassVar[str | None] = None

    def __init_subclass__(cls) -> None:
        if "name" not in cls.__dict__:  # a sampler derived from another one must not be taken for it
            cls.name = cls.__name__

    def pieces(self) -> dict[str, Piece]:
        """The piece `choose`, and those of the others that replace the defaults below."""
        raise TypeError("a sampler lists its pieces")

    def pieces_for(self, policy: Policy) -> dict[str, Piece]:
        """The pieces that run this policy, where there are several kinds of them."""
        return self.pieces()

    def settings(self, policy: Policy, value: float, gamma: float) -> np.ndarray:
        """The hyper-parameters as the pieces see them.

        value  the scale of returns: v(π_e) where it is known
        gamma  the discount
        """
        return np.array([float(v) for v in dataclasses.asdict(self).values()] or [0.0])

    def state(self, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
        """(vectors, memory) before the first step."""
        return np.zeros(1, dtype=policy.dtype), np.zeros(1)

    def each(self, policy: Policy) -> int:
        """How many numbers each of several trajectories side by side has to itself. They lie behind the vectors."""
        return 0

    def sums(self, policy: Policy) -> Sums | None:
        """Which of its numbers are sums over steps; None if what it has learnt in several places cannot be added up."""
        return None

    def told(self, policy: Policy, settings: np.ndarray, memory: np.ndarray, blocks: int, steps: float) -> float:
        """The share of what it owes that each of `blocks` blocks is told of, which take this many steps in all.

        None of them sees what the others repay. If each repaid all that is owed, they would repay it several times over.
        """
        return 1.0 / blocks

    def check(self, policy: Policy) -> None:
        """Raise a `SpecError` if the sampler cannot run this policy."""

    def work(self, policy: Policy) -> int:
        """About how many numbers the longest step works on, where they are more than the policy's and the memory's."""
        return 0

    def check_memory(self, policy: Policy, memory: np.ndarray) -> None:
        """Raise a `DataError` if a memory that was read from a file holds numbers that the pieces must not meet.

        They are finite already, and as many as `state` gives. A sampler whose pieces take a number of their memory for a
        place (a state, an action) checks here that the place exists.
        """

    def arrays(
        self, policy: Policy, value: float, gamma: float, lanes: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(settings, vectors, memory) as compiled code may have them, for this many trajectories side by side."""
        for key, number in dataclasses.asdict(self).items():
            if isinstance(number, int) and abs(number) > border.EXACT:
                raise SpecError(f"{self.name}: {key} must lie within ±2⁵³, not at {number}")
        if self.work(policy) > MOST_WORK:
            raise SpecError(
                f"{self}: for a policy of {policy.parameters:,} weights a single step of it would take longer than a "
                "second, in which not even Ctrl-C is heard; give it less to do, or take auto or ros"
            )
        try:
            settings = np.array(self.settings(policy, value, gamma), dtype=np.float64)
            vectors, memory = self.state(policy)
            vectors = np.append(vectors, np.zeros(lanes * self.each(policy), dtype=vectors.dtype))
        except (OverflowError, MemoryError, ValueError, TypeError) as error:
            raise SpecError(f"{self}: its memory cannot be made ({type(error).__name__}: {error})") from None
        border.memory(f"the settings of {self.name}", settings, np.float64)
        border.memory(f"the vectors of {self.name}", vectors, policy.dtype)
        border.memory(f"the memory of {self.name}", memory, np.float64, self.memory.count)
        return settings, vectors, memory

    def __str__(self) -> str:
        values = ",".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in self._shown())
        return self.name + (":" + values if values else "")

    def _shown(self) -> list[tuple[str, Any]]:
        return list(dataclasses.asdict(self).items())


def require(condition: bool, message: str) -> None:
    if not condition:
        raise SpecError(message)


@piece(LOG_BEHAVIOR)
def log_behavior_from_outputs(policy: PolicyView, sampler: SamplerView, action: Floats) -> float:
    """log π_b where the behaviour policy is the distribution that the outputs at θ_b describe."""
    return log_prob(policy, out_b(policy), action)


@piece(UPDATE)
def no_update(policy: PolicyView, sampler: SamplerView, obs: Floats, action: Floats, reward: float) -> None:
    """The sampler learns nothing from a step."""


@piece(END_EPISODE)
def no_end_episode(policy: PolicyView, sampler: SamplerView, episode_return: float, log_weight: float) -> None:
    """The sampler learns nothing from a trajectory."""


DEFAULT_PIECES = {
    "log_behavior": log_behavior_from_outputs,
    "update": no_update,
    "end_episode": no_end_episode,
}
