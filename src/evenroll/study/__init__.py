"""Many trials: how they are run, kept, drawn and judged.

trials       one trial, measured at every checkpoint      comparison   several methods in one call
blocks       trials under an identity                     store        blocks on disk, written once
targets      what a figure or table of the paper is       experiments  the paper's experiments, as values
reproduce    what is missing is run, what is there read   costs        what a target takes
published    what the paper's authors published           laws         the theory as data for pictures
results      the trials of targets put together           ratios       numbers with errors, and what they decide
evidence     what claims are judged by                    claims       what the paper says, and whether it holds here
palette      one colour for one way to collect            charts       charts as values
figures      pictures                                     report       one page with all of it

This package may import everything but cli.
"""

from evenroll.study.comparison import Comparison, compare
from evenroll.study.curve import Curve
from evenroll.study.trials import Trials, checkpoints_for, initial_data, run_trial

__all__ = ["Comparison", "Curve", "Trials", "checkpoints_for", "compare", "initial_data", "run_trial"]
