"""Samplers: how the next action is chosen, given all the data so far."""

from evenroll.samplers.auto import Auto
from evenroll.samplers.base import Sampler
from evenroll.samplers.bpg import BPG
from evenroll.samplers.odi import ODI
from evenroll.samplers.off_policy import OffPolicy
from evenroll.samplers.on_policy import OnPolicy
from evenroll.samplers.props import PROPS
from evenroll.samplers.revar import ReVar
from evenroll.samplers.roa import ROA
from evenroll.samplers.ros import ROS
from evenroll.samplers.ros_episode import ROSEpisode
from evenroll.samplers.ros_head import ROSHead

__all__ = ["BPG", "ODI", "PROPS", "ROA", "ROS", "Auto", "OffPolicy", "OnPolicy", "ROSEpisode", "ROSHead", "ReVar", "Sampler"]
