"""`python -m evenroll`."""

from evenroll.cli.app import main

if __name__ == "__main__":
    main()
