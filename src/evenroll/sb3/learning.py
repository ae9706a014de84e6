"""PPO and A2C of Stable-Baselines3 that learn from balanced data.

Exchanging the class is enough:

    from evenroll.sb3 import BalancedPPO      # instead of stable_baselines3.PPO

Everything but the drawing of actions is Stable-Baselines3's: its loop, buffer, callbacks, clipping of actions and training.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from evenroll.samplers.on_policy import OnPolicy
from evenroll.samplers.table import SamplerLike, get_sampler
from evenroll.sb3.balanced_draws import BalancedDraws
from evenroll.sb3.earlier_rollouts import EarlierRollouts
from evenroll.text.specs import whole_number

SEEDS = 2**31  # how many seeds there are for a model without one


class _Balanced(OnPolicyAlgorithm):
    """What `BalancedPPO` and `BalancedA2C` add to Stable-Baselines3's classes; their docstrings say what it does."""

    rollout_buffer: Any

    def __init__(self, *args: Any, sampler: SamplerLike = "auto", carry_over: int = 0, **kwargs: Any) -> None:
        get_sampler(sampler)  # what is misspelt is told at once
        self.sampler, self.carry_over = sampler, whole_number("carry_over", int(carry_over), 0)
        self._draws: BalancedDraws | None = None
        self._earlier = EarlierRollouts()
        super().__init__(*args, **kwargs)

    def _setup_model(self) -> None:
        super()._setup_model()
        self._draws, self._earlier = self._new_draws(), EarlierRollouts()

    def _new_draws(self) -> BalancedDraws | None:
        """The balance of the coming rollouts; None if actions are drawn as Stable-Baselines3 draws them."""
        sampler = get_sampler(self.sampler)
        if isinstance(sampler, OnPolicy):
            return None
        seed = int(torch.randint(SEEDS, ())) if self.seed is None else int(self.seed)
        # A model that goes on after it was loaded has taken steps. It must not meet the luck of its first steps again.
        return BalancedDraws(self.policy, sampler, (seed, self.num_timesteps), self.n_envs)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_draws", "_earlier"]

    def _setup_learn(self, total_timesteps: int, callback: Any = None, reset_num_timesteps: bool = True, *args: Any) -> Any:
        if reset_num_timesteps:  # the environments are reset, so the next rollout does not go on where the last one ended
            self._earlier.forget()
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, *args)

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        if self._draws is None:
            return bool(super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps))
        draws, earlier = self._draws, self._earlier
        if draws.policy is not self.policy or len(draws.lanes.everyone) != env.num_envs:
            self._draws = draws = self._new_draws() or draws  # the policy or the environments were exchanged
            earlier.forget()
        self.policy.set_training_mode(False)
        if earlier:
            draws.restart_from(*earlier.steps(self), self._episode_starts())
        else:
            draws.restart()
        with draws.at_work(self._episode_starts):
            return bool(super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps))

    def _episode_starts(self) -> np.ndarray:
        """[lanes] whether an episode begins with the coming step."""
        return np.asarray(self._last_episode_starts, dtype=bool)

    def train(self) -> None:
        if self.carry_over == 0:
            super().train()
            return
        new = self.rollout_buffer
        self.rollout_buffer = self._earlier.with_new(self)
        try:
            super().train()
        finally:
            self.rollout_buffer = new
            self._earlier.keep(new, self.carry_over)


class BalancedPPO(_Balanced, PPO):
    """Stable-Baselines3's PPO, which learns from balanced data. All arguments but two are Stable-Baselines3's.

    sampler     how actions are drawn: "auto" balances them, "os" leaves everything to Stable-Baselines3, bit for bit.
                Others, such as "ros:alpha=1", see the last layer of the policy only
    carry_over  how many of the rollouts before stay. They are scored again under the present policy, the new rollout is
                collected so that all of them together are on-policy, and it is learnt from all of them. With 0 every
                rollout has a balance of its own

    All environments of a VecEnv share one balance. The log-probabilities that training gets are those of π_θ, not those of
    the tilted distribution that an action was drawn from: the data as a whole is on-policy, and importance weights would
    bring back the noise that was taken out.
    """


class BalancedA2C(_Balanced, A2C):
    """Stable-Baselines3's A2C, which learns from balanced data. The two new arguments are those of `BalancedPPO`.

    A2C's rollouts of 5 steps are too short for a balance. Give more environments and a larger n_steps, so that a rollout has
    a few steps for each feature of the policy's last layer.
    """
