"""Malicious or broken files of every kind that is read, made from valid small ones.

Every bad file comes with the command line that opens it. Where it could make code run, the code touches the canary.
Each module adds its kind of file to `BAD` when it is imported.
"""

from tests.files.corpus import minari, policies, rollouts, sb3_zips, statistics
from tests.files.corpus.registry import BAD

__all__ = ["BAD", "minari", "policies", "rollouts", "sb3_zips", "statistics"]
