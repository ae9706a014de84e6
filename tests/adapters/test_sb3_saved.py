"""What a zip says of its policy and its spaces, and what it must not make us believe."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from evenroll.adapters.sb3_saved import KINDS, Critic, SavedModel, described_space, kind_of, number
from evenroll.errors import PolicyError
from tests.files.corpus.valid import sb3_data

TENSORS = {"action_net.weight": np.ones((2, 4)), "action_net.bias": np.zeros(2)}


def described(space: gym.Space) -> dict[str, Any]:
    """A space as Stable-Baselines3 writes it: numbers as they are, anything else as text."""
    kept = {name: value for name, value in space.__dict__.items() if isinstance(value, int | list | str)}
    text = {name: str(value) for name, value in space.__dict__.items() if name not in kept}
    return {":type:": str(type(space)), **text, **kept, "_shape": list(space.shape or ())}


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Discrete(3),
        gym.spaces.Discrete(3, start=-1),
        gym.spaces.MultiDiscrete([2, 5]),
        gym.spaces.MultiBinary(3),
        gym.spaces.Box(np.array([-1.0, -2.5e-3], np.float32), np.array([0.5, np.inf], np.float32)),
        gym.spaces.Box(0, 255, (4, 4, 3), np.uint8),
    ],
    ids=str,
)
def test_spaces_are_read_from_their_words(space: gym.Space) -> None:
    found = described_space(described(space), bounds=True)
    assert type(found) is type(space)
    assert found.shape == space.shape
    if isinstance(space, gym.spaces.Box):
        np.testing.assert_allclose(found.low, space.low)
        np.testing.assert_allclose(found.high, space.high)
    elif not isinstance(space, gym.spaces.MultiBinary):
        assert found == space


def test_spaces_that_are_not_said_or_are_absurd() -> None:
    box = described(gym.spaces.Box(-1, 1, (2,)))
    for change in (
        {"_shape": "[2]"}, {"_shape": [-1]}, {"low": "[-1. ... -1.]"}, {":type:": "<class 'os.Box'>"},
    ):  # fmt: skip
        assert described_space(box | change, bounds=True) is None
    assert described_space(box | {"low": "[-1. ... -1.]"}, bounds=False) is not None
    with pytest.raises(PolicyError, match="of more than"):
        described_space(box | {"_shape": [10**12]}, bounds=False)
    for n in ("1e30", "0.5", "0", "-1"):
        absurd = {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": n}
        assert described_space(absurd, bounds=False) is None
    binary = {":type:": "<class 'gymnasium.spaces.multi_binary.MultiBinary'>", "_shape": [0]}
    assert described_space(binary, bounds=False) is None


def test_kinds_and_the_line_that_loads_them() -> None:
    """A policy class that is not the library's own is refused with the line for the algorithm that it belongs to."""
    for module, kind in KINDS.items():
        for name in kind.classes:
            words = {"__module__": module, "__init__": f"<function {name}.__init__ at 0x7f>"}
            assert kind_of(sb3_data() | {"policy_class": words}) == (kind, name)
        own = {"__module__": module, "__init__": "<function Mine.__init__ at 0x7f>"}
        with pytest.raises(PolicyError, match="load it in Python") as refused:
            kind_of(sb3_data() | {"policy_class": own})
        assert f"model = {kind.load}" in str(refused.value)


def test_settings_that_need_code_and_numbers_that_are_none() -> None:
    for change, text in (
        ({"policy_kwargs": {"lstm_kwargs": {"bidirectional": True}}}, "lstm_kwargs, which needs code"),
        ({"exploration_rate": 2.0}, "not a probability"),
        ({"exploration_rate": "much"}, "is no number"),
        ({"observation_space": {":type:": "<class 'gymnasium.spaces.text.Text'>"}}, "own encoding"),
    ):
        with pytest.raises(PolicyError, match=text):
            SavedModel.of(sb3_data() | change, TENSORS)
    with pytest.raises(PolicyError, match=r"tensor other\.weight belongs to a network that needs code"):
        SavedModel.of(sb3_data(), {"other.weight": np.ones(1)})
    with pytest.raises(PolicyError, match="not finite"):
        SavedModel.of(sb3_data(), {"action_net.bias": np.array([np.nan])})
    assert [number(x, 7.0) for x in (None, "True", "False", True, "0.5", 2)] == [7.0, 1.0, 0.0, 1.0, 0.5, 2.0]


def test_a_critic_computes_its_layers() -> None:
    layers = [(np.array([[1.0, -1.0]]), np.array([0.5])), (np.array([[2.0]]), np.array([1.0]))]
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(Critic(layers, "tanh")(x), 2 * np.tanh([1.5, -0.5]) + 1)
    np.testing.assert_allclose(Critic(layers, "relu")(x), [4.0, 1.0])
