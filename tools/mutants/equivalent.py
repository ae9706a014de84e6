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
    "study/bench.py: list(pool.map(lambda seed: _seconds(domain, policy, sampler, steps, seed), (1, 2))) → list(pool.map("
    "lambda seed: _seconds(domain, policy, sampler, steps, seed), (2, 2)))": "two runs are timed, whatever their seeds",
    "study/bench.py: rng = np.random.default_rng(0) → rng = np.random.default_rng(1)": "the numbers are only timed",
    'study/store.py: if not all(isinstance(name, str) for name in identity["measures"]) or not identity["checkpoints"]: → '
    'if not all(isinstance(name, str) for name in identity["measures"]) and not identity["checkpoints"]:': "what passes is "
    "refused by the lines that follow, in the same words",
    "samplers/auto_network.py: return np.zeros(2 * D + 2 * n * D + D * D, dtype=policy.dtype), 2 * width * width → return "
    "np.zeros(2 * D + 2 * n * D + D * D, dtype=policy.dtype), 3 * width * width": "memory that nobody uses",
    "collection/trial.py: per_step = tuple(np.empty(step_room * w if self.record_steps else 0) for w in widths) → "
    "per_step = tuple(np.empty(step_room * w if self.record_steps else 1) for w in widths)": "memory that nobody uses",
}
