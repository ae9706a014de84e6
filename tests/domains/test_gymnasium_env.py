"""The built-in domains as Gymnasium environments."""

from __future__ import annotations

import warnings

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from evenroll.domains.catalogue import get_domain
from evenroll.domains.registration import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_checker_accepts_the_environment(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unbounded spaces are what the domains have
        check_env(gymnasium.make(name).unwrapped, skip_render_check=True)


def test_registered_horizons_are_the_domains() -> None:
    for name, (domain, horizon) in NAMES.items():
        assert get_domain(domain).horizon == horizon == gymnasium.spec(name).max_episode_steps
