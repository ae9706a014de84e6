"""How wrong is a policy gradient that was estimated from balanced data, compared with one from on-policy data?

    python tools/gradient_error.py --tasks CartPole-v1 Hopper-v5 --steps 512 2048 --out build/gradients
    python tools/gradient_error.py --tasks CartPole-v1 --methods os auto auto@gamma=0.99 auto@features=products

The policy of each task is a PPO model of Stable-Baselines3 that was trained for a while (seed 0) and is then frozen. A
repeat collects steps in one environment from a reset on, and estimates three gradients with respect to all weights of the
actor:

    ppo        the mean of Â ∇ log π, with Stable-Baselines3's generalised advantages (λ = 0.95, the model's critic), which
               are shifted and scaled to mean 0 and variance 1: PPO's first gradient, of all its data at once
    gae        the same without shifting and scaling
    reinforce  the mean of G ∇ log π, where G is the discounted sum of the rewards to come, without a baseline

The truth is the mean of the same estimate over many on-policy repeats, which are none of those compared. An error is the
squared distance to the truth, relative to the truth's square. Where the truth cannot be told from 0, it is given as it is,
and only the ratio of two methods means something. A method is a sampler, after which `@key=value,…` may say what is balanced
otherwise than in `BalancedPPO`:

    gamma     the discount of the balance (1)
    cut       steps after which the balance takes a trajectory for ended, beside the episode's end (20; 0: never)
    features  last: those of the policy's last layer (default); both: and those of the critic's; value: last and V(s);
              observation; products: the observation and the products of its entries

The repeats run side by side with one forward pass for all, but each has an environment and a balance of its own. Everything
is kept in --out, and what is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from evenroll.collection.lanes import SOUND, Lanes
from evenroll.errors import PolicyFault
from evenroll.samplers.table import get_sampler
from evenroll.sb3.balanced_draws import CUT, GAMMA, BalancedDraws, reading
from evenroll.text.specs import parse_parameters

TASKS = {"CartPole-v1": 10_240, "Acrobot-v1": 20_480, "InvertedPendulum-v5": 10_240, "Hopper-v5": 61_440,
         "Walker2d-v5": 61_440}  # and for how many steps they were trained  # fmt: skip
KINDS = ("ppo", "gae", "reinforce")
LAMBDA = 0.95
FEATURES = ("last", "both", "value", "observation", "products")


class Apart(BalancedDraws):
    """Draws for many repeats side by side, each with a balance of its own, of features that can be chosen."""

    def __init__(self, policy: Any, sampler: str, seeds: list[int], gamma: float, cut: int, features: str) -> None:
        super().__init__(policy, get_sampler(sampler), (0,), len(seeds))
        self.features, self.cut = features, cut
        self.inputs = self.critic = torch.zeros(0)
        self.hooks = [
            policy.mlp_extractor.register_forward_pre_hook(lambda _, x: setattr(self, "inputs", x[0])),
            policy.value_net.register_forward_hook(lambda _, x, y: setattr(self, "critic", (x[0], y))),
        ]
        with torch.no_grad():
            policy(torch.zeros(1, *policy.observation_space.shape))
            self._latent = torch.zeros(1, policy.action_net.in_features)
            self.engine, _, _ = reading(policy, self._chosen().shape[1])
        self.each = [Lanes(self.engine, get_sampler(sampler), (seed, 0), gamma=gamma) for seed in seeds]
        self.steps = np.zeros(len(seeds), dtype=int)  # of each trajectory

    def _chosen(self) -> np.ndarray:
        """The features [repeats, …] that are balanced."""
        last, seen = self._latent.numpy(), self.inputs.numpy().astype(np.float64)
        if self.features in ("last", "value", "both"):
            more = {"last": last[:, :0], "value": self.critic[1].numpy(), "both": self.critic[0].numpy()}[self.features]
            return np.concatenate([last, more], axis=1)
        if self.features == "observation":
            return seen
        pairs = seen[:, :, None] * seen[:, None, :]
        return np.concatenate([seen, pairs[:, *np.triu_indices(seen.shape[1])]], axis=1)

    def _draw(self) -> torch.Tensor:
        rows, n = np.zeros((len(self.each), self.engine.obs_dim)), self.engine.features_dim
        rows[:, :n] = self._chosen()
        self._write(self.kind.distribution, rows[:, n:])
        for i, lanes in enumerate(self.each):
            if self.cut and self.steps[i] == self.cut:
                lanes.end(0)
                self.steps[i] = 0
            lanes.first[...] = rows[i]
            if lanes.once() != SOUND:
                raise PolicyFault("something is not finite")
            self.lanes.actions[i] = lanes.actions[0]
        self.steps += 1
        self._drawn = True
        return self._read(self.lanes.actions)

    def close(self) -> None:
        for hook in self.hooks:
            hook.remove()

    def ended(self, starts: np.ndarray) -> np.ndarray:
        """Hear which episodes begin. The answer is none, because the lanes of the base class are not used."""
        for i in np.flatnonzero(starts & (self.steps > 0)):
            self.each[i].end(0)
            self.steps[i] = 0
        return np.zeros(len(starts), dtype=bool)


class Nothing(BaseCallback):
    def _on_step(self) -> bool:
        return True


def frozen(task: str, steps: int, where: Path) -> PPO:
    path = where / f"{task}-{steps}-0.zip"
    if not path.exists():
        PPO("MlpPolicy", task, seed=0, device="cpu").learn(steps).save(path)
    return PPO.load(path, device="cpu")


def collect(task: str, model: PPO, method: str, seeds: list[int], steps: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """(buffer, last values, last dones) of a repeat for each seed."""
    sampler, _, rest = method.partition("@")
    given = parse_parameters(method, rest) if rest else {}
    env = make_vec_env(task, len(seeds))
    env.seed(int(seeds[0]))  # one after the other: `seeds` are consecutive
    torch.manual_seed(seeds[0])
    own = PPO("MlpPolicy", env, n_steps=steps, device="cpu", gamma=model.gamma)
    own.policy.load_state_dict(model.policy.state_dict())
    own._setup_learn(steps * len(seeds))
    buffer, nothing = own.rollout_buffer, Nothing()
    nothing.init_callback(own)
    if sampler == "os":
        own.collect_rollouts(env, nothing, buffer, steps)
    else:
        draws = Apart(own.policy, sampler, seeds, float(given.get("gamma", GAMMA)), int(given.get("cut", CUT)),
                      given.get("features", "last"))  # fmt: skip
        with draws.at_work(lambda: draws.ended(own._last_episode_starts.astype(bool))):
            own.collect_rollouts(env, nothing, buffer, steps)
        draws.close()
    with torch.no_grad():
        last = own.policy.predict_values(torch.as_tensor(own._last_obs)).numpy().ravel()
    env.close()
    return buffer, last, own._last_episode_starts.astype(float)


def advantages(rewards: np.ndarray, values: np.ndarray, starts: np.ndarray, gamma: float, trace: float) -> np.ndarray:
    """Generalised advantages [T] from rewards [T], and from values and starts [T + 1]."""
    found, going = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        on = 1.0 - starts[t + 1]
        going = rewards[t] + gamma * on * values[t + 1] - values[t] + gamma * trace * on * going
        found[t] = going
    return found


def gradients(model: PPO, buffer: Any, last: np.ndarray, done: np.ndarray, sizes: list[int]) -> dict[str, np.ndarray]:
    """{kind-size: gradients [repeats, weights]}: each size takes the beginning of every repeat."""
    policy = model.policy
    actor = [p for name, p in policy.named_parameters() if "value" not in name]
    values, starts = np.vstack([buffer.values, last]), np.vstack([buffer.episode_starts, done])
    discrete = buffer.actions.shape[2] == 1 and hasattr(model.action_space, "n")
    found: dict[str, list[np.ndarray]] = {f"{kind}-{size}": [] for kind in KINDS for size in sizes}
    for i in range(buffer.actions.shape[1]):
        taken = torch.as_tensor(buffer.actions[:, i])
        _, log_probs, _ = policy.evaluate_actions(
            torch.as_tensor(buffer.observations[:, i]), taken.long().flatten() if discrete else taken
        )
        for size in sizes:
            data = buffer.rewards[:size, i], values[: size + 1, i], starts[: size + 1, i], model.gamma
            gae, to_come = advantages(*data, LAMBDA), advantages(*data, 1.0) + values[:size, i]
            ppo = (gae - gae.mean()) / gae.std()
            for kind, weight in zip(KINDS, (ppo, gae, to_come), strict=True):
                loss = (torch.as_tensor(weight, dtype=torch.float32) * log_probs[:size]).mean()
                parts = torch.autograd.grad(loss, actor, retain_graph=True)
                found[f"{kind}-{size}"].append(torch.cat([part.flatten() for part in parts]).numpy())
    return {key: np.array(rows, dtype=np.float32) for key, rows in found.items()}


def run(task: str, model: PPO, method: str, repeats: int, first: int, sizes: list[int], lanes: int, path: Path) -> None:
    """Add repeats to the file of a method until there are as many as were asked for. The truth's file has sums only."""
    truth = method == "truth"
    kept = dict(np.load(path)) if path.exists() else {}
    done = int(kept.get("repeats", 0))
    while done < repeats:
        seeds = list(range(first + done, first + done + lanes))
        new = gradients(model, *collect(task, model, "os" if truth else method, seeds, max(sizes)), sizes)
        for key, rows in new.items():
            if truth:
                wide = rows.astype(np.float64)
                kept[key] = kept.get(key, 0.0) + wide.sum(axis=0)
                kept[f"{key}-square"] = kept.get(f"{key}-square", 0.0) + np.square(wide).sum()
            else:
                kept[key] = np.concatenate([kept[key], rows]) if key in kept else rows
        done += lanes
        kept["repeats"] = np.array(done)
        half = path.with_suffix(".part.npz")
        np.savez(half, **kept)
        half.replace(path)
        print(f"{task} {method}: {done} repeats", flush=True)


def table(task: str, methods: list[str], sizes: list[int], repeats: int, where: Path) -> list[dict[str, Any]]:
    """A record for each method, size and kind."""
    truth, rows = dict(np.load(where / f"{task}-truth.npz")), []
    m = int(truth["repeats"])
    for kind, size in ((kind, size) for kind in KINDS for size in sizes):
        key = f"{kind}-{size}"
        right = truth[key] / m
        # The truth's own error is the variance of one repeat divided by m. It is in all squared distances, and taken off.
        noise = (truth[f"{key}-square"] / m - right @ right) / (m - 1)
        square = float(right @ right - noise)
        scale = square if square > noise else 1.0  # a gradient that cannot be told from 0 is no unit
        base: np.ndarray | None = None
        for method in methods:
            g = np.load(where / f"{task}-{method}.npz")[key][:repeats].astype(np.float64)
            squares = (np.square(g - right).sum(axis=1) - noise) / scale
            middle = g.mean(axis=0)
            inside = np.square(g - middle).sum() / (len(g) - 1)
            base = squares if method == "os" else base
            ratio = None if base is None else float(squares.mean() / base.mean())
            spread = [x.std(ddof=1) / math.sqrt(len(x)) / x.mean() for x in (squares, base) if x is not None]
            rows.append({
                "task": task, "kind": kind, "steps": size, "method": method, "repeats": len(g),
                "error": float(squares.mean()), "error_se": float(squares.std(ddof=1) / math.sqrt(len(g))),
                "ratio": ratio, "ratio_se": None if ratio is None or method == "os" else float(ratio * math.hypot(*spread)),
                "bias_share": float((np.square(middle - right).sum() - inside / len(g) - noise) / scale / squares.mean()),
                "truth_steps": m * max(sizes), "truth_noise": float(noise / scale), "relative": scale == square,
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=["os", "auto"])
    parser.add_argument("--steps", nargs="+", type=int, default=[512, 2048, 8192])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--truth", type=int, default=1_000_000, help="on-policy steps for the truth")
    parser.add_argument("--lanes", type=int, default=20, help="repeats side by side; the results depend on it a little")
    parser.add_argument("--out", type=Path, default=Path("build/gradients"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for task in args.tasks:
        model = frozen(task, TASKS[task], args.out)
        truths = -(-args.truth // max(args.steps) // args.lanes) * args.lanes
        for method, repeats, first in (("truth", truths, 10_000_000), *((m, args.repeats, 0) for m in args.methods)):
            # On-policy and balanced repeats have the same environment seeds; the truth has others.
            run(task, model, method, repeats, first, args.steps, args.lanes, args.out / f"{task}-{method}.npz")
        rows += table(task, args.methods, args.steps, args.repeats, args.out)
    for row in rows:
        ratio = "" if row["ratio_se"] is None else f"  ratio {row['ratio']:.3f} ± {row['ratio_se']:.3f}"
        absolute = "" if row["relative"] else " (not relative: the truth cannot be told from 0)"
        print(
            f"{row['task']} {row['kind']} {row['steps']} {row['method']}: {row['error']:.3g} ± {row['error_se']:.2g}{ratio}"
            f"  bias² {row['bias_share']:+.0%} of it{absolute}"
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
