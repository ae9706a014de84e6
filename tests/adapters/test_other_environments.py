"""Vector environments of other libraries, where they are installed: SuperSuit around PettingZoo, and envpool."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import evenroll
from evenroll.adapters.vector_environments import as_lanes
from evenroll.errors import SpecError

LENGTH = 5


def _two_agents() -> Any:
    pettingzoo = pytest.importorskip("pettingzoo")

    class Two(pettingzoo.ParallelEnv):
        """Two agents who earn 1 for every action 1, for five steps."""

        metadata, possible_agents, render_mode = {"name": "two", "render_modes": []}, ["a", "b"], None

        def observation_space(self, agent: str) -> gym.Space:
            return gym.spaces.Box(-9.0, 9.0, (3,), np.float32)

        def action_space(self, agent: str) -> gym.Space:
            return gym.spaces.Discrete(2)

        def _look(self) -> dict[str, Any]:
            return {agent: self.rng.standard_normal(3).clip(-9, 9).astype(np.float32) for agent in self.possible_agents}

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.rng, self.agents, self.t = np.random.default_rng(seed), list(self.possible_agents), 0
            return self._look(), {agent: {} for agent in self.agents}

        def step(self, actions: dict[str, int]) -> Any:
            self.t += 1
            over, agents = self.t >= LENGTH, list(self.agents)
            if over:
                self.agents = []
            rewards = {agent: float(actions[agent]) for agent in agents}
            return (
                self._look(), rewards, dict.fromkeys(agents, over), dict.fromkeys(agents, False), {a: {} for a in agents}
            )  # fmt: skip

    return Two()


@pytest.mark.parametrize("around", ["none", "gymnasium", "stable_baselines3"])
def test_agents_of_pettingzoo_in_supersuits_wrappers(around: str) -> None:
    """Each agent is a lane. Its return is its own, and the result says that the agents of one world are not independent."""
    supersuit = pytest.importorskip("supersuit")
    env = supersuit.pettingzoo_env_to_vec_env_v1(_two_agents())
    if around != "none":
        env = supersuit.concat_vec_envs_v1(env, 2, num_cpus=1, base_class=around)
    with pytest.warns(UserWarning, match="agents of one world"):
        result = evenroll.evaluate(env, lambda x: [0.0, 1.0] if x[0] > 0 else [0.5, 0.5], episodes=12, estimator="mc")
    assert result.episodes == 12
    assert result.steps == 12 * LENGTH
    assert 2.5 < result.value <= LENGTH
    assert any("depend on each other" in text for text in result.warnings)


def test_a_pettingzoo_environment_alone_is_told_what_to_do() -> None:
    class Agents:
        possible_agents = ("a", "b")

    with pytest.raises(SpecError, match=r"supersuit\.pettingzoo_env_to_vec_env_v1\(env\)"):
        as_lanes(Agents())


def test_envpool() -> None:
    """Its environments reset a lane in the step after its end, as Gymnasium's do."""
    envpool = pytest.importorskip("envpool", exc_type=(ImportError, FileNotFoundError))
    env = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, seed=1)
    result = evenroll.evaluate(env, lambda x: [0.5, 0.5], episodes=30)
    assert result.episodes == 30
    assert 10 < result.quantities["length"].value < 50
