"""The command line: one file for each group of commands, and `console`, the only place that prints.

This package may import everything. What takes time to load is imported when a command runs.
"""

from evenroll.cli.app import main

__all__ = ["main"]
