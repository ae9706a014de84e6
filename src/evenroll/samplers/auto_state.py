"""What `auto` remembers, by name."""

from __future__ import annotations

from evenroll.engine.views import Fields

SEVERAL_DISCRETE = 2


class Settings(Fields):
    max_kl: float
    gamma: float
    states: float  # of a table; 0 for a network
    width: float  # length of ψ
    directions: float  # D: length of ψ times the scores of an action that are free to vary
    discrete: float  # 1 for one discrete action, SEVERAL_DISCRETE for several at once, 0 for real ones


class Memory(Fields):
    """What follows: τ and x of the present step, one number for each output; then the sums of the table or network."""

    k: float  # steps so far
    t: float  # time within the running trajectory
    discount: float  # γᵗ
    next_fit: float  # K is inverted anew when there are this many steps
    chosen: float  # 1 between `choose` and `update`
    times: float  # Σ t over all steps
