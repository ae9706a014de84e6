"""Bugs that were drawn and are none: whoever uses the package cannot tell. Each was looked at, and has its reason beside it.

The key is the name of the bug, `file: the line as it was → the line as it becomes`, so that it survives changes elsewhere.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "study/trials.py: driver = Driver(policy, OffPolicy(delta), (*seed, 3), gamma=domain.gamma, horizon=domain.horizon, "
    "record_steps=True) → driver = Driver(policy, OffPolicy(delta), (*seed, 6), gamma=domain.gamma, horizon=domain.horizon, "
    "record_steps=True)": "any number names a stream of random numbers that nobody else uses",
    "policies/mlp_pieces.py: _dot(width, lanes, x_e, w, shift(out, r * stride)) → _dot(width, lanes, w, x_e, shift(out, r * "
    "stride))": "a product of two vectors is the same the other way round, to the last bit",
}
