"""`python -m evenroll`."""

from evenroll.cli import main

if __name__ == "__main__":
    main()
