"""`evaluate_policy` with the signature and the behaviour of Stable-Baselines3's, but with balanced actions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from evenroll.adapters.masks import masks_of
from evenroll.adapters.model import takes_masks
from evenroll.errors import EvenrollError, PolicyError, SpecError
from evenroll.evaluation.collector import Collector


def evaluate_policy(
    model: Any,
    env: Any,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: Callable[[dict[str, Any], dict[str, Any]], None] | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Mean and standard deviation of the undiscounted returns, or the returns and lengths of all episodes.

    With deterministic=False the actions of PPO and A2C models are balanced. Then the mean has less error than the mean of as
    many independent episodes, and its error is not std/√n (see `evaluate`). Everything else is as in Stable-Baselines3: the
    rewards are Monitor's where there is one, each environment gets a fixed share of the episodes, and
    `callback(locals(), globals())` is called after each step of each environment.
    """
    try:
        from stable_baselines3.common.monitor import Monitor
        from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor, is_vecenv_wrapped
    except ImportError:
        raise EvenrollError("evaluate_policy needs stable-baselines3; evenroll.evaluate does not") from None
    if not isinstance(env, VecEnv):
        single = env
        env = DummyVecEnv([lambda: single])
    is_monitor_wrapped = is_vecenv_wrapped(env, VecMonitor) or env.env_is_wrapped(Monitor)[0]
    if not is_monitor_wrapped and warn:
        warnings.warn(
            "the environment has no Monitor: rewards and lengths are counted as step() gives them, changed by its wrappers",
            UserWarning,
            stacklevel=2,
        )
    n_envs = env.num_envs
    collector = _collector(model, env, warn, deterministic)
    allowed = masks_of(env) if collector is not None and collector.model.masked else None
    episode_rewards: list[float] = []
    episode_lengths: list[int] = []
    episode_counts = np.zeros(n_envs, dtype="int")
    episode_count_targets = np.array([(n_eval_episodes + i) // n_envs for i in range(n_envs)], dtype="int")
    current_rewards, current_lengths = np.zeros(n_envs), np.zeros(n_envs, dtype="int")
    observations = env.reset()
    told = getattr(env, "reset_infos", [])  # what came with the observations that are acted on next
    states = None
    episode_starts = np.ones(n_envs, dtype=bool)
    nothing = np.zeros(n_envs, dtype=bool)
    while (episode_counts < episode_count_targets).any():
        if collector is None:
            actions, states = model.predict(
                observations, state=states, episode_start=episode_starts, deterministic=deterministic
            )
        else:
            masks = None if allowed is None else allowed(told)
            actions = collector.act(observations, episode_counts < episode_count_targets, masks)
        new_observations, rewards, dones, infos = env.step(actions)
        begun = getattr(env, "reset_infos", infos)
        told = [new if over else info for info, new, over in zip(infos, begun, dones, strict=True)]
        current_rewards += rewards
        current_lengths += 1
        ended = nothing.copy()  # Atari wrappers say "done" when a life is lost; Monitor knows the episode's true end
        for i in range(n_envs):
            if episode_counts[i] < episode_count_targets[i]:
                # A callback may look for these names in locals().
                reward, done, info = rewards[i], dones[i], infos[i]
                episode_starts[i] = done
                if callback is not None:
                    callback(locals(), globals())
                if done:
                    if not is_monitor_wrapped:
                        episode_rewards.append(current_rewards[i])
                        episode_lengths.append(current_lengths[i])
                        ended[i] = True
                    elif "episode" in info:
                        episode_rewards.append(info["episode"]["r"])
                        episode_lengths.append(info["episode"]["l"])
                        ended[i] = True
                    current_rewards[i], current_lengths[i] = 0.0, 0
        if collector is not None:
            collector.observe(rewards, ended, nothing)
        episode_counts[ended] += 1
        observations = new_observations
        if render:
            env.render()
    if collector is not None:
        collector.close()
    mean_reward, std_reward = float(np.mean(episode_rewards)), float(np.std(episode_rewards))
    if reward_threshold is not None:
        assert mean_reward > reward_threshold, f"Mean reward below threshold: {mean_reward:.2f} < {reward_threshold:.2f}"
    return (episode_rewards, episode_lengths) if return_episode_rewards else (mean_reward, std_reward)


def _collector(model: Any, env: Any, warn: bool, deterministic: bool) -> Collector | None:
    """The collector that balances the actions, or that hands masks to a model which needs them.

    It is None if the actions are the model's own: because they are deterministic, or their distribution is not known.
    """
    if deterministic and not takes_masks(model):
        return None
    try:
        return Collector(
            model, lanes=env.num_envs, observation_space=env.observation_space, action_space=env.action_space,
            keep_observations=False, deterministic=deterministic,
        )  # fmt: skip
    except (PolicyError, SpecError) as error:
        if warn:
            warnings.warn(f"not balanced: {error}", UserWarning, stacklevel=3)
        return None
