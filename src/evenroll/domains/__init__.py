"""Built-in domains, one file each: dynamics, exact value, the paper's settings, training recipe, Gymnasium id.

This package may import policies, files and engine.
"""
