"""The built-in domains as Gymnasium environments."""

from __future__ import annotations

import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from evenroll.domains.catalogue import DOMAINS, get_domain


@pytest.mark.parametrize("name", [listing.gymnasium_id for listing in DOMAINS.values()])
def test_gymnasium_checker_accepts_the_environment(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unbounded spaces are what the domains have
        check_env(gymnasium.make(name).unwrapped, skip_render_check=True)


def test_registered_horizons_are_the_domains() -> None:
    for name, listing in DOMAINS.items():
        domain = get_domain(name)
        assert domain.gymnasium_id == listing.gymnasium_id
        assert domain.horizon == listing.horizon == gymnasium.spec(domain.gymnasium_id).max_episode_steps
