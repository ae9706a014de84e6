"""The command line: one file for each group of commands, and `console`, through which they all print.

This package may import everything. What takes time to load is imported when a command runs.
"""


def main() -> None:
    from evenroll.cli.app import main as run

    run()


__all__ = ["main"]
