"""A policy of any make, as the loop needs it. `as_model` recognises which of these it was given:

one of ours (file, table, MLP) · Stable-Baselines3 model · torch module · function of an observation that gives probabilities
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from evenroll.adapters.sb3_zip import load_sb3
from evenroll.adapters.spaces import TABLE_SIZE, Actions, Observations, check_fit
from evenroll.errors import PolicyError, SpecError
from evenroll.policies.base import Policy
from evenroll.policies.external import External
from evenroll.policies.mlp import MLP
from evenroll.policies.policy_files import load_policy
from evenroll.policies.tabular import TabularSoftmax

if TYPE_CHECKING:
    from evenroll.adapters.torch_module import TorchPolicy

LONGEST = 64  # observations up to this long serve as the features of a function, which shows no other features
PROBABILITY_ERROR = 1e-3  # how far the sum of the probabilities that a function gives may be from 1
CHECKED = 64  # about how many observations a compiled copy is compared with its network on, after the collection
CHUNK = 1024  # how many observations go through a network at once


@dataclass(eq=False)
class Model:
    """What runs: `engine` on `encode(observations)`, or for a deterministic policy only `decide(observations)`.

    described  the policy in words, for reports
    encode     observations [n, …] → [n, engine.obs_dim], float64, contiguous
    decide     observations [n, …] → actions [n, …] as the environment wants them
    torch      the network behind `encode`, if it runs through torch
    restore    what to call to leave the user's network as it was
    """

    described: str
    observations: Observations
    actions: Actions
    engine: Policy | None = None
    encode: Callable[[Any], np.ndarray] | None = None
    decide: Callable[[Any], Any] | None = None
    torch: TorchPolicy | None = None
    restore: list[Callable[[], None]] = field(default_factory=list)

    def of_rows(self, rows: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """(ψ, outputs) at observations [N, size]: ψ is [N, F + 1], or None for a table; outputs describe the actions."""
        engine = self.engine
        if isinstance(engine, TabularSoftmax):
            return None, engine.parameters_of_actions(rows)
        if isinstance(engine, MLP):
            return engine.features(rows), engine.parameters_of_actions(rows)
        if not isinstance(engine, External) or self.encode is None:
            raise SpecError("the policy is deterministic: data of other actions says nothing about it")
        shaped = rows.reshape(len(rows), *self.observations.shape).astype(self.observations.dtype)
        encoded = [self.encode(shaped[i : i + CHUNK]) for i in range(0, len(shaped), CHUNK)]
        handed = np.concatenate(encoded) if encoded else np.zeros((0, engine.obs_dim))
        width = engine.features_dim
        psi = np.append(handed[:, :width], np.ones((len(handed), 1)), axis=1).astype(np.float32)
        return psi, engine.parameters_of_actions(handed)

    def check(self, rows: np.ndarray) -> None:
        """Raise if the compiled copy of a network disagrees with the network on observations [N, size] that were met."""
        if self.torch is None or not isinstance(self.engine, MLP) or len(rows) == 0:
            return
        some = rows[:: max(len(rows) // CHECKED, 1)]
        theirs = self.torch.outputs(some.reshape(len(some), *self.observations.shape).astype(self.observations.dtype))
        if not self.actions.distribution.same(self.engine.parameters_of_actions(some), theirs):
            raise PolicyError("the network's compiled copy disagrees with it on observations it met: pass compile=False")

    def close(self) -> None:
        """Leave the user's network as it was."""
        for undo in self.restore:
            undo()
        self.restore.clear()


def as_model(
    policy: Any,
    observation_space: gym.Space[Any] | None,
    action_space: gym.Space[Any] | None,
    *,
    deterministic: bool = False,
    compile: bool = True,
) -> Model:
    """Recognise a policy. The spaces may be left out where the policy itself has them (ours, Stable-Baselines3)."""
    if isinstance(policy, str | Path):
        policy = load_sb3(policy) if str(policy).endswith(".zip") else load_policy(policy)
    if isinstance(policy, Policy):
        return _ours(policy, observation_space, action_space, deterministic)
    if _is_sb3(policy):
        observation_space = observation_space or policy.observation_space
        action_space = action_space or policy.action_space
    if observation_space is None or action_space is None:
        raise SpecError("this kind of policy needs observation_space and action_space")
    observations, actions = Observations.of(observation_space), Actions.of(action_space)
    if _is_sb3(policy):
        return _sb3(policy, observations, actions, deterministic, compile)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(policy, torch.nn.Module):
        return _module(policy, observations, actions, deterministic, compile)
    if callable(policy):
        return _function(policy, observations, actions, deterministic)
    raise PolicyError(
        f"a {type(policy).__name__} is no policy: give a policy file, a Stable-Baselines3 model, a torch module or a "
        "function that gives action probabilities"
    )


# ---- ours --------------------------------------------------------------------------------------------------------


def _ours(policy: Policy, observation_space: Any, action_space: Any, deterministic: bool) -> Model:
    observations = Observations.of(observation_space or _own_observations(policy))
    actions = Actions.of(action_space or _own_actions(policy))
    if policy.n_states != observations.n_states and policy.n_states is not None:
        theirs = f"{observations.n_states} states" if observations.n_states is not None else "vector observations"
        raise PolicyError(f"the policy is a table of {policy.n_states} states, the environment has {theirs}")
    check_fit("the policy", policy.obs_dim, observations)
    ours = (policy.n_actions,) if policy.n_actions is not None else ()
    if ours != actions.choices or policy.action_dim != actions.dim:
        has = f"{policy.n_actions} actions" if ours else f"{policy.action_dim}-d real actions"
        raise PolicyError(f"the policy has {has}, the environment's are {actions.space}")
    if isinstance(policy, TabularSoftmax) and bool((policy.table.max(axis=1) == 1.0).all()):
        best = policy.table.argmax(axis=1)
        return _deterministic(
            "table", observations, actions, lambda x: best[observations.rows(x)[:, 0].astype(int)][:, None]
        )
    if deterministic:
        raise SpecError("deterministic=True is for Stable-Baselines3 models and torch modules")
    kind = f"table of {policy.n_states} states" if policy.n_states is not None else "compiled MLP"
    return Model(kind, observations, actions, policy, observations.rows)


def _own_observations(policy: Policy) -> gym.Space[Any]:
    if policy.n_states is not None:
        return gym.spaces.Discrete(policy.n_states)
    return gym.spaces.Box(-np.inf, np.inf, (policy.obs_dim,), np.float64)


def _own_actions(policy: Policy) -> gym.Space[Any]:
    if policy.n_actions is not None:
        return gym.spaces.Discrete(policy.n_actions)
    return gym.spaces.Box(-np.inf, np.inf, (policy.action_dim,), np.float64)


def _deterministic(kind: str, observations: Observations, actions: Actions, rows: Callable[[Any], np.ndarray]) -> Model:
    """A deterministic policy, where `rows` gives actions [n, dim] for observations [n, …]."""
    return Model(f"deterministic {kind}", observations, actions, decide=lambda x: actions.to_envs(rows(x)))


# ---- torch -------------------------------------------------------------------------------------------------------


def _is_sb3(policy: Any) -> bool:
    return any(
        kind.__module__.startswith(("stable_baselines3.", "sb3_contrib.")) for kind in type(policy).__mro__
    ) and hasattr(policy, "predict")


def _sb3(model: Any, observations: Observations, actions: Actions, deterministic: bool, compile: bool) -> Model:
    name = type(model).__name__
    for what, theirs, ours in (
        ("observations", model.observation_space, observations.space), ("actions", model.action_space, actions.space),
    ):  # fmt: skip
        if theirs.shape != ours.shape or type(theirs) is not type(ours) or getattr(theirs, "n", 0) != getattr(ours, "n", 0):
            raise PolicyError(f"{name} was made for {what} {theirs}, the environment has {ours}")
    policy = getattr(model, "policy", model)
    if "Recurrent" in name or hasattr(policy, "lstm_actor"):
        raise PolicyError("recurrent policies are not supported yet: their features depend on the past")

    def predicted(batch: np.ndarray) -> Any:
        return model.predict(batch, deterministic=True)[0]

    was_training = bool(getattr(policy, "training", False))
    if deterministic or not hasattr(policy, "get_distribution"):
        if not deterministic and not hasattr(policy, "q_net"):
            raise PolicyError(f"{name}: the distribution of its actions is not supported yet; PPO and A2C are")
        return Model(f"deterministic {name}", observations, actions, decide=predicted)
    if getattr(policy, "use_sde", False):
        raise PolicyError(
            f"{name} with state-dependent exploration (use_sde) is not supported: its noise is not independent"
        )

    def call(batch: np.ndarray) -> Any:
        return policy.get_distribution(policy.obs_to_tensor(batch)[0])

    made = _network(call, policy, observations, actions, compile, name)
    made.restore.append(lambda: policy.set_training_mode(was_training))
    return made


def _module(module: Any, observations: Observations, actions: Actions, deterministic: bool, compile: bool) -> Model:
    from evenroll.adapters.torch_module import call_module

    call = call_module(module, observations.n_states is not None)
    was_training = module.training
    name = type(module).__name__
    if deterministic:
        module.eval()
        made = _deterministic(name, observations, actions, lambda x: _most_likely(call(x), actions))
    else:
        made = _network(call, module, observations, actions, compile, name)
    made.restore.append(lambda: module.train(was_training))
    return made


def _most_likely(result: Any, actions: Actions) -> np.ndarray:
    """The likeliest action of a distribution, or the tensor itself where actions are real, as rows [n, dim]."""
    result = getattr(result, "base_dist", result)
    out = result.mode if hasattr(result, "log_prob") else result  # a tensor also has a `mode`, which means something else
    out = out.detach().double().numpy()
    if actions.choices and out.ndim == 2 and out.shape[1] == actions.distribution.size != actions.dim:
        return actions.distribution.mode(out)
    return np.asarray(out.reshape(len(out), -1))


def _network(
    call: Callable[[np.ndarray], Any], module: Any, observations: Observations, actions: Actions, compile: bool, name: str
) -> Model:
    from evenroll.adapters.torch_module import TorchPolicy

    probes = observations.probes()
    network = TorchPolicy(call, module, actions.distribution, probes)
    made = Model(name, observations, actions, encode=observations.rows, restore=[network.close])
    if observations.n_states is not None and observations.n_states <= TABLE_SIZE and len(actions.choices) == 1:
        states = observations.start + np.arange(observations.n_states)
        made.described, made.engine = f"{name}, as a table", TabularSoftmax(network.outputs(states))
        return made
    made.torch = network
    mlp = network.compiled(probes) if compile else None
    if mlp is not None:
        made.described, made.engine = f"{name}, a compiled MLP", mlp
        return made
    what = f"{network.width} features" if network.head is not None else "no features found: no linear layer"
    made.described, made.encode = f"{name} through torch, {what}", network.encode
    made.engine = External(network.width, choices=actions.choices, gaussian=actions.real)
    return made


# ---- functions ---------------------------------------------------------------------------------------------------


def _function(function: Callable[[Any], Any], observations: Observations, actions: Actions, deterministic: bool) -> Model:
    """A function gives the probabilities [n] at one observation, or an action itself: then the policy is deterministic."""
    name = getattr(function, "__name__", type(function).__name__)
    probe = observations.probes(1)[0]
    try:
        first = function(probe)
    except Exception as error:
        raise PolicyError(f"{name} failed on observation {probe}: {type(error).__name__}: {error}") from error
    whole = not isinstance(first, list | tuple | np.ndarray) or np.ndim(first) == 0
    if deterministic or not actions.choices or whole:
        if not _is_action(first, actions):
            raise PolicyError(f"{name} gives {first!r}, which is neither probabilities nor an action of {actions.space}")
        return Model(f"deterministic {name}", observations, actions, decide=lambda x: np.array([function(o) for o in x]))
    if len(actions.choices) != 1:
        raise PolicyError(f"{name}: a function can give the probabilities of one discrete action, not of {actions.space}")
    n = actions.choices[0]

    def logits(observation: Any) -> np.ndarray:
        p = np.asarray(function(observation), dtype=np.float64)
        if p.shape != (n,) or not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1.0) > PROBABILITY_ERROR:
            raise PolicyError(f"{name} gives {p} for observation {observation}: it must be {n} probabilities that sum to 1")
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(p), -800.0)

    logits(probe)
    if observations.n_states is not None and observations.n_states <= TABLE_SIZE:
        table = np.stack([logits(observations.start + s) for s in range(observations.n_states)])
        return _ours(TabularSoftmax(np.where(table <= -800.0, -np.inf, table)), observations.space, actions.space, False)
    width = observations.size if observations.size <= LONGEST else 0

    def encode(batch: Any) -> np.ndarray:
        rows = observations.rows(batch)[:, :width]
        return np.concatenate([rows, np.stack([logits(o) for o in batch])], axis=1)

    return Model(f"{name}, {width} features", observations, actions, External(width, choices=(n,)), encode)


def _is_action(thing: Any, actions: Actions) -> bool:
    try:
        return bool(actions.space.contains(actions.to_env(actions.from_env(np.asarray(thing)[None])[0])))
    except (TypeError, ValueError):
        return False


__all__ = ["MLP", "Model", "as_model"]
