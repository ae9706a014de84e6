"""What travels to workers: names, numbers and files, and nothing that was made elsewhere from other sources."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.adapters.normalization import Normalization
from evenroll.domains.catalogue import get_domain
from evenroll.errors import EvenrollError, PolicyError, SpecError
from evenroll.evaluation.recipes import PolicyFile, Recipe, close_all, environment_text, made_here, policy_to_send
from evenroll.policies import save_policy
from evenroll.samplers import Auto, OnPolicy
from tests.evaluation import worker_environments
from tests.evaluation.worker_environments import ID

POLICY = get_domain("cartpole").policy()


def recipe(**changes: Any) -> Recipe:
    given = {"environment": ID, "policy": policy_to_send(POLICY), "sampler": Auto(), "gamma": 0.99, "seed": 0}
    return Recipe(**{**given, "horizon": None, "deterministic": False, **changes})


def key(**changes: Any) -> str:
    made = recipe(**changes).make()
    made.env.close()
    return made.key


def test_environments_travel_by_name() -> None:
    assert environment_text("CartPole-v1") == "CartPole-v1"
    assert environment_text(gym.spec("CartPole-v1")) == "CartPole-v1"
    assert environment_text(worker_environments.slow) == "tests.evaluation.worker_environments:slow"
    with pytest.raises(SpecError, match="give an id"):
        environment_text(gym.make(ID))
    with pytest.raises(SpecError, match="top of a module"):
        environment_text(lambda: gym.make(ID))


def test_policies_travel_as_files_or_by_name(tmp_path: Path) -> None:
    save_policy(POLICY, tmp_path / "mine.safetensors")
    sent = policy_to_send(tmp_path / "mine.safetensors")
    assert isinstance(sent, PolicyFile)
    np.testing.assert_array_equal(sent.load().theta, POLICY.theta)
    assert policy_to_send("module:function") == "module:function"
    assert policy_to_send(worker_environments.slow) == "tests.evaluation.worker_environments:slow"
    with pytest.raises(PolicyError, match=r"absent.safetensors: no such file"):
        policy_to_send(tmp_path / "absent.safetensors")
    with pytest.raises(SpecError, match="needs a policy"):
        policy_to_send(None)
    with pytest.raises(SpecError, match="a dict cannot be sent to workers: give a file"):
        policy_to_send({})


def test_whatever_changes_the_episodes_changes_the_identity() -> None:
    same = key()
    assert key() == same
    norm = Normalization(np.zeros(4), np.ones(4), 10.0, 1e-8)
    changes: list[dict[str, Any]] = [
        {"environment": "CartPole-v1"}, {"sampler": OnPolicy()}, {"sampler": Auto(0.1 + 1e-12)}, {"gamma": 0.9},
        {"seed": 1}, {"horizon": 5}, {"deterministic": True}, {"place": (1,)}, {"starts": 3}, {"keep": True},
        {"normalization": norm},
    ]  # fmt: skip
    assert len({same, *(key(**change) for change in changes)}) == 1 + len(changes)


MODULE = """
import gymnasium as gym
def make():
    return gym.make("evenroll/CartPole-v0")
"""


def test_a_worker_with_other_sources_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "users_environment.py").write_text(MODULE)
    mine = recipe(environment="users_environment:make")
    asked = key(environment="users_environment:make")
    made = made_here(mine, asked)
    assert made_here(mine, asked) is made
    close_all(asked)
    (tmp_path / "users_environment.py").write_text(MODULE + "# changed\n")
    with pytest.raises(EvenrollError, match="a worker runs another environment, policy"):
        made_here(mine, asked)
    sys.modules.pop("users_environment")
