"""Which of several policies is better? The examples of docs/compare-policies.md and docs/decide.md, some seconds each.

    python examples/which_policy.py                # a difference of fixed size, one until it is decided, and a race of six
    python examples/which_policy.py race.png       # the same, and a picture of the race

The policies push the cart of CartPole-v1 under the falling pole, the more surely the steeper they are. On the command line
they are `--policy which_policy:steep_20` and so on.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import evenroll

Policy = Callable[[Any], list[float]]


def steep(steepness: float) -> Policy:
    def policy(observation: Any) -> list[float]:
        """The probabilities of pushing left and right."""
        lean = observation[2] + observation[3]  # angle and its speed
        right = 1 / (1 + math.exp(-steepness * lean))
        return [1 - right, right]

    return policy


steep_10, steep_15, steep_20, steep_25, steep_30, steep_35 = (steep(x) for x in (1, 1.5, 2, 2.5, 3, 3.5))
SIX = {"1": steep_10, "1.5": steep_15, "2": steep_20, "2.5": steep_25, "3": steep_30, "3.5": steep_35}


def main(picture: str | None = None) -> tuple[evenroll.Difference, evenroll.Difference, evenroll.Race]:
    fixed = evenroll.difference("CartPole-v1", steep_35, steep_30, episodes=100, gamma=0.99)
    decided = evenroll.difference("CartPole-v1", steep_25, steep_20, until="decided", most=200, gamma=0.99)
    race = evenroll.best("CartPole-v1", SIX, most=40, margin=2.5, gamma=0.99)
    for result in (fixed, decided, race):
        print(result)
        print(result.in_words())
    if picture is not None:
        race.plot(picture)
    return fixed, decided, race


if __name__ == "__main__":
    main(*sys.argv[1:])
