"""Drop-in replacements for Stable-Baselines3's evaluation and callbacks. This package may import evaluation."""
