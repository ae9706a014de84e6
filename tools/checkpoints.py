"""Checkpoints of about thirty kinds, made here with tiny training budgets, every one evaluated: a table for the docs.

    python -m tools.checkpoints --episodes 8 --markdown table.md

Each is made as its library makes it, saved to a zip where the library has one, and evaluated from there. A row says what
evenroll took it for, and whether it was balanced or run on-policy with a reason. The script fails if one is refused.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib as contrib
import stable_baselines3 as sb3
import torch
from torch import nn
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Categorical,
    MultivariateNormal,
    Normal,
    TanhTransform,
    TransformedDistribution,
)

import evenroll
from tests.adapters.test_cleanrl_agents import Agent, RealAgent, SoftActor
from tests.adapters.test_masks import Doors
from tests.adapters.test_memory import Gru
from tests.adapters.test_sb3_networks import Parts
from tests.helpers import Walk
from tests.torch_helpers import Head

DISCRETE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(np.float32([-1, 0]), np.float32([3, 0.5]))
UNIT, MULTI, FLAGS = gym.spaces.Box(0.0, 1.0, (2,), np.float32), gym.spaces.MultiDiscrete([2, 3]), gym.spaces.MultiBinary(3)
ON: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "device": "cpu", "seed": 0}
softplus = nn.functional.softplus


def off(**more: Any) -> dict[str, Any]:
    own = {"policy_kwargs": {"net_arch": [32, 32]}}  # a model changes what it is given
    return {"buffer_size": 500, "learning_starts": 50, "device": "cpu", "seed": 0} | own | more


def images(actions: gym.Space) -> Walk:
    return Walk(actions, shape=(36, 36, 3), dtype=np.uint8)


def heads(outputs: int, make: Callable[..., Any], space: gym.Space) -> Callable[[Path], tuple[Any, gym.Env]]:
    return lambda _: (Head(3, outputs, make), Walk(space))


def zipped(make: Callable[[], Any], steps: int = 64, **attributes: Any) -> Callable[[Path], tuple[Any, gym.Env]]:
    """A model that is trained for a few steps and saved; its zip is what is evaluated."""

    def made(where: Path) -> tuple[Any, gym.Env]:
        model = make().learn(steps)
        for name, value in attributes.items():
            setattr(model, name, value)
        model.save(where / "model.zip")
        return str(where / "model.zip"), model.get_env().envs[0].unwrapped

    return made


def loaded(make: Callable[[], Any], steps: int = 64) -> Callable[[Path], tuple[Any, gym.Env]]:
    """A model that is handed over as it is."""

    def made(_: Path) -> tuple[Any, gym.Env]:
        model = make().learn(steps)
        return model, model.get_env().envs[0].unwrapped

    return made


def correlated(out: torch.Tensor, _: Any) -> MultivariateNormal:
    root = torch.diag_embed(out[:, 2:4].exp())
    root[:, 1, 0] = out[:, 0]
    return MultivariateNormal(out[:, :2], scale_tril=root)


def squashed(out: torch.Tensor, _: Any) -> TransformedDistribution:
    return TransformedDistribution(Normal(out[:, :2], out[:, 2:].exp()), [TanhTransform(), AffineTransform(0.5, 0.5)])


def flow(x: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.tanh(np.sign(noise[0]) + 0.3 * noise[1:] + 0.1 * x[:2])


CHECKPOINTS: dict[str, Callable[[Path], tuple[Any, gym.Env]]] = {
    "PPO, zip": zipped(lambda: sb3.PPO("MlpPolicy", Walk(DISCRETE), **ON)),
    "PPO, real actions, zip": zipped(lambda: sb3.PPO("MlpPolicy", Walk(BOX), **ON)),
    "PPO, several actions, zip": zipped(lambda: sb3.PPO("MlpPolicy", Walk(MULTI), **ON)),
    "PPO, images, zip": zipped(lambda: sb3.PPO("CnnPolicy", images(DISCRETE), **ON)),
    "PPO, Dict observations, zip": zipped(lambda: sb3.PPO("MultiInputPolicy", Parts(), **ON)),
    "PPO, state-dependent noise": loaded(lambda: sb3.PPO("MlpPolicy", Walk(BOX), use_sde=True, **ON)),
    "A2C, flags, zip": zipped(lambda: sb3.A2C("MlpPolicy", Walk(FLAGS), device="cpu", seed=0)),
    "TRPO, zip": zipped(lambda: contrib.TRPO("MlpPolicy", Walk(BOX), **ON)),
    "SAC, zip": zipped(lambda: sb3.SAC("MlpPolicy", Walk(BOX), **off())),
    "TQC, zip": zipped(lambda: contrib.TQC("MlpPolicy", Walk(BOX), **off())),
    "CrossQ, zip": zipped(lambda: contrib.CrossQ("MlpPolicy", Walk(BOX), **off())),
    "DQN, ε = 0.1, zip": zipped(lambda: sb3.DQN("MlpPolicy", Walk(DISCRETE), **off()), exploration_rate=0.1),
    "DQN, greedy, images, zip": zipped(lambda: sb3.DQN("CnnPolicy", images(DISCRETE), **off()), exploration_rate=0.0),
    "QR-DQN, ε = 0.05, zip": zipped(lambda: contrib.QRDQN("MlpPolicy", Walk(DISCRETE), **off()), exploration_rate=0.05),
    "TD3, zip": zipped(lambda: sb3.TD3("MlpPolicy", Walk(BOX), **off())),
    "DDPG, zip": zipped(lambda: sb3.DDPG("MlpPolicy", Walk(BOX), **off())),
    "ARS, linear, zip": zipped(lambda: contrib.ARS("LinearPolicy", Walk(BOX), device="cpu", seed=0)),
    "MaskablePPO, zip": zipped(lambda: contrib.MaskablePPO("MlpPolicy", Doors(), **ON)),
    "RecurrentPPO, zip": zipped(lambda: contrib.RecurrentPPO("MlpLstmPolicy", Walk(BOX), **ON)),
    "CleanRL’s PPO": lambda _: (Agent(), Walk(DISCRETE)),
    "CleanRL’s PPO, real actions": lambda _: (RealAgent(), Walk(BOX)),
    "CleanRL’s SAC": lambda _: (SoftActor(), Walk(BOX)),
    "torch, logits": heads(3, lambda out, _: out, DISCRETE),
    "torch, softmax at the end": heads(3, lambda out, _: out.softmax(dim=1), DISCRETE),
    "torch, Bernoulli": heads(3, lambda out, _: Bernoulli(logits=out), FLAGS),
    "torch, squashed Gaussian": heads(4, squashed, UNIT),
    "torch, Beta": heads(4, lambda out, _: Beta(softplus(out[:, :2]) + 1, softplus(out[:, 2:]) + 1), UNIT),
    "torch, correlated Gaussian": heads(4, correlated, BOX),
    "torch, GRU with a state": lambda _: (Gru(), Walk(DISCRETE)),
    "function, probabilities": lambda _: (lambda x: [0.2, 0.3, 0.5], Walk(DISCRETE)),
    "function, a distribution": lambda _: (lambda x: Categorical(logits=torch.as_tensor(x)), Walk(DISCRETE)),
    "function, an action (ACT-like)": lambda _: (lambda x: np.tanh(x[:2]).clip(0, 0.5), Walk(BOX)),
    "function that draws its action": lambda _: (lambda x: np.random.uniform(0.0, 0.5, 2), Walk(BOX)),
    "flow, latent noise": lambda _: (evenroll.LatentNoise(flow, 3), Walk(BOX)),
    "flow, chunks of three": lambda _: (
        evenroll.LatentNoise(lambda x, z: z.reshape(3, 2) / 9, 6, chunk=3), Walk(BOX)
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--markdown", type=Path, help="where to write the table")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lines, refused, balanced = ["| checkpoint | taken for | |", "|---|---|---|"], [], 0
    for name, make in CHECKPOINTS.items():
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as place:
            try:
                policy, env = make(Path(place))
                result = evenroll.evaluate(env, policy, episodes=arguments.episodes)
            except evenroll.EvenrollError as error:
                refused.append(name)
                print(f"{name}: REFUSED: {error}", flush=True)
                continue
        how = "balanced" if result.sampler != "os" else "on-policy: " + (result.remark or "").split(":")[0].split(",")[0]
        balanced += result.sampler != "os"
        lines.append(f"| {name} | {result.policy} | {how} |")
        print(f"{name}: {result.policy}; {how}; {result} ({time.perf_counter() - started:.1f} s)", flush=True)
    others = len(lines) - 2 - balanced
    print(f"{len(CHECKPOINTS)} checkpoints: {balanced} balanced, {others} on-policy, {len(refused)} refused")
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n")
    raise SystemExit(1 if refused else 0)


if __name__ == "__main__":
    main()
