"""Domains by name: what is unknown is refused, and what is shipped has its provenance."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import provenance
from evenroll.errors import PolicyError, SpecError
from evenroll.policies import TabularSoftmax, policy_digest


@pytest.mark.parametrize("name", DOMAINS)
def test_shipped_policies_have_their_provenance(name: str) -> None:
    domain = get_domain(name)
    stored = provenance(domain.shipped)
    policy = domain.policy()
    assert stored["digest"] == policy_digest(policy)
    assert stored["command"].startswith("evenroll train")
    truth = domain.known_truth(policy)
    assert truth.value == pytest.approx(stored["value"], rel=1e-9)
    assert (truth.value_se / truth.value) ** 2 <= 2e-8


def test_unknown_names_and_parameters_are_refused() -> None:
    misspelt = (
        "gridwrld",
        "gridworld:nois=1",
        "gridworld:noise=x",
        "gridworld:noise",
        "cartpole:actions=4",
        "bandit:redraw",
    )
    for bad in misspelt:
        with pytest.raises(SpecError):
            get_domain(bad)
    with pytest.raises(SpecError, match="evenroll train"):
        get_domain("cartpole:actions=3").policy()
    with pytest.raises(PolicyError, match="4 actions"):
        get_domain("gridworld").environment(None).check(TabularSoftmax(np.zeros((16, 3))))
    with pytest.raises(PolicyError):
        get_domain("gridworld").environment(None).check(TabularSoftmax(np.zeros((15, 4))))
