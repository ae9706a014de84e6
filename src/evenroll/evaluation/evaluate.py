"""The one call most people need: what is this policy worth?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from evenroll.adapters.loading import environment_name, make_environment
from evenroll.adapters.model import Model, as_model
from evenroll.adapters.vector_environments import as_lanes, spaces_of
from evenroll.collection.balance import Divergence
from evenroll.collection.environments import collect
from evenroll.collection.recorder import Recorder
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.domain import Domain
from evenroll.engine.blas import single_threaded_blas
from evenroll.errors import NoEstimate, SpecError
from evenroll.estimators.importance import effective_sample_size, largest_weight
from evenroll.estimators.sampling_error import gradient_sampling_error, kl_sampling_error
from evenroll.estimators.score_regression import score_regression
from evenroll.estimators.table import Estimator, get_estimator
from evenroll.evaluation.result import Evaluation, Quantity
from evenroll.intervals.balanced import estimate_with_interval
from evenroll.intervals.independent import Interval, NoInterval
from evenroll.intervals.stopping import MOST_EPISODES, Target, collect_until, look_until
from evenroll.policies import External, Policy
from evenroll.samplers import OnPolicy, Sampler
from evenroll.samplers.table import get_sampler

DEFAULT_SAMPLER, DEFAULT_ESTIMATOR = "auto", "mc"
ENOUGH_TO_TELL = 30  # episodes from which the share of the actions' luck is worth a word
SHOW_EVERY = 0.2  # seconds
MOST = 10**15  # episodes or steps
LITTLE = 0.3  # share below which balancing cannot gain much
NOTHING_TO_BALANCE = "the policy is deterministic: there is no action noise to balance, so it was evaluated on-policy"


def evaluate(
    domain: Any,
    policy: Any = None,
    *,
    sampler: str | Sampler = DEFAULT_SAMPLER,
    estimator: str | Estimator = DEFAULT_ESTIMATOR,
    episodes: int | None = None,
    steps: int | None = None,
    gamma: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    half_width: float | str | None = None,
    interval: str = "auto",
    force_interval: bool = False,
    bounds: tuple[float, float] | None = None,
    horizon: int | None = None,
    initial: Rollouts | None = None,
    deterministic: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """Collect `episodes` trajectories (default 1,000; 100 in an environment) or `steps` steps, estimate the policy's value.

    domain      a built-in domain, or any Gymnasium environment: env, vector env, Stable-Baselines3's VecEnv, or its id
    policy      a policy or policy file of ours, a Stable-Baselines3 model (PPO, A2C), a torch module that gives a
                distribution or logits, or a function of an observation that gives action probabilities
    horizon, initial, deterministic, progress   for environments, as in `Collector`; γ is 1 there unless given
    half_width  stop as soon as the interval is this narrow (a number, or "5%" of the value); `episodes` is then the most
                to collect (default 100,000). Looking repeatedly is paid for (sequential.py)
    interval    auto, score, or for independent trajectories t, bca, bernstein (which needs the `bounds` of returns)
    """
    if not isinstance(domain, Domain) and not (isinstance(domain, str) and domain.partition(":")[0] in DOMAINS):
        return evaluate_with(
            domain, policy, sampler=sampler, estimator=estimator, episodes=episodes, steps=steps, gamma=gamma, seed=seed,
            confidence=confidence, half_width=half_width, interval=interval, force_interval=force_interval, bounds=bounds,
            horizon=horizon, initial=initial, deterministic=deterministic, progress=progress,
        )  # fmt: skip
    if horizon is not None or initial is not None or deterministic:
        raise SpecError("horizon, initial and deterministic are for environments; a built-in domain has its own")
    domain = get_domain(domain)
    chosen, how = get_sampler(sampler, domain.paper), get_estimator(estimator)
    if how.name == "wis+mc":
        raise SpecError("wis+mc needs initial data; use mc, ois or wis")
    if episodes is not None and steps is not None:
        raise SpecError("give either episodes or steps, not both")
    target = None if half_width is None else Target.parse(half_width)
    if target is not None and steps is not None:
        raise SpecError("half-width counts episodes; give --episodes as the most to collect, not --steps")
    if episodes is None and steps is None:
        episodes = 1000 if target is None else MOST_EPISODES
    for what, n in (("episodes", episodes), ("steps", steps)):
        if n is not None and not 1 <= n <= MOST:
            raise SpecError(f"{what} must be from 1 to {MOST:,}, not {n}")
    if not 0.0 < confidence < 1.0:
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    policy = policy or domain.policy()
    if not isinstance(policy, Policy):
        policy = as_model(policy, None, None).engine
    gamma = domain.gamma if gamma is None else gamma
    known = domain.known_truth(policy) if chosen.name == "bpg" else None
    driver = Driver(
        policy,
        chosen,
        (seed,),
        gamma=gamma,
        horizon=domain.horizon,
        record_steps=True,
        value=known.value if known else 1.0,
    )
    env = domain.trial_environment((seed,))

    def look(data: Rollouts, level: float) -> tuple[float, Interval | NoInterval]:
        value, found = estimate_with_interval(
            data, policy, chosen, how, level, kind=interval, force=force_interval, bounds=bounds
        )
        if isinstance(found, Interval) and found.kind == "score" and driver.divergence.runs_away:
            return value, NoInterval(f"{chosen} runs away from the policy, and the data with it")
        return value, found

    with single_threaded_blas():
        if target is None:
            data = driver.run(env, steps=steps, episodes=episodes)
            value, found = look(data, confidence)
        else:
            assert episodes is not None
            data, value, found = collect_until(driver, env, look, target, confidence, episodes)
    return _report(
        data, policy, chosen, how, value, found, driver.divergence, domain=str(domain), seed=seed, confidence=confidence
    )


def _report(
    data: Rollouts, policy: Policy | None, sampler: Sampler, how: Estimator, value: float, found: Interval | NoInterval,
    divergence: Divergence, *, domain: str, seed: int, confidence: float,
) -> Evaluation:  # fmt: skip
    log_weights = None if how.log_weights is None or policy is None else how.log_weights(data, policy)
    low, high = (found.low, found.high) if isinstance(found, Interval) else (None, None)
    return Evaluation(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        why=found.why if isinstance(found, NoInterval) else None,
        interval=found.kind if isinstance(found, Interval) else None,
        note=found.note if isinstance(found, Interval) else None,
        fallback=isinstance(found, Interval) and found.fallback,
        exact=isinstance(found, Interval) and found.exact,
        on_policy_episodes=_on_policy_episodes(data, found),
        episodes=data.episodes,
        steps=data.steps,
        terminated=int(data.terminated.sum()),
        truncated=data.truncated,
        unfinished=data.unfinished,
        sampler=str(sampler),
        estimator=how.name,
        domain=domain,
        gamma=data.gamma,
        seed=seed,
        kl=None if policy is None or isinstance(policy, External) else kl_sampling_error(data, policy),
        gradient=None if policy is None else gradient_sampling_error(data, policy),
        behavior_kl=divergence.kl,
        behavior_largest=divergence.largest,
        runs_away=divergence.runs_away,
        effective_sample_size=None if log_weights is None else effective_sample_size(log_weights),
        largest_weight=None if log_weights is None else largest_weight(log_weights),
    )


def _on_policy_episodes(data: Rollouts, found: Interval | NoInterval) -> float | None:
    """(z σ/h)²: episodes at which z σ/√n is the half-width h, σ the standard deviation of the returns."""
    if isinstance(found, NoInterval) or found.half_width <= 0.0:
        return None
    z = NormalDist().inv_cdf(0.5 + found.confidence / 2)
    return float((z * data.returns.std(ddof=1) / found.half_width) ** 2)


# ---- environments ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """How far collecting has come. The result is that of the last look, a little while ago, or None before the first."""

    episodes: int
    total: int
    steps: int
    seconds: float
    result: Evaluation | None


def summarise(
    collector: Recorder,
    *,
    estimator: str | Estimator = DEFAULT_ESTIMATOR,
    confidence: float = 0.95,
    interval: str = "auto",
    force_interval: bool = False,
    bounds: tuple[float, float] | None = None,
    name: str = "own loop",
    known: tuple[float, Interval | NoInterval] | None = None,
) -> Evaluation:
    """What a collector's data says of its policy; `known`: value and interval, where looked at already."""
    how, model = get_estimator(estimator), collector.model
    data = collector.rollouts()
    sampler = collector.sampler if model.engine is not None else OnPolicy()
    divergence = Divergence(0.0, 0.0, 0.0) if collector.stepper is None else collector.stepper.divergence
    with single_threaded_blas():
        value, found = known or look(data, model.engine, sampler, how, confidence, interval, force_interval, bounds)
        if divergence.runs_away and isinstance(found, Interval) and found.kind == "score":
            found = NoInterval(f"{sampler} runs away from the policy, and the data with it")
        result = _report(
            data,
            model.engine,
            sampler,
            how,
            value,
            found,
            divergence,
            domain=name,
            seed=collector.seed,
            confidence=confidence,
        )
        share = _action_share(data, model)
        return replace(
            result,
            policy=model.described,
            action_share=share,
            remark=_remark(model, share),
            quantities=_quantities(data, model.engine, sampler, confidence),
        )


def look(
    data: Rollouts, policy: Policy | None, sampler: Sampler, how: Estimator, confidence: float, interval: str = "auto",
    force: bool = False, bounds: tuple[float, float] | None = None,
) -> tuple[float, Interval | NoInterval]:  # fmt: skip
    """The estimate and its interval; a deterministic policy has neither scores nor weights, only returns."""
    if policy is not None:
        return estimate_with_interval(data, policy, sampler, how, confidence, kind=interval, force=force, bounds=bounds)
    if how.name != "mc" or interval == "score":
        raise SpecError(f"the policy is deterministic: there are no {how.name} estimates or score intervals, only mc")
    nothing = External(0, choices=(2,))
    return estimate_with_interval(data, nothing, sampler, how, confidence, kind=interval, force=force, bounds=bounds)


def _action_share(data: Rollouts, model: Model) -> float | None:
    if model.engine is None:
        return 0.0
    if data.episodes < ENOUGH_TO_TELL:
        return None
    return score_regression(data, model.engine).explained


def _remark(model: Model, share: float | None) -> str | None:
    if model.engine is None:
        return NOTHING_TO_BALANCE
    if share is None or share >= LITTLE:
        return None
    return (
        f"little can be gained by balancing here: only about {share:.0%} of the returns' variance was found to come from "
        "the policy's own choices, the rest from start states and the environment"
    )


def _quantities(data: Rollouts, policy: Policy | None, sampler: Sampler, confidence: float) -> dict[str, Quantity]:
    """Each is a return of its own: other rewards on the same trajectories, undiscounted."""
    result: dict[str, Quantity] = {}
    seen: list[tuple[np.ndarray, str]] = []
    for name, rewards in other_rewards(data).items():
        same = next((other for known, other in seen if np.array_equal(known, rewards)), None)
        if same is not None:  # a reward of 1 a step: the return is the length
            result[name] = result[same]
            continue
        owner = np.repeat(np.arange(data.episodes), data.lengths)
        returns = np.bincount(owner, rewards[: len(owner)], minlength=data.episodes)
        variant = replace(data, gamma=1.0, returns=returns, rewards=rewards)
        try:
            value, found = look(variant, policy, sampler, get_estimator("mc"), confidence)
        except NoEstimate:
            continue
        low, high = (found.low, found.high) if isinstance(found, Interval) else (None, None)
        result[name] = Quantity(value, low, high)
        seen.append((rewards, name))
    return result


def other_rewards(data: Rollouts) -> dict[str, np.ndarray]:
    """return: the rewards themselves, where γ < 1; length: 1 a step; success: at the last step of those that succeeded."""
    rewards = data.column("rewards")
    result = {"return": rewards} if data.gamma < 1.0 else {}
    result["length"] = np.ones_like(rewards)
    if data.success is not None:
        result["success"] = np.zeros_like(rewards)
        result["success"][data.ends - 1] = data.success
    return result


def evaluate_with(
    env: Any, policy: Any, *, sampler: str | Sampler, estimator: str | Estimator, episodes: int | None, steps: int | None,
    gamma: float | None, seed: int, confidence: float, half_width: float | str | None, interval: str, force_interval: bool,
    bounds: tuple[float, float] | None, horizon: int | None, initial: Rollouts | None, deterministic: bool,
    progress: Callable[[Progress], None] | None, keep: Callable[[Recorder], None] | None = None,
) -> Evaluation:  # fmt: skip
    """`evaluate` of an environment. `keep` is handed the collector, for those who want its data too."""
    if policy is None:
        raise SpecError("an environment needs a policy")
    if episodes is not None and steps is not None:
        raise SpecError("give either episodes or steps, not both")
    if not 0.0 < confidence < 1.0:
        raise SpecError(f"confidence must lie between 0 and 1, not {confidence}")
    target = None if half_width is None else Target.parse(half_width)
    if target is not None and steps is not None:
        raise SpecError("half-width counts episodes; give episodes as the most to collect, not steps")
    if episodes is None and steps is None:
        episodes = 100 if target is None else MOST_EPISODES
    for what, n in (("episodes", episodes), ("steps", steps)):
        if n is not None and not 1 <= n <= MOST:
            raise SpecError(f"{what} must be from 1 to {MOST:,}, not {n}")
    get_estimator(estimator)
    ours = isinstance(env, str)
    if ours:
        env = make_environment(env)
    lanes = as_lanes(env)
    observation_space, action_space = spaces_of(env)
    collector = Recorder(
        policy,
        sampler,
        gamma=1.0 if gamma is None else gamma,
        seed=seed,
        observation_space=observation_space,
        action_space=action_space,
        lanes=None if lanes is None else lanes.n,
        horizon=horizon,
        initial=initial,
        deterministic=deterministic,
    )
    name = environment_name(env)
    if keep is not None:
        keep(collector)

    def result(known: tuple[float, Interval | NoInterval] | None = None) -> Evaluation:
        return summarise(
            collector, estimator=estimator, confidence=confidence, interval=interval, force_interval=force_interval,
            bounds=bounds, name=name, known=known,
        )  # fmt: skip

    total = episodes or steps or 0
    started = shown = looked = time.perf_counter()
    cost, found = 0.2, None  # looking takes a tenth of the time at most

    def more(most: int | None) -> Rollouts:
        """Collect until there are so many episodes, or `steps` steps."""
        nonlocal shown, looked, cost, found
        goal = most if most is None or lanes is None else most - collector.episodes
        for done in collect(collector, env, episodes=goal, steps=steps):
            now = time.perf_counter()
            if progress is None or now - shown < SHOW_EVERY:
                continue
            if now - looked > 10 * cost and collector.episodes >= 3:
                found = result()
                looked = time.perf_counter()
                cost = looked - now
            shown = time.perf_counter()
            progress(Progress(done if episodes else collector.steps, total, collector.steps, shown - started, found))
        return collector.rollouts()

    try:
        known = None
        if target is None:
            more(episodes)
        else:
            assert episodes is not None
            engine, drawn, how = collector.model.engine, collector.sampler, get_estimator(estimator)

            def seen(data: Rollouts, level: float) -> tuple[float, Interval | NoInterval]:
                return look(data, engine, drawn, how, level, interval, force_interval, bounds)

            _, value, at_last = look_until(more, seen, target, confidence, episodes)
            known = value, at_last
        if "observations" in collector.columns.arrays:
            collector.model.check(collector.columns["observations"])
        return result(known)
    finally:
        collector.close()
        if ours:
            env.close()
