"""The command line: one file for each group of commands, and `console`, through which they all print.

This package may import everything. What takes time to load is imported when a command runs.
"""

import gc

YOUNG = 100_000  # objects made before garbage is looked for, instead of Python's 700; a choice


def main() -> None:
    """Run the command line. Python looks for garbage seldom, and not among what was loaded, nor when the process ends.

    Modules and machine code stay until the end, and looking through them again and again took a tenth of a short command.
    """
    gc.set_threshold(YOUNG)
    try:
        from evenroll.cli.app import main as run

        run()
    finally:
        gc.freeze()


__all__ = ["main"]
