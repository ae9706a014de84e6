"""What surrounds an environment: its wrappers, looked at for what a result has to say about them.

A wrapper may change what is evaluated. One that still learns makes a moving target of the environment, one that scales or
clips rewards changes the value, and one that ends an episode with every lost life makes an episode of a life. None of this
is forbidden, and none of it may go unsaid.

The environments of another process (AsyncVectorEnv, SubprocVecEnv) are asked only what every wrapper answers with a number,
a truth value or a text: an error there would end the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym

LEARNS = "{name} still learns its statistics, so that the policy sees other observations later: set {how} for an evaluation"
SCALES = "{name} scales the rewards, and so the value: {how} for an evaluation"
CLIPS = "{name} clips the rewards: the value is that of the clipped ones"
CHANGES = "{name} changes the rewards: the value is that of the changed ones"
LIFE = (
    "{name} ends an episode with every life that is lost: the value, the length and the number of episodes are those of "
    "lives, not of games; make the environment with {how} to count games"
)
UNTOLD = (
    "{name} was made without gymnasium.make_vec and does not tell its settings: unless told otherwise it clips the rewards; "
    "with episodic_life an episode is a life, not a game"
)
AGENTS = (
    "the lanes are agents of one world ({name}): their episodes depend on each other, and the interval takes them for "
    "independent"
)
NORMALISERS = ("NormalizeObservation", "NormalizeReward")
CLIPPERS = ("ClipReward", "ClipRewardEnv")
CHANGERS = ("TransformReward", "VectorizeTransformReward")
ELSEWHERE = ("AsyncVectorEnv", "SubprocVecEnv")  # vector environments whose lanes are other processes

Ask = Callable[[str], Any]  # gives an attribute of a wrapper, or None


def warnings_of(env: Any) -> tuple[str, ...]:
    """What a result has to say about the wrappers of an environment, each thing once, from the outside inwards."""
    said: list[str] = []
    for layer in layers(env):
        said += _of_wrapper(type(layer).__name__, lambda name, layer=layer: getattr(layer, name, None))  # type: ignore[misc]
        said += _of_settings(layer)
        if isinstance(layer, gym.RewardWrapper | gym.vector.VectorRewardWrapper) and not _is_known(type(layer).__name__):
            said.append(CHANGES.format(name=type(layer).__name__))
    for name in re.findall(r"<(\w+)", described(env)):
        said += _of_wrapper(name, lambda attribute: next(iter(asked(env, attribute)), None))
    return tuple(dict.fromkeys(said))


def layers(env: Any) -> Iterator[Any]:
    """The environment, its wrappers and those of its lanes, from the outside inwards."""
    below, met = [env], set[int]()
    while below:
        layer = below.pop(0)
        if id(layer) in met:
            continue
        met.add(id(layer))
        yield layer
        own = getattr(layer, "__dict__", {})  # not what a wrapper passes on from inside
        inner = own.get("env", own.get("venv"))
        lanes = own.get("envs", own.get("vec_envs"))
        below[:0] = [inner] if inner is not None else list(lanes) if isinstance(lanes, list | tuple) else []


def _is_known(name: str) -> bool:
    return name in (*NORMALISERS, *CLIPPERS, *CHANGERS)


def _of_wrapper(name: str, ask: Ask) -> Iterator[str]:
    if name == "VecNormalize":
        if ask("training"):
            yield LEARNS.format(name=name, how="training = False")
        if ask("norm_reward"):
            yield SCALES.format(name=name, how="set norm_reward = False")
    elif name in NORMALISERS:
        if ask("update_running_mean") is not False:
            yield LEARNS.format(name=name, how="update_running_mean = False")
        if name == "NormalizeReward":
            yield SCALES.format(name=name, how="leave it out")
    elif name in CLIPPERS:
        yield CLIPS.format(name=name)
    elif name in CHANGERS:
        yield CHANGES.format(name=name)
    elif name == "EpisodicLifeEnv" or (name == "AtariPreprocessing" and ask("terminal_on_life_loss")):
        yield LIFE.format(name=name, how="terminal_on_life_loss=False")
    elif name in ("MarkovVectorEnv", "ProcConcatVec"):  # SuperSuit's; the latter hides what is in other processes
        yield AGENTS.format(name=name)


def _of_settings(layer: Any) -> Iterator[str]:
    """Vector environments of Atari games have no wrappers, but settings: ALE's in its spec, envpool's in its config."""
    name = type(layer).__name__
    theirs = name == "AtariVectorEnv"
    settings = getattr(getattr(layer, "spec", None), "kwargs", None) if theirs else getattr(layer, "config", None)
    if not isinstance(settings, dict):
        if theirs:
            yield UNTOLD.format(name=name)
        return
    if settings.get("episodic_life"):
        yield LIFE.format(name=name, how="episodic_life=False")
    if settings.get("reward_clip") or settings.get("reward_clipping", theirs):  # ALE's clips unless told otherwise
        yield CLIPS.format(name=name)


# ---- environments in other processes -----------------------------------------------------------------------------------


def asked(env: Any, name: str) -> list[Any]:
    """An attribute of the environments that run in other processes, where they have it."""
    owner = next((layer for layer in layers(env) if type(layer).__name__ in ELSEWHERE), None)
    if owner is None:
        return []
    try:
        if isinstance(owner, gym.vector.AsyncVectorEnv):
            return list(owner.get_attr(name)) if all(owner.call("has_wrapper_attr", name)) else []
        return list(owner.get_attr(name)) if owner.has_attr(name) else []
    except (AttributeError, TypeError):  # a version that cannot be asked
        return []


def described(env: Any) -> str:
    """The first environment that runs in another process, as its wrappers write themselves: <TimeLimit<…<CartPole-v1>>>."""
    owner = next((layer for layer in layers(env) if type(layer).__name__ in ELSEWHERE), None)
    if owner is None:
        return ""
    is_ours = isinstance(owner, gym.vector.AsyncVectorEnv)
    return str(owner.call("__str__")[0] if is_ours else owner.env_method("__str__", indices=[0])[0])


# ---- names and limits --------------------------------------------------------------------------------------------------


def environment_name(env: Any) -> str:
    """The id under which the environment was registered, be it inside many wrappers, else its type."""
    every = list(layers(env))
    for layer in every:
        name = getattr(getattr(layer, "spec", None), "id", None)
        if name:
            return str(name)
    inside = re.search(r"<([^<>]+)>+$", described(env))
    if inside and not inside[1].endswith(" instance"):
        return inside[1]
    return type(every[-1]).__name__


def time_limit(env: Any) -> int | None:
    """After how many steps the environment cuts an episode by itself, as far as it says so."""
    found = asked(env, "_max_episode_steps")
    for layer in layers(env):
        found += [getattr(layer, name, None) for name in ("_max_episode_steps", "max_episode_steps")]
        found.append(getattr(getattr(layer, "spec", None), "max_episode_steps", None))
    return max((limit for limit in found if type(limit) is int and limit > 0), default=None)


def cut_after(env: Any) -> int | None:
    """After how many steps a wrapper of this single environment surely cuts an episode; None where none is known to."""
    limits = [layer._max_episode_steps for layer in layers(env) if isinstance(layer, gym.wrappers.TimeLimit)]
    return min((limit for limit in limits if type(limit) is int and limit > 0), default=None)
