"""Samplers: how the next action is chosen, given all the data so far."""

from evenroll.samplers.auto import Auto
from evenroll.samplers.base import Sampler
from evenroll.samplers.bpg import BPG
from evenroll.samplers.off_policy import OffPolicy
from evenroll.samplers.on_policy import OnPolicy
from evenroll.samplers.ros import ROS

__all__ = ["BPG", "ROS", "Auto", "OffPolicy", "OnPolicy", "Sampler"]
