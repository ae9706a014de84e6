"""From rollouts to an interval: for independent trajectories, for balanced ones, and for stopping in between.

This package may import estimators, collection and samplers.
"""
