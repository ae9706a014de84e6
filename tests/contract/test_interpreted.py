"""NUMBA_DISABLE_JIT=1: the pieces run as plain Python, for debugging, and agree with the compiled ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, warnings
import numpy as np
warnings.simplefilter("ignore")  # unsigned overflow is what the generator is made of
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.samplers.table import SAMPLERS, get_sampler
from evenroll.collection.lanes import Lanes
out = {}
for name in ("bandit", "gridworld", "cartpole", "cartpole-continuous"):
    domain = get_domain(name)
    policy = domain.policy()
    policy = policy.astype(np.float64) if hasattr(policy, "astype") else policy
    for spec in SAMPLERS:
        sampler = get_sampler(spec, domain.paper)
        try:
            sampler.check(policy)
        except SpecError:
            continue
        driver = Driver(policy, sampler, (1,), gamma=domain.gamma, horizon=domain.horizon, record_steps=True)
        data = driver.run(domain.environment(None), steps=40)
        out[f"{name} {spec}"] = [data.actions.ravel().tolist(), data.log_b.tolist()]
        if sampler.whole_trials_only or spec not in ("auto", "ros"):
            continue
        stepper = Lanes(policy, sampler, (1,), gamma=domain.gamma, lanes=2)
        seen = []
        for t in range(6):  # two lanes side by side, one of them over after three steps
            assert stepper.advance(np.ascontiguousarray(data.observations[[t, t + 6]]), np.ones(2, np.int64)) < 0
            seen += [stepper.actions.ravel().tolist(), stepper.log_b.tolist()]
            if t == 2:
                stepper.end(0)
        out[f"{name} {spec}, side by side"] = [sum(seen[::2], []), sum(seen[1::2], [])]
print(json.dumps(out))
"""


def test_interpreted_pieces_agree_with_compiled_ones() -> None:
    runs = []
    for disable in ("0", "1"):
        env = {**os.environ, "NUMBA_DISABLE_JIT": disable}
        run = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        runs.append(json.loads(run.stdout))
    for key, (actions, log_b) in runs[0].items():
        assert actions == pytest.approx(runs[1][key][0], abs=1e-9), key
        assert log_b == pytest.approx(runs[1][key][1], abs=1e-9), key
