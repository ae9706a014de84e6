"""What `auto` is told and what it remembers, by name."""

from __future__ import annotations

from evenroll.engine.views import Fields

SEVERAL_DISCRETE = 2  # the value of `Settings.discrete` where a step takes several discrete actions at once


class Settings(Fields):
    max_kl: float
    gamma: float
    width: float  # the length of ψ
    directions: float  # D: the length of ψ times the number of an action's scores that are free to vary
    discrete: float  # 1 for one discrete action, SEVERAL_DISCRETE for several at once, 0 for real ones


class Memory(Fields):
    """Behind these entries follow τ and x of the present step, with one number for each output; then the sums.

    The sums are those of the table (`auto_table.StateSums`) or of the network (`auto_network.network_state`).
    """

    k: float  # steps so far
    t: float  # time within the running trajectory
    discount: float  # γᵗ
    next_fit: float  # K is inverted anew when there are this many steps
    chosen: float  # 1 between `choose` and `update`
    times: float  # Σ t over all steps
    lane: float  # the number of the running trajectory among those side by side
