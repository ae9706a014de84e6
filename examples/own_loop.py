"""Your own loop, for a robot, a clinic, an agent: evenroll chooses the actions and keeps the books; you do the rest.

The loop is interrupted half-way and its state is saved. A new process, which is a new collector here, takes it up again.

python examples/own_loop.py
"""

import tempfile
from pathlib import Path

import numpy as np

import evenroll


class Plant:
    """A thing that lives outside Gymnasium: a level that drifts, and a valve with three positions."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.level, self.t, self.rng = rng.normal(), 0, rng

    def sense(self) -> np.ndarray:
        return np.array([self.level, self.t / 20])

    def turn(self, valve: int) -> float:
        self.level += 0.3 * (valve - 1) + 0.1 * self.rng.normal()
        self.t += 1
        return -abs(self.level)


def main(episodes: int = 60) -> evenroll.Evaluation:
    rng = np.random.default_rng(0)
    policy = evenroll.MLP([], head_weight=[[1.5, 0.0], [0.0, 0.0], [-1.5, 0.0]], head_bias=[0.0, 0.5, 0.0])
    collector = evenroll.Collector(policy, gamma=0.95)
    with tempfile.TemporaryDirectory() as folder:
        while collector.episodes < episodes:
            plant = Plant(rng)
            over = False
            while not over:
                valve = collector.act(plant.sense())
                cost = plant.turn(valve)
                over = collector.observe(cost, terminated=abs(plant.level) > 3, truncated=plant.t == 20)
            if collector.episodes == episodes // 2:
                collector.save(Path(folder) / "half.safetensors")
                collector = evenroll.Collector(policy, gamma=0.95).resume(Path(folder) / "half.safetensors")
    result = collector.result()
    print(result)
    print(result.in_words())
    return result


if __name__ == "__main__":
    main()
