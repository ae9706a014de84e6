"""What most people need: evaluate a policy, compare two, diagnose data, own the loop.

This package may import everything above it in the flow, but not sb3, study or cli.
"""
