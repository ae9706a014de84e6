"""Designs from a tabular model refuse what is no table."""

from __future__ import annotations

import pytest

from evenroll.errors import SpecError
from evenroll.samplers.table import get_sampler
from tests.helpers import NETWORKS, trial


@pytest.mark.parametrize("spec", ["revar", "odi"])
@pytest.mark.parametrize("name", NETWORKS)
def test_tabular_designs_refuse_networks(name: str, spec: str) -> None:
    with pytest.raises(SpecError, match=f"{spec} needs a tabular policy"):
        trial(name, get_sampler(spec), steps=10)
