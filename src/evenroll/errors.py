"""Every error evenroll raises on purpose. The message is one line that names the cause."""

from __future__ import annotations


class EvenrollError(Exception):
    """Base of all errors a user can cause or should see; the command line prints it and exits with code 2."""


class SpecError(EvenrollError):
    """A name, parameter or combination in a specification is not known or not possible."""


class PolicyError(EvenrollError):
    """A policy or policy file is malformed, mis-shaped, non-finite or does not fit the domain."""


class EnvironmentFault(EvenrollError):
    """The environment did something that makes the data worthless (a non-finite reward, for example)."""


class DataError(EvenrollError):
    """Rollouts are inconsistent, or lack a column that was asked for."""


class NoEstimate(EvenrollError):
    """The data does not determine an estimate (no finished trajectory, for example)."""
