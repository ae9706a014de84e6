"""PPO in one file, in the manner of CleanRL, that learns from balanced data. The lines marked with ▶ are all that is new.

python examples/ppo_balanced.py                       # CartPole-v1, 30,000 steps
python examples/ppo_balanced.py Acrobot-v1 60000

With Stable-Baselines3 you need none of this: `from evenroll.sb3 import BalancedPPO`.
"""

import sys

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical

import evenroll  # ▶

GAMMA, LAMBDA, CLIP, EPOCHS, MINIBATCHES, RATE = 0.99, 0.95, 0.2, 4, 4, 1e-3


class Agent(nn.Module):
    def __init__(self, envs: SyncVectorEnv) -> None:
        super().__init__()
        size, actions = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)
        self.critic = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions))
        nn.init.orthogonal_(self.actor[-1].weight, 0.01)

    def get_action_and_value(self, x, action=None):
        dist = Categorical(logits=self.actor(x))
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action), dist.entropy(), self.critic(x).flatten()


def main(task: str = "CartPole-v1", total: int = 30_000, balanced: bool = True, lanes: int = 4, steps: int = 256) -> float:
    """Returns the mean return of the episodes in the second half of the training."""
    torch.manual_seed(1)
    envs = SyncVectorEnv([lambda: gym.make(task) for _ in range(lanes)], autoreset_mode=AutoresetMode.SAME_STEP)
    agent = Agent(envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    spaces = {"observation_space": envs.single_observation_space, "action_space": envs.single_action_space}  # ▶
    (seen, _), done = envs.reset(seed=1), np.zeros(lanes)
    running, finished = np.zeros(lanes), []
    for update in range(total // (lanes * steps)):
        # ▶ A new balance for the new policy. Every step counts alike in a minibatch, hence gamma=1.
        collector = evenroll.Collector(agent, "auto", gamma=1.0, seed=update, lanes=lanes, **spaces)  # ▶
        data = {name: [] for name in ("obs", "action", "logprob", "value", "reward", "done")}
        for _ in range(steps):
            obs = torch.as_tensor(seen, dtype=torch.float32)
            with torch.no_grad():
                action = torch.as_tensor(collector.act(seen)) if balanced else None  # ▶ the balanced action …
                action, logprob, _, value = agent.get_action_and_value(obs, action)  # … with log π of the policy itself
            before = done
            seen, reward, terminated, truncated, _ = envs.step(action.numpy())
            if balanced:  # ▶
                collector.observe(reward, terminated, truncated)  # ▶ where do episodes end?
            done = (terminated | truncated).astype(float)
            for name, x in zip(data, (obs, action, logprob, value, reward, before), strict=True):
                data[name].append(torch.as_tensor(x, dtype=torch.float32))
            running += reward
            finished += [(update, x) for x in running[done == 1]]
            running[done == 1] = 0.0
        collector.close()  # ▶ the agent is left as it was

        # Everything from here on is PPO as it always was.
        b = {name: torch.stack(rows) for name, rows in data.items()}
        with torch.no_grad():
            next_value, going = agent.critic(torch.as_tensor(seen, dtype=torch.float32)).flatten(), torch.zeros(lanes)
        advantage, after, ended = torch.zeros(steps, lanes), next_value, torch.as_tensor(done, dtype=torch.float32)
        for t in reversed(range(steps)):
            delta = b["reward"][t] + GAMMA * after * (1 - ended) - b["value"][t]
            advantage[t] = going = delta + GAMMA * LAMBDA * (1 - ended) * going
            after, ended = b["value"][t], b["done"][t]
        flat = {name: x.flatten(0, 1) for name, x in b.items()} | {"advantage": advantage.flatten()}
        target = flat["advantage"] + flat["value"]
        for _ in range(EPOCHS):
            for rows in torch.randperm(steps * lanes).chunk(MINIBATCHES):
                _, logprob, entropy, value = agent.get_action_and_value(flat["obs"][rows], flat["action"][rows])
                ratio, gain = (logprob - flat["logprob"][rows]).exp(), flat["advantage"][rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                surrogate = torch.min(gain * ratio, gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                loss = -surrogate - 0.01 * entropy.mean() + 0.5 * (value - target[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if finished:
            print(f"{(update + 1) * lanes * steps:6d} steps, mean return {np.mean([x for _, x in finished[-20:]]):.1f}")
    half = [x for update, x in finished if update >= total // (lanes * steps) / 2]
    return float(np.mean(half)) if half else float("nan")


if __name__ == "__main__":
    main(*(kind(x) for kind, x in zip((str, int), sys.argv[1:], strict=False)))
