"""Bugs that were drawn and are none: whoever uses the package cannot tell. Each was looked at, and has its reason beside it.

The key is the name of the bug, `file: the line as it was → the line as it becomes`, so that it survives changes elsewhere.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
