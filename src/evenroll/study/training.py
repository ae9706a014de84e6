"""Evaluation policies by REINFORCE: batches of 16 episodes, Adam, a snapshot long before convergence.

The gradient is (1/16) Σ_i Σ_t (Â_t) ∇log π(a_t|s_t). Â_t is the discounted return-to-go minus the batch's mean at the same
t, divided by the standard deviation. Input batch norm uses running statistics of the states seen (momentum 0.1), which
count as constants in the gradient. With `auto` the actions of a batch are balanced; every step counts alike in the gradient,
so the balance does not discount.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.domain import Domain, Recipe
from evenroll.policies import MLP, Policy, TabularSoftmax
from evenroll.samplers import OnPolicy
from evenroll.samplers.table import SamplerLike, get_sampler

BATCH = 16  # episodes per gradient step
HIDDEN = (64, 64)  # units of the policy's hidden layers
MOMENTUM = 0.1  # of the running statistics of the batch norm
# Defaults for a domain without a recipe. The policies of the built-in domains with tables, and with networks, were made so.
TABLE_RECIPE, NETWORK_RECIPE = Recipe(episodes=5000, learning_rate=1e-2), Recipe(episodes=1000, learning_rate=3e-4)


def recipe_of(domain: Domain) -> Recipe:
    """The domain's own recipe, or the default for a table or for a network."""
    if domain.recipe is not None:
        return domain.recipe
    return NETWORK_RECIPE if domain.environment(None).n_states is None else TABLE_RECIPE


def initial_policy(domain: Domain, rng: np.random.Generator) -> Policy:
    """A uniform table, or a network drawn as torch's linear layers are."""
    env = domain.environment(None)
    if env.n_states is not None:
        return TabularSoftmax(np.zeros((env.n_states, env.n_actions or 0)))
    sizes = (env.obs_dim, *HIDDEN)

    def linear(inputs: int, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        bound = 1.0 / np.sqrt(inputs)
        return rng.uniform(-bound, bound, (outputs, inputs)), rng.uniform(-bound, bound, outputs)

    layers = [linear(i, o) for i, o in itertools.pairwise(sizes)]
    rows = env.n_actions if env.n_actions is not None else 2 * env.action_dim
    weight, bias = linear(sizes[-1], rows)
    norm = (np.zeros(env.obs_dim), np.ones(env.obs_dim), np.ones(env.obs_dim), np.zeros(env.obs_dim))
    head = "softmax" if env.n_actions is not None else "gaussian"
    return MLP(layers, weight, bias, head=head, norm=norm)


def reinforce(
    domain: Domain,
    *,
    episodes: int | None = None,
    learning_rate: float | None = None,
    seed: int = 0,
    sampler: SamplerLike = "os",
    progress: Callable[[int, float, float], None] | None = None,
) -> Policy:
    """Train a policy and return the snapshot. `progress(episodes, mean return, mean length)` is called after each batch.

    If `episodes` or `learning_rate` is not given, it is that of `recipe_of(domain)`. Each batch has a balance of its own.
    """
    recipe, chosen = recipe_of(domain), get_sampler(sampler, domain.paper)
    gamma = domain.gamma if isinstance(chosen, OnPolicy) else 1.0
    episodes = recipe.episodes if episodes is None else episodes
    learning_rate = recipe.learning_rate if learning_rate is None else learning_rate
    rng = np.random.default_rng([seed, 7])
    policy = initial_policy(domain, rng)
    theta = policy.theta.astype(np.float64)
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    env = domain.trial_environment((seed, 7))
    for batch in range(1, max(1, episodes // BATCH) + 1):
        driver = Driver(policy, chosen, (seed, 7, batch), gamma=gamma, horizon=domain.horizon, record_steps=True)
        data = driver.run(env, episodes=BATCH)
        gradient = (
            policy.score_sum(data.column("observations"), data.column("actions"), _advantages(data, domain.gamma)) / BATCH
        )
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient.astype(np.float64) ** 2
        theta = theta + learning_rate * (first / (1 - 0.9**batch)) / (np.sqrt(second / (1 - 0.999**batch)) + 1e-8)
        if isinstance(policy, MLP):
            assert policy.norm is not None
            states = data.column("observations")
            weight = max(MOMENTUM, 1.0 / batch)
            mean = (1 - weight) * policy.norm[0] + weight * states.mean(axis=0)
            var = (1 - weight) * policy.norm[1] + weight * states.var(axis=0)
            policy = policy.with_theta(theta, (mean, var))
        else:
            policy = TabularSoftmax(theta.reshape(policy.n_states or 0, -1))
        if progress is not None:
            progress(batch * BATCH, float(data.returns.mean()), float(data.lengths.mean()))
    return policy


def _advantages(data: Rollouts, gamma: float) -> np.ndarray:
    """Standardised returns-to-go, compared at equal time within the batch."""
    rewards, ends = data.column("rewards"), data.ends
    horizon = int(data.lengths.max())
    to_go = np.full((len(ends), horizon), np.nan)
    start = 0
    for i, end in enumerate(ends):
        g = 0.0
        for t in range(end - 1, start - 1, -1):
            g = rewards[t] + gamma * g
            to_go[i, t - start] = g
        start = int(end)
    # A trajectory that has ended is worth 0 from then on, so that each is compared with all of the batch.
    filled = np.nan_to_num(to_go, nan=0.0)
    centred = filled - filled.mean(axis=0)
    scale = centred.std() + 1e-8
    return np.asarray(centred[~np.isnan(to_go)] / scale)
