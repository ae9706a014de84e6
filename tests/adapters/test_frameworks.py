"""The recipes of docs/other-libraries.md are run as they stand, against each library's own log-probabilities.

A library that is not installed is skipped. The function and module adapters, on which the recipes rest, are tested always.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.evaluation.collector import Collector
from tests.helpers import ROOT, Walk

PAGE = (ROOT / "docs" / "other-libraries.md").read_text()
RECIPES = dict(re.findall(r'```python title="(\w+)"\n(.*?)```', PAGE, flags=re.DOTALL))
DISCRETE, BOX = gym.spaces.Discrete(3), gym.spaces.Box(-2.0, 2.0, (2,), np.float32)


def recipe(name: str, env: gym.Env, **given: Any) -> dict[str, Any]:
    """The names that a recipe defines, after it has run."""
    names: dict[str, Any] = {"env": env, **given}
    exec(compile(RECIPES[name], name, "exec"), names)
    assert names["result"].episodes == 20
    return names


def balanced(policy: Any, env: gym.Env) -> Any:
    """The data of a balanced collection."""
    collector = Collector(policy, observation_space=env.observation_space, action_space=env.action_space)
    for _ in collect(collector, env, episodes=6):
        pass
    data = collector.rollouts()
    assert np.abs(data.log_b - data.log_e).max() > 1e-4
    return data


def net(outputs: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, outputs))


def test_every_recipe_has_a_test() -> None:
    tests = {name.removeprefix("test_").removesuffix("_recipe") for name in globals() if name.endswith("_recipe")}
    assert {"torchrl", "tianshou", "skrl", "rllib", "flax"} == set(RECIPES) == tests


@pytest.mark.parametrize("kind", ["discrete", "squashed"])
def test_torchrl_recipe(kind: str) -> None:
    modules = pytest.importorskip("torchrl.modules")
    tensordict = pytest.importorskip("tensordict")
    from tensordict.nn import NormalParamExtractor, TensorDictModule

    if kind == "discrete":
        space, keys, inner = DISCRETE, ["logits"], net(3)
        options: dict[str, Any] = {"distribution_class": torch.distributions.Categorical}
    else:
        space, keys, inner = BOX, ["loc", "scale"], nn.Sequential(net(4), NormalParamExtractor())
        options = {"distribution_class": modules.TanhNormal, "distribution_kwargs": {"low": -2.0, "high": 2.0}}
    module = TensorDictModule(inner, in_keys=["observation"], out_keys=keys)
    actor = modules.ProbabilisticActor(module, in_keys=keys, **options)
    env = Walk(space)
    names = recipe("torchrl", env, actor=actor)
    env.seen.clear()
    data = balanced(names["FromTorchRL"](actor), env)
    x = torch.as_tensor(data.observations, dtype=torch.float32)
    theirs = actor.get_dist(tensordict.TensorDict({"observation": x}, batch_size=x.shape[:1]))
    with torch.no_grad():
        if kind == "discrete":
            log_p = theirs.log_prob(torch.as_tensor(data.actions[:, 0])).numpy()
        else:  # before the squash: minus the logarithm of its slope
            played = torch.as_tensor(np.array(env.seen))
            slope = np.log(2.0 * (1.0 - np.tanh(data.actions) ** 2)).sum(axis=1)
            log_p = theirs.log_prob(played).numpy() + slope
    np.testing.assert_allclose(data.log_e, log_p, atol=1e-3 if kind == "squashed" else 1e-5)


def test_tianshou_recipe() -> None:
    pytest.importorskip("tianshou", exc_type=ImportError)
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor

    torch.manual_seed(0)
    actor = DiscreteActor(preprocess_net=Net(state_shape=(3,), hidden_sizes=[16]), action_shape=3, softmax_output=True)
    names = recipe("tianshou", Walk(DISCRETE), actor=actor)
    data = balanced(names["FromTianshou"](actor), Walk(DISCRETE))
    with torch.no_grad():
        p = actor(torch.as_tensor(data.observations, dtype=torch.float32))[0].numpy()
    np.testing.assert_allclose(np.exp(data.log_e), p[np.arange(len(p)), data.actions[:, 0].astype(int)], atol=1e-5)


def test_skrl_recipe() -> None:
    models = pytest.importorskip("skrl.models.torch")

    class Theirs(models.CategoricalMixin, models.Model):
        def __init__(self) -> None:
            models.Model.__init__(
                self, observation_space=Walk(DISCRETE).observation_space, action_space=DISCRETE, device="cpu"
            )
            models.CategoricalMixin.__init__(self)
            self.net = net(3)

        def compute(self, inputs: dict[str, Any], role: str = "") -> tuple[torch.Tensor, dict[str, Any]]:
            return self.net(inputs["observations"]), {}

    model = Theirs()
    names = recipe("skrl", Walk(DISCRETE), model=model)
    data = balanced(names["FromSkrl"](model), Walk(DISCRETE))
    x, taken = (torch.as_tensor(a, dtype=torch.float32) for a in (data.observations, data.actions))
    with torch.no_grad():
        theirs = model.act({"observations": x, "taken_actions": taken}, role="policy")[1]["log_prob"].numpy()[:, 0]
    np.testing.assert_allclose(data.log_e, theirs, atol=1e-5)


def test_rllib_recipe() -> None:
    pytest.importorskip("ray.rllib.core.rl_module")
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.torch import TorchRLModule

    class Theirs(TorchRLModule):
        def setup(self) -> None:
            self.net = net(3)

        def _forward(self, batch: dict[str, Any], **options: Any) -> dict[str, Any]:
            return {Columns.ACTION_DIST_INPUTS: self.net(batch[Columns.OBS])}

    module = Theirs(observation_space=Walk(DISCRETE).observation_space, action_space=DISCRETE)
    names = recipe("rllib", Walk(DISCRETE), module=module)
    data = balanced(names["FromRLlib"](module), Walk(DISCRETE))
    x = torch.as_tensor(data.observations, dtype=torch.float32)
    with torch.no_grad():
        inputs = module.forward_exploration({"obs": x})["action_dist_inputs"]
        theirs = module.get_exploration_action_dist_cls().from_logits(inputs).logp(torch.as_tensor(data.actions[:, 0]))
    np.testing.assert_allclose(data.log_e, theirs.numpy(), atol=1e-5)


def test_flax_recipe() -> None:
    linen, jax = pytest.importorskip("flax.linen"), pytest.importorskip("jax")
    network = linen.Sequential([linen.Dense(16), linen.tanh, linen.Dense(3)])
    parameters = network.init(jax.random.key(0), np.zeros(3, np.float32))
    names = recipe("flax", Walk(DISCRETE), network=network, parameters=parameters)
    data = balanced(names["act"], Walk(DISCRETE))
    log_p = np.asarray(jax.nn.log_softmax(network.apply(parameters, data.observations.astype(np.float32))))
    np.testing.assert_allclose(data.log_e, log_p[np.arange(len(log_p)), data.actions[:, 0].astype(int)], atol=1e-5)
    assert as_model(names["act"], Walk(DISCRETE).observation_space, DISCRETE).engine is not None
