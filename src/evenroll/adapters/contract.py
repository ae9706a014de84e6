"""The contract that every kind of policy is brought to: outputs of a known distribution, features, and how to act on them.

Each kind has a file beside this one, and `model.py` recognises which kind it was given:

our_policies.py  a file, table or MLP of ours            sb3_models.py  models of Stable-Baselines3 and sb3-contrib
modules.py       torch modules, CleanRL's agents         functions.py   functions of an observation
sb3_networks.py  models in zips, read not executed       latent_noise.py  functions of an observation and of noise

A policy whose action probabilities are not known, or that has none, is run as it is (`decide`), and nothing is balanced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenroll.adapters.spaces import Actions, Observations
from evenroll.errors import PolicyError, SpecError
from evenroll.policies.base import Policy
from evenroll.policies.external import External
from evenroll.policies.mlp import MLP
from evenroll.policies.tabular import TabularSoftmax

if TYPE_CHECKING:
    from evenroll.adapters.memory import LaneMemory
    from evenroll.adapters.torch_module import TorchPolicy

CHECKED = 64  # about how many observations that were met a policy is asked about again, after the collection
CHUNK = 1024  # how many observations go through a network at once
CHUNKS = (
    "a step is a decision, which is played as up to {0} actions: the steps, the lengths of episodes and the discount are "
    "those of decisions, and the reward of a step is that of its actions, discounted from its first one on"
)
COPY_DISAGREES = (
    "the network's compiled copy disagrees with it on observations it met. To run the network itself, pass "
    "evenroll.adapters.model.as_model(policy, env.observation_space, env.action_space, compile=False) in its place"
)
DETERMINISTIC = "the policy is deterministic: there is no action noise to balance, so it was evaluated on-policy"


@dataclass(eq=False)
class Model:
    """What runs: `engine` on `encode(observations)`, or for a policy that is run as it is, only `decide(observations)`.

    described  the policy in words, for reports
    encode     observations [n, …] → [n, engine.obs_dim], float64, contiguous
    decide     observations [n, …] → actions [n, …] as the environment wants them
    torch      the network behind `encode`, if it runs through torch
    restore    what to call to leave the user's network as it was
    why        why nothing is balanced; None if the policy has an engine
    draws      whether `decide` draws its actions, so that it may decide otherwise when it is asked again
    begin      what to call when the episode of a lane begins, for a policy that remembers something during an episode
    seeded     what to call with a number just before `begin`, for a policy that draws noise of its own
    memory     what a policy remembers during an episode, for each lane
    masked     whether it observes masks of its actions beside the environment's observation (masks.py)
    clips      what to say if actions were drawn outside the environment's bounds, and clipped; None where that is usual
    play       (observations [n, …], noise [n, dim]) → actions as the environment wants them, where `actions` are not what is
               played but the noise behind it. It is asked right after `encode` of the same observations.
    noise_of   (observations [n, …], actions [n, …] as rows) → the noise behind them; None where it cannot be told
    likeliest  observations [n, …] → the likeliest actions, where the noise behind them does not tell
    clipped    the share of the actions that were clipped, where `actions` does not tell
    played_actions  what the environment gets, where `actions` are noise
    chunk      how many actions in a row come of one decision; then `play` gives them as [n, chunk, …]
    original   what `decide` is a compiled copy of; None if it is no copy
    critic     observations [n, …] → [n], the value that the model's own critic gives to them; None if it has none
    """

    described: str
    observations: Observations
    actions: Actions
    engine: Policy | None = None
    encode: Callable[[Any], np.ndarray] | None = None
    decide: Callable[[Any], Any] | None = None
    torch: TorchPolicy | None = None
    restore: list[Callable[[], None]] = field(default_factory=list)
    why: str | None = None
    draws: bool = False
    begin: Callable[[int, int], None] | None = None
    seeded: Callable[[int], None] | None = None
    memory: LaneMemory | None = None
    masked: bool = False
    clips: str | None = None
    play: Callable[[Any, np.ndarray], Any] | None = None
    noise_of: Callable[[Any, np.ndarray], np.ndarray] | None = None
    likeliest: Callable[[Any], Any] | None = None
    clipped: Callable[[], float] | None = None
    chunk: int = 1
    played_actions: Actions | None = None
    original: Callable[[Any], Any] | None = None
    critic: Callable[[Any], np.ndarray] | None = None

    @property
    def environment_actions(self) -> Actions:
        """The actions of the environment. They are those that are balanced, unless the noise behind them is."""
        return self.actions if self.played_actions is None else self.played_actions

    def to_env(self, batch: Any, rows: np.ndarray, batched: bool) -> Any:
        """What the environment gets for the rows [n, dim] that were drawn at a batch of observations."""
        if self.play is not None:
            played = self.play(batch, rows)
            return played if batched else _first(played)
        return self.actions.to_envs(rows) if batched else self.actions.to_env(rows[0])

    def of_rows(self, rows: np.ndarray, lengths: np.ndarray | None = None) -> tuple[np.ndarray | None, np.ndarray]:
        """(ψ, outputs) at observations [N, size]: ψ is [N, F + 1], or None for a table; outputs describe the actions.

        lengths  those of the episodes that the observations are, one after the other, for a policy that remembers
        """
        engine = self.engine
        if isinstance(engine, TabularSoftmax):
            return None, engine.parameters_of_actions(rows)
        if isinstance(engine, MLP):
            return engine.features(rows), engine.parameters_of_actions(rows)
        if not isinstance(engine, External) or self.encode is None:
            raise SpecError(
                "the probabilities of the policy's actions are not known: data of other actions says nothing of it"
            )
        handed = np.zeros((0, engine.obs_dim))
        if len(rows) and self.memory is not None:
            if lengths is None:
                raise SpecError("the policy remembers: it sees whole episodes, not single observations")
            handed = self.memory.encode_episodes(rows, lengths)
        elif len(rows):
            parts = (self.observations.shaped(rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK))
            handed = np.concatenate([self.encode(part) for part in parts])
        width = engine.features_dim
        psi = np.append(handed[:, :width], np.ones((len(handed), 1)), axis=1).astype(np.float32)
        return psi, engine.parameters_of_actions(handed)

    def check(self, rows: np.ndarray, actions: np.ndarray, handed: np.ndarray | None = None) -> None:
        """Raise if the policy answers otherwise when it is asked again about observations [N, size] that were met.

        actions  [N, dim] what was done
        handed   [N, features + outputs] what a network that runs elsewhere gave then
        """
        if len(rows) == 0:
            return
        some = np.unique(np.linspace(0, len(rows) - 1, CHECKED).astype(int))  # the first and the last step among them
        batch = self.observations.shaped(rows[some])
        if self.original is not None:
            if not self.actions.same(self.actions.from_env(self.original(batch)), actions[some]):
                raise PolicyError(COPY_DISAGREES)
        elif self.decide is not None and not self.draws and self.memory is None:
            if not self.actions.same(self.actions.from_env(self.decide(batch)), actions[some]):
                raise PolicyError(
                    f"{self.described}: when asked again about observations it met, it did something else, so it is not "
                    "deterministic: it remembers or draws; give the probabilities of its actions instead of an action"
                )
        elif self.torch is not None and isinstance(self.engine, MLP):
            theirs = self.torch.outputs(batch)
            if not self.actions.distribution.same(self.engine.parameters_of_actions(rows[some]), theirs):
                raise PolicyError(COPY_DISAGREES)
        elif handed is not None and isinstance(self.engine, External) and self.encode is not None and self.begin is None:
            now = self.engine.parameters_of_actions(self.encode(batch))
            if not self.actions.distribution.same(now, self.engine.parameters_of_actions(handed[some])):
                raise PolicyError(
                    f"{self.described}: when asked again about observations it met, the policy gave other probabilities: "
                    "it is no function of its observation"
                )

    def remark(self, actions: np.ndarray) -> str | None:
        """What to know of the policy beside its value, given the actions [N, dim] that were drawn."""
        if self.why is not None:
            return self.why
        if self.chunk > 1:
            return CHUNKS.format(self.chunk)
        if self.clips is None or len(actions) == 0:
            return None
        share = self.actions.clipped(actions) if self.clipped is None else self.clipped()
        outside = f"{share:.0%} of the actions were drawn outside the bounds of the action space, and clipped to them"
        return f"{outside}: {self.clips}" if share else None

    def close(self) -> None:
        """Leave the user's network as it was."""
        for undo in self.restore:
            undo()
        self.restore.clear()


def _first(batch: Any) -> Any:
    """The first of a batch of actions."""
    if isinstance(batch, dict):
        return {key: _first(part) for key, part in batch.items()}
    return tuple(_first(part) for part in batch) if isinstance(batch, tuple) else batch[0]


def deterministic(kind: str, observations: Observations, actions: Actions, decide: Callable[[Any], Any]) -> Model:
    """A deterministic policy, where `decide` gives actions as the environment wants them for observations [n, …]."""
    return Model(f"deterministic {kind}", observations, actions, decide=decide, why=DETERMINISTIC)
