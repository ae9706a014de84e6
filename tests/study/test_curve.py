"""What many trials of one method measured: the statistics by hand, and trials without an estimate."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evenroll.study.curve import Curve

# Four trials at three checkpoints, relative to the true value: nobody, two, and all have an estimate.
ESTIMATES = np.array([[np.nan, 1.1, 1.2], [np.nan, 0.7, 0.9], [np.nan, np.nan, 1.1], [np.nan, np.nan, 0.6]])


def test_statistics_are_over_the_trials_that_have_an_estimate() -> None:
    curve = Curve("os/mc", ESTIMATES)
    np.testing.assert_array_equal(curve.missing, [4, 2, 0])
    np.testing.assert_allclose(curve.mse[1:], [(0.01 + 0.09) / 2, (0.04 + 0.01 + 0.01 + 0.16) / 4])
    np.testing.assert_allclose(curve.bias[1:], [-0.1, -0.05])
    np.testing.assert_allclose(curve.mse_se[1:], [0.04, np.std([0.04, 0.01, 0.01, 0.16], ddof=1) / 2])
    np.testing.assert_allclose(curve.quantile(0.5)[1:], [0.05, 0.025])
    assert np.isnan([curve.mse[0], curve.bias[0], curve.mse_se[0]]).all()


def test_columns_find_their_places() -> None:
    """The first is the estimate; the sampling errors are found by name, whatever stands between."""
    values = np.stack([ESTIMATES, 2 * ESTIMATES, 3 * ESTIMATES, 4 * ESTIMATES], axis=1)
    curve = Curve.of("os/mc", ("mc", "wis", "kl", "grad_norm"), values, 1)
    np.testing.assert_array_equal(curve.estimates, ESTIMATES)
    np.testing.assert_array_equal(curve.kl, 3 * ESTIMATES)
    np.testing.assert_array_equal(curve.grad_norm, 4 * ESTIMATES)
    assert curve.effective_sample_size is None
    assert curve.runaway == 1


def test_json_has_null_for_what_could_not_be_computed() -> None:
    told = json.loads(json.dumps(Curve("os/mc", ESTIMATES, kl=ESTIMATES).to_json(), allow_nan=False))
    assert told["mse"][0] is None
    assert told["mse"][1] == pytest.approx(0.05)
    assert told["kl"][1:] == pytest.approx([0.9, 0.95])
    assert told["grad_norm"] == [None] * 3
    assert told["missing"] == [4, 2, 0]
