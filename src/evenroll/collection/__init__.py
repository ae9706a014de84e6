"""Collection turns a policy, a sampler and an environment into rollouts: by whole trials, or step by step in many lanes.

This package may import samplers, domains, adapters, policies, files and engine.
"""
