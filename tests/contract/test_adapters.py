"""What every kind of policy must obey, whoever made it: in an environment, and when data is read with it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from torch.distributions import Categorical

from evenroll.adapters.model import as_model
from evenroll.collection.environments import collect
from evenroll.collection.recorder import see
from evenroll.collection.rollouts import Rollouts
from evenroll.evaluation.collector import Collector
from evenroll.policies import TabularSoftmax, save_policy
from tests.adapters.test_cleanrl_agents import Agent, ImageAgent, RealAgent
from tests.adapters.test_memory import Agent as LstmAgent
from tests.adapters.test_memory import Gru, Lstm
from tests.adapters.test_noise_maps import MIXED, UNIT, beta, correlated, mixed
from tests.contract.cleanrl_kinds import cleanrl, real_lstm_agent, soft_actor
from tests.contract.kinds import (
    DISCRETE,
    FLAGS,
    IMAGES,
    MULTI,
    ONE_HOT,
    PARTS,
    STATES,
    STEPS,
    WIDE,
    Kind,
    Other,
    Own,
    Several,
    Track,
    apart,
    function,
    latent,
    masked,
    module,
    noise,
    observed,
    of_beta,
    of_correlated,
    of_mixed,
    one_hot,
    read,
    remembers,
    says,
    shy,
    squash_function,
    stacked,
)  # fmt: skip
from tests.contract.sb3_kinds import sb3_kind
from tests.contract.tracks import Tracks, repeated
from tests.helpers import make_mlp
from tests.torch_helpers import Head, bernoulli, categorical, logits, normal, own_scale

contrib = pytest.importorskip("sb3_contrib")
LANES = 16
TABLE = np.random.default_rng(3).normal(size=(9, 3))


def _ours(**options: Any) -> Any:
    return make_mlp(np.random.default_rng(0), **options)


def _of_ours(policy: Any, space: gym.Space) -> Own:
    def give(x: Any, state: Any) -> Any:
        rows = torch.as_tensor(policy.parameters_of_actions(np.asarray(x, dtype=np.float64).reshape(len(x), -1)))
        if not isinstance(space, gym.spaces.Box):
            return Categorical(logits=rows), None
        return torch.distributions.Normal(rows[:, 0::2], rows[:, 1::2].exp()), None

    return says(space, give)


def _file(place: Path) -> Any:
    policy = _ours(widths=(3, 4), outputs=3)
    save_policy(policy, place / "policy.safetensors")
    return str(place / "policy.safetensors"), _of_ours(policy, DISCRETE)


class OfParts(torch.nn.Module):
    """Takes observations of several parts as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(7, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

    def forward(self, x: dict[str, Any]) -> torch.Tensor:
        return Categorical(logits=self.net(torch.cat([x["place"].flatten(start_dim=1), x["flags"].float()], dim=1)))


def ours(policy: Any, space: gym.Space, observations: gym.Space | None = None) -> Kind:
    return Kind(lambda _: (policy, _of_ours(policy, space)), space, *([] if observations is None else [observations]))


ON: dict[str, Any] = {"n_steps": 8, "batch_size": 8}
SMALL: dict[str, Any] = {"policy_kwargs": {"net_arch": [4]}}
THREE = gym.spaces.Discrete(3)
LSTM: dict[str, Any] = {"policy": "MlpLstmPolicy", "policy_kwargs": {"lstm_hidden_size": 4, "net_arch": [4]}}
KINDS: dict[str, Kind] = {
    "table": ours(TabularSoftmax(TABLE), DISCRETE, STATES),
    "network": ours(_ours(widths=(3, 4), outputs=3), DISCRETE),
    "network of real actions": ours(_ours(widths=(3, 4), head="gaussian", outputs=4, mean="identity"), WIDE),
    "file": Kind(_file, DISCRETE),
    "module, compiled": module(lambda: Head(3, 3, categorical, width=4), DISCRETE),
    "module of real actions, compiled": module(lambda: Head(3, 2, normal, width=4), WIDE),
    "module, through torch": module(lambda: Head(3, 4, own_scale, width=4), WIDE),
    "module of several actions": read(lambda: Head(3, 5, logits, width=4), MULTI, Several),
    "module of probabilities": read(
        lambda: Head(3, 3, lambda out, _: out.softmax(dim=1), width=4), DISCRETE, lambda p: Categorical(probs=p)
    ),
    "module of flags": module(lambda: Head(3, 4, bernoulli, width=4), FLAGS),
    "module of parts": module(OfParts, DISCRETE, observations=PARTS),
    "module of a Beta": noise(lambda: Head(3, 5, beta, width=4), UNIT, of_beta),
    "module of a correlated Gaussian": noise(lambda: Head(3, 5, correlated, width=4), WIDE, of_correlated),
    "module of several heads": noise(lambda: Head(3, 5, mixed, width=4), MIXED, of_mixed),
    "module of one-hot actions": one_hot(
        lambda: Head(3, 3, lambda out, _: torch.distributions.OneHotCategorical(logits=out), width=4)
    ),
    "module that takes masks": masked(as_function=False),
    "function that takes masks": masked(as_function=True),
    "module that remembers": remembers(Gru, "step"),
    "module with an LSTM": remembers(Lstm, "step_by_step"),
    "agent": cleanrl(Agent, DISCRETE),
    "agent of real actions": cleanrl(RealAgent, WIDE),
    "agent that sees images": cleanrl(ImageAgent, DISCRETE, IMAGES),
    "agent that remembers": remembers(LstmAgent, "step_by_step"),
    "agent that remembers, of real actions": real_lstm_agent(),
    "agent that squashes": soft_actor(),
    "function of states": function(lambda s: np.exp(TABLE[int(s)]) / np.exp(TABLE[int(s)]).sum(), DISCRETE, STATES),
    "function of vectors": function(shy, DISCRETE),
    "function of parts": function(shy, DISCRETE, PARTS),
    "function that gives arrays of another library": function(shy, DISCRETE, wrap=Other),
    "function that gives a tensor": function(shy, DISCRETE, wrap=torch.as_tensor),
    "function that gives a Categorical": function(
        shy, DISCRETE, wrap=lambda p: Categorical(probs=torch.as_tensor(p))
    ),
    "function that gives a squashed distribution": squash_function(),
    "latent noise": latent("gaussian", batched=False),
    "latent uniform noise": latent("uniform", batched=True),
    "PPO": sb3_kind(sb3.PPO, THREE, **ON, **SMALL),
    "PPO of real actions": sb3_kind(sb3.PPO, WIDE, **ON, **SMALL),
    "PPO of parts": sb3_kind(sb3.PPO, MULTI, PARTS, "MultiInputPolicy", **ON, **SMALL),
    "PPO with state-dependent noise": sb3_kind(sb3.PPO, WIDE, use_sde=True, **ON),
    "A2C of flags": sb3_kind(sb3.A2C, FLAGS, **SMALL),
    "TRPO": sb3_kind(contrib.TRPO, WIDE, **ON, **SMALL),
    "SAC": sb3_kind(sb3.SAC, WIDE, **SMALL),
    "TQC": sb3_kind(contrib.TQC, WIDE, **SMALL),
    "CrossQ": sb3_kind(contrib.CrossQ, WIDE, **SMALL),
    "DQN": sb3_kind(sb3.DQN, THREE, exploration_rate=0.3, **SMALL),
    "QR-DQN": sb3_kind(contrib.QRDQN, THREE, exploration_rate=0.3, **SMALL),
    "TD3": sb3_kind(sb3.TD3, WIDE, **SMALL),
    "MaskablePPO": sb3_kind(contrib.MaskablePPO, THREE, **ON, **SMALL),
    "RecurrentPPO": sb3_kind(contrib.RecurrentPPO, THREE, **ON, **LSTM),
    "zip of PPO": sb3_kind(sb3.PPO, WIDE, saved=True, **ON, **SMALL),
    "zip of SAC": sb3_kind(sb3.SAC, WIDE, saved=True, **SMALL),
    "zip of DQN": sb3_kind(sb3.DQN, THREE, saved=True, exploration_rate=0.3, **SMALL),
    "zip of MaskablePPO": sb3_kind(contrib.MaskablePPO, THREE, saved=True, **ON, **SMALL),
    "zip of RecurrentPPO": sb3_kind(contrib.RecurrentPPO, THREE, saved=True, **ON, **LSTM),
    "zip of TD3": sb3_kind(sb3.TD3, WIDE, saved=True, **SMALL),
    "an action": Kind(lambda _: (lambda x: int(x[0] > 0) - 1, None), DISCRETE),
}  # fmt: skip
BALANCED = [name for name in KINDS if name not in ("TD3", "zip of TD3", "an action", "PPO with state-dependent noise")]
DRAWN = [*BALANCED, "PPO with state-dependent noise"]


def made(name: str, place: Path) -> tuple[Kind, Any, Own | None]:
    torch.manual_seed(0)
    return KINDS[name], *KINDS[name].make(place)


def collected(kind: Kind, policy: Any, seed: int, lanes: int | None = None) -> tuple[Collector, Rollouts, list[Any]]:
    """A collector, its data, and what the environments saw: (observations, actions) of every episode that ended."""
    log: list[Any] = []
    env: Any = Track(kind, False, log) if lanes is None else vector(kind, False, lanes, log)
    spaces = {"observation_space": kind.observations, "action_space": kind.actions}
    collector = Collector(policy, gamma=0.9, seed=seed, lanes=lanes, **spaces)
    for _ in collect(collector, env, episodes=12):
        pass
    return collector, collector.rollouts(), log


def vector(kind: Kind, known: bool, lanes: int, log: list[Any] | None = None) -> gym.vector.SyncVectorEnv:
    return gym.vector.SyncVectorEnv([lambda: Track(kind, known, log)] * lanes)


@pytest.mark.parametrize("name", KINDS)
def test_it_runs_the_same_way_again_and_is_left_as_it_was(name: str, tmp_path: Path) -> None:
    """The seed decides everything, another seed decides otherwise. Parameters, flags and all random numbers stay."""
    kind, policy, own = made(name, tmp_path)
    network = getattr(policy, "policy", policy)
    network = network if isinstance(network, torch.nn.Module) else torch.nn.Identity()
    for i, part in enumerate(network.modules()):
        part.training = i % 2 == 0  # some of them are frozen
    flags = [part.training for part in network.modules()]
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    states = random.getstate(), np.random.get_state()[1].copy(), torch.random.get_rng_state().clone()
    runs = []
    for seed in (3, 3, 4):
        collector, data, _ = collected(kind, policy, seed)
        collector.close()
        runs.append(data)
    a, b, c = runs
    for column in ("observations", "actions", "rewards", "returns", "ends"):
        np.testing.assert_array_equal(getattr(a, column), getattr(b, column))
    assert a.episodes == 12
    if own is not None:
        assert len(a.actions) != len(c.actions) or (a.actions != c.actions).any()
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()
    assert torch.equal(torch.random.get_rng_state(), states[2])
    assert [part.training for part in network.modules()] == flags
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in network.modules())


@pytest.mark.parametrize("lanes", [None, 3])
@pytest.mark.parametrize("name", BALANCED)
def test_log_probabilities_and_actions_are_the_librarys_own(name: str, lanes: int | None, tmp_path: Path) -> None:
    """To 1e-5, relative where they are large. The library goes through each episode alone and begins it anew.

    So a state that leaks from one lane to another, or from one episode to the next, is seen.
    """
    kind, policy, own = made(name, tmp_path)
    collector, data, log = collected(kind, policy, 5, lanes)
    again = see(collector.model, data)
    observations = collector.model.observations
    collector.close()
    known, starts = {}, data.ends - data.lengths
    for seen, played in log:
        batch = stacked(kind.observations, seen)
        rows = observations.rows({"action_mask": Track(kind, True).masks[: len(seen)], "observation": batch}
                                 if kind.masked else batch)  # fmt: skip
        known[rows.tobytes()] = batch, played
    for first, length in zip(starts, data.lengths, strict=True):
        steps = slice(int(first), int(first + length))
        batch, played = known[data.observations[steps].tobytes()]
        masks, state = Track(kind, True).masks, None
        for t, x in enumerate(apart(kind.observations, batch)):
            i = int(first) + t
            with torch.no_grad():
                said, becomes, state = own.judge(
                    stacked(kind.observations, [x]), data.actions[i : i + 1], state, masks[t : t + 1]
                )
            np.testing.assert_allclose(data.log_e[i], said[0], atol=1e-5, rtol=1e-5)
            theirs, ours = (gym.spaces.flatten(kind.actions, a) for a in (apart(kind.actions, becomes)[0], played[t]))
            np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(again.log_e, data.log_e, atol=2e-4)  # actions are recorded in single precision
    np.testing.assert_allclose(data.log_weights, np.add.reduceat(data.log_e - data.log_b, starts), atol=1e-9)
    assert np.abs(data.log_b - data.log_e).max() > 1e-6  # balanced, not plain


@pytest.mark.parametrize("name", BALANCED)
def test_lanes_see_what_one_alone_sees(name: str, tmp_path: Path) -> None:
    kind, policy, _ = made(name, tmp_path)
    model = as_model(policy, kind.observations, kind.actions)
    batch = model.observations.probes(6)
    together = model.encode(batch)
    assert together.dtype == np.float64
    assert together.shape == (6, model.engine.obs_dim)
    for i in range(6):
        alone = model.encode(model.observations.take(batch, [i]))
        np.testing.assert_allclose(alone[0], together[i], rtol=1e-5, atol=1e-6)
    model.close()


# ---- what it is worth ----------------------------------------------------------------------------------------------


def their_returns(kind: Kind, own: Own, episodes: int, seed: int) -> np.ndarray:
    """The returns of the library's own rollouts of the known track, all of them side by side."""
    torch.manual_seed(seed), np.random.seed(seed % 2**31)
    track, state, total = Track(kind, known=True), None, np.zeros(episodes)
    for t, x in enumerate(observed(kind.observations, 0)[:STEPS]):
        masks = np.repeat(track.masks[t : t + 1], episodes, axis=0)
        with torch.no_grad():
            actions, state = own.draw(repeated(kind.observations, x, episodes), state, masks)
        total += track.rewards(actions)
    return total


def our_returns(model: Any, kind: Kind, sampler: str, runs: int, episodes: int, seed: int) -> np.ndarray:
    """The returns of every run, [runs, episodes]."""
    envs, found = Tracks(kind, LANES), []
    for i in range(runs):
        collector = Collector(model, sampler, seed=seed + i, lanes=LANES)
        for _ in collect(collector, envs, episodes=episodes):
            pass
        found.append(collector.rollouts().returns)
    return np.array(found)


def directions(model: Any) -> int:
    """Features × independent scores of an action: how many numbers are to be balanced (docs/auto.md)."""
    scores = sum(n - 1 for n in model.actions.choices) or 2 * model.actions.real
    if isinstance(model.engine, TabularSoftmax):
        return STEPS * scores
    return scores * model.engine.feature_width


@pytest.mark.statistical
@pytest.mark.parametrize("name", DRAWN)
def test_on_policy_it_earns_what_the_library_earns(name: str, tmp_path: Path, base_seed: int) -> None:
    """The value of "os" is that of the library's own rollouts.

    P(false) ≤ 1e-4 over all kinds: 4.9 standard errors of the difference, 640 episodes of ours and 1,500 of theirs.
    Catches a value that is off by 0.23 standard deviations of the return.
    """
    kind, policy, own = made(name, tmp_path)
    theirs = their_returns(kind, own, 1_500, base_seed)
    model = as_model(policy, kind.observations, kind.actions)
    ours = our_returns(model, kind, "os", 1, 640, base_seed).ravel()
    model.close()
    assert abs(ours.mean() - theirs.mean()) < 4.9 * np.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))


@pytest.mark.statistical
@pytest.mark.parametrize("name", BALANCED)
def test_balancing_lowers_the_error(name: str, tmp_path: Path, base_seed: int) -> None:
    """The mean of the episodes of "auto" errs less than that of the library's own rollouts: by squares, below 0.6 of it.

    Here all noise is that of the actions, and rewards are linear in them. A run has k ≥ 16 D steps, D being the number of
    directions, so by theory (docs/auto.md) D/(2κk) = 1/8 of the error is left; 1/4 is allowed for, because the actions are
    not linear in the scores for every kind, and 16 lanes act at once. P(false) ≤ 1e-4 over all kinds: the squared errors of
    50 runs are χ² with 50 degrees of freedom, and exceed 2.4 times their mean once in 10⁶ times; the library's own mean, of
    70 times as many episodes, has an error that is common to all runs, and adds 0.35 once in 10⁶ times.
    Catches a sampler that does not balance in 99 of 100 cases.
    """
    kind, policy, own = made(name, tmp_path)
    model = as_model(policy, kind.observations, kind.actions)
    episodes = LANES * -(-16 * directions(model) // (LANES * STEPS))
    theirs = their_returns(kind, own, 70 * episodes, base_seed)
    values = our_returns(model, kind, "auto", 50, episodes, base_seed).mean(axis=1)
    model.close()
    ratio = np.square(values - theirs.mean()).mean() / (theirs.var() / episodes)
    assert ratio < 0.6, ratio


@pytest.mark.parametrize("space", [DISCRETE, THREE, WIDE, MULTI, FLAGS, ONE_HOT, UNIT, MIXED], ids=str)
def test_rewards_of_a_batch_are_those_of_its_actions(space: gym.Space) -> None:
    """`Tracks` and the library's own rollouts take them all at once, `Track` one by one, in Gymnasium's words."""
    track = Track(Kind(lambda _: (None, None), space), known=True)
    space.seed(1)
    actions = [space.sample() for _ in range(20)]
    np.testing.assert_allclose(track.rewards(stacked(space, actions)), [track.reward(a) for a in actions], rtol=1e-12)
