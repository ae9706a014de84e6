"""Samplers: how the next action is chosen, given all the data so far. Each has a file; `table` lists them by name.

This package may import policies, engine and text. `base` says what a sampler is; `ros` is the shortest real one.
"""

from evenroll.samplers.auto import Auto
from evenroll.samplers.base import Sampler
from evenroll.samplers.bpg import BPG
from evenroll.samplers.off_policy import OffPolicy
from evenroll.samplers.on_policy import OnPolicy
from evenroll.samplers.ros import ROS
from evenroll.samplers.table import SAMPLERS, get_sampler

__all__ = ["BPG", "ROS", "SAMPLERS", "Auto", "OffPolicy", "OnPolicy", "Sampler", "get_sampler"]
