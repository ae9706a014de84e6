"""What most people need: evaluate a policy, compare two policies, diagnose data, or collect in a loop of one's own.

This package may import everything above it in the flow, but not sb3, study or cli.
"""
