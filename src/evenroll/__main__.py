"""`python -m evenroll`."""

import sys

from evenroll.cli import main

if __name__ == "__main__":
    sys.exit(main())
