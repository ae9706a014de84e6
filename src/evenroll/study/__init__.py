"""Many trials: run, kept, drawn and judged.

trials       one trial, measured at every checkpoint      comparison   several methods in one call
blocks       trials under an identity                     store        blocks on disk, written once
experiments  the paper's experiments, as values           reproduce    what is missing is run, what is there is read
laws         the theory as data for pictures              published    what the paper's authors published
figures      pictures                                     claims       what the paper says, and whether it holds here
report       one page with all of it

This package may import everything but cli.
"""

from evenroll.study.comparison import Comparison, compare
from evenroll.study.curve import Curve
from evenroll.study.trials import Trials, checkpoints_for, initial_data, run_trial

__all__ = ["Comparison", "Curve", "Trials", "checkpoints_for", "compare", "initial_data", "run_trial"]
