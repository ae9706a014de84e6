"""The rule by which `reproduce --decide` looks at claims again and again, and how many trials a verdict will take.

Levels and looks were fixed before any trial was added at the paper's size; what the figures' own trials say was known
(docs/reproduce.md). A claim is looked at first with the trials of its figure, and then after each doubling of them, at most
DOUBLINGS times: 200, 400, 800, … trials. A part of a claim that is decided at a look stays so.

A claim holds if all of its parts hold, and does not hold if one of them is reversed. The chance of a wrong verdict is at
most 5 % for each claim, however many looks there are and whenever one stops, because the chances of all looks are added up:

- *A wrong "holds".* If the claim is false, some part is false, and "holds" needs a wrong look at that very part. An end of
  the interval may err with chance 2.5 % at the first look, as in the 95 % interval that every claim's criterion names, and
  with 2.5 % / DOUBLINGS at each look after it. That is 5 % in all. The number of parts does not matter.
- *A wrong "does not hold".* If the claim is true, one wrong look at any of its m parts is enough for it. So that end of the
  interval may err only with an m-th of these chances.

A claim is either true or false, so only one of the two can happen to it. Chances are those of the normal distribution.
Below FEW trials they are those of Student's distribution with half as many degrees of freedom as trials: squared errors are
skewed, and with 10 trials of normal errors each end of a normal 95 % interval errs with 5 % instead of 2.5 %.
"""

from __future__ import annotations

import math

from evenroll.study.parts import Critical
from evenroll.study.ratios import Z

WRONG = 0.05  # the chance of a wrong verdict on a claim
FIRST = 0.5 * math.erfc(Z / math.sqrt(2.0))  # the share of it for the first look: one end of a 95 % interval
DOUBLINGS = 12  # looks after the first; with ε = 0.01 the bandit's ratio is 0.993 at best, which takes about 11 (500 trials)
FEW = 200  # trials below which intervals are wider than normal ones; with 200, ends of 95 % intervals miss 2.6 % (measured)
TYPICAL = 0.67  # standard errors: half of all normal numbers are larger than this


def level(doublings: int) -> float:
    """How often one end of the interval of this look may err. Look 0 is that with the trials of the figure."""
    if not 0 <= doublings <= DOUBLINGS:
        raise ValueError(f"there are {DOUBLINGS} doublings, not {doublings}")
    return FIRST if doublings == 0 else (WRONG - FIRST) / DOUBLINGS


def critical(doublings: int, parts: int, trials: int) -> Critical:
    """How many standard errors the interval of a look reaches, for a claim of so many parts."""
    return Critical(reach(level(doublings), trials), reach(level(doublings) / parts, trials))


def reach(chance: float, trials: int) -> float:
    """How many standard errors from the estimate an end lies that errs with this chance."""
    from scipy import special

    return float(-special.ndtri(chance) if trials >= FEW else -special.stdtrit(trials / 2, chance))


def confidence(doublings: int, parts: int) -> float:
    """How often the interval of one look holds the truth: what its two ends leave."""
    return 1.0 - level(doublings) * (1.0 + 1.0 / parts)


def doublings_needed(strength: float, doublings: int, parts: int, trials: int) -> int | None:
    """With how many doublings a look will decide a part, if the truth is where the estimate is; None if with none of them.

    strength   how many standard errors the estimate now lies on the side on which the part holds
    doublings  how many there have been, for `trials` trials

    An estimate that is nearer to the border than TYPICAL standard errors says little about how near the truth is. It is
    taken to be that far away.
    """
    if math.isnan(strength):
        return None
    away = max(abs(strength), TYPICAL)
    for more in range(1, DOUBLINGS - doublings + 1):
        wanted = critical(doublings + more, parts, trials << more)
        if away * math.sqrt(2.0**more) > (wanted.holds if strength >= 0.0 else wanted.fails):
            return doublings + more
    return None


def trials_needed(strength: float, parts: int, trials: int) -> float:
    """About how many trials a look must have to decide a part, from its present width; not rounded to a doubling."""
    wanted = critical(DOUBLINGS, parts, max(trials, FEW))
    away = max(abs(strength), TYPICAL)
    return trials * ((wanted.holds if strength >= 0.0 else wanted.fails) / away) ** 2
