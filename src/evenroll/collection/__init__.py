"""From a policy, a sampler and an environment to rollouts: whole trials, or one step of many environments at a time.

This package may import samplers, domains, adapters, policies, files and engine.
"""
