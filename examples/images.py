"""A convolutional policy that sees images: any torch module that gives a distribution will do.

evenroll finds its last linear layer by itself, takes what goes into it as the features to balance, and needs one forward
pass a step.

python examples/images.py
"""

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import evenroll


class Catch(gym.Env):
    """A ball falls through a 10 × 10 image; move the paddle under it."""

    observation_space = gym.spaces.Box(0, 255, (1, 10, 10), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def _image(self) -> np.ndarray:
        image = np.zeros((1, 10, 10), np.uint8)
        image[0, self.row, self.ball] = image[0, 9, self.paddle] = 255
        return image

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.ball, self.paddle = 0, int(self.np_random.integers(10)), 5
        return self._image(), {}

    def step(self, action):
        self.paddle = int(np.clip(self.paddle + action - 1, 0, 9))
        self.row += 1
        over, caught = self.row == 9, self.paddle == self.ball
        return self._image(), float(over and caught), over, False, {"is_success": caught} if over else {}


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 3)

    def forward(self, image: torch.Tensor) -> torch.distributions.Distribution:
        return torch.distributions.Categorical(logits=self.head(self.body(image / 255)))


def main(episodes: int = 200) -> evenroll.Evaluation:
    torch.manual_seed(0)
    result = evenroll.evaluate(Catch(), Policy(), episodes=episodes)
    print(result)
    print(result.in_words())
    print(f"caught: {result.quantities['success']}; {result.policy}")
    return result


if __name__ == "__main__":
    main()
