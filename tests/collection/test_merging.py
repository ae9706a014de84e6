"""Blocks from one snapshot: a round of one is no different from going on alone, and what several have learnt is added up."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.collection.balance import Balance
from evenroll.collection.merging import added, count, merge, snapshot, sums_of, take_over
from evenroll.collection.rollouts import Rollouts
from evenroll.collection.trial import Driver
from evenroll.domains.catalogue import get_domain
from evenroll.errors import SpecError
from evenroll.samplers import Auto
from evenroll.samplers.auto_state import Memory
from evenroll.samplers.table import SAMPLERS, get_sampler
from tests.helpers import trial_driver

ADDITIVE = ("os", "ros:alpha=0.5", "auto")
DOMAINS = ("gridworld", "cartpole", "cartpole-continuous")


def begun(domain: str, sampler: str, episodes: int) -> tuple[Driver, Rollouts]:
    driver = trial_driver(domain, sampler)
    return driver, driver.run(get_domain(domain).trial_environment((0,)), episodes=episodes)


def block(domain: str, sampler: str, start: Driver, blocks: int, number: int, episodes: int) -> tuple[dict, Rollouts]:
    """What a block adds to the balance of `start`, and its data. Its random numbers are those of its number."""
    state = snapshot(start.balance, blocks, 20.0 * blocks)
    driver = trial_driver(domain, sampler, (0, number))
    take_over(driver.balance, state)
    data = driver.run(get_domain(domain).trial_environment((0,)), episodes=episodes)
    return added(driver.balance, state, blocks == 1), data


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("sampler", ADDITIVE)
def test_a_round_of_one_block_is_no_different_from_going_on(domain: str, sampler: str) -> None:
    """Bit for bit: the same actions, and the same memory after them."""
    env = get_domain(domain).trial_environment((0,))
    one, other = begun(domain, sampler, 12)[0], begun(domain, sampler, 12)[0]
    elsewhere = trial_driver(domain, sampler)
    state = snapshot(other.balance)
    take_over(elsewhere.balance, state)
    elsewhere.balance.stream[...], elsewhere._env_stream[...] = other.balance.stream, other._env_stream
    apart, together = elsewhere.run(env, episodes=9), one.run(env, episodes=21)
    np.testing.assert_array_equal(apart.returns, together.returns[-9:])
    merge(other.balance, [added(elsewhere.balance, state, whole=True)])
    np.testing.assert_array_equal(one.balance.vectors, other.balance.vectors)
    np.testing.assert_array_equal(one.balance.memory, other.balance.memory)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("sampler", ADDITIVE[1:])
def test_what_blocks_have_learnt_is_added_up(domain: str, sampler: str) -> None:
    """The sums are those of a balance that has learnt all the data in a row, whatever share each block was told of."""
    start, before = begun(domain, sampler, 5)
    parts = [block(domain, sampler, start, 3, number, 4) for number in (1, 2, 3)]
    merge(start.balance, [gained for gained, _ in parts])
    whole = before
    for _, data in parts:
        whole = data.after(whole)
    policy = start.policy
    learnt = Balance(policy, start.sampler, (0,), gamma=float(start.balance.tally.gamma), initial=whole)
    sums = sums_of(start.sampler, policy)
    for mine, theirs in (
        (start.balance.vectors[sums.vectors], learnt.vectors[sums.vectors]),
        (start.balance.memory[sums.memory], learnt.memory[sums.memory]),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(theirs).max(initial=0.0))))


def test_what_follows_from_the_sums_is_computed_anew() -> None:
    """β = P S after merging, with a P that is computed anew when there are a third more steps."""
    start, _ = begun("cartpole", "auto", 5)
    before = Memory(start.balance.memory).next_fit
    merge(start.balance, [block("cartpole", "auto", start, 4, number, 3)[0] for number in range(1, 5)])
    memory, width = Memory(start.balance.memory), start.policy.feature_width
    assert memory.k >= before
    assert memory.next_fit == np.ceil(memory.k * 4.0 / 3.0)
    D, n = width + 8 - width % 8, int(start.policy.sizes.outputs)
    vectors = start.balance.vectors.astype(np.float64)
    S, beta = vectors[2 * D : 2 * D + D], vectors[2 * D + n * D : 2 * D + n * D + D]
    P = vectors[2 * D + 2 * n * D :][: D * D].reshape(D, D)
    np.testing.assert_allclose(beta, P @ S, rtol=1e-3, atol=1e-3 * np.abs(beta).max())
    K = start.balance.memory[Memory.count + 2 * n :][: width * width].reshape(width, width) / memory.k
    inverse = P[:width, :width] @ (K + np.eye(width) * np.trace(K) / (memory.k * width))
    np.testing.assert_allclose(inverse, np.eye(width), atol=0.05)


def test_blocks_do_not_repay_more_than_is_owed() -> None:
    start, _ = begun("cartpole", "auto", 20)
    settings, memory = start.balance.settings, start.balance.memory
    shares = [Auto().told(start.policy, settings, memory, 8, steps) for steps in (1.0, 100.0, 1e4, 1e7)]
    assert shares[0] == 1.0
    assert shares[-1] == 1 / 8
    assert sorted(shares, reverse=True) == shares
    table, _ = begun("gridworld", "auto", 20)
    assert Auto().told(table.policy, table.balance.settings, table.balance.memory, 4, 1.0) == 1 / 4
    told, whole = snapshot(table.balance, 4, 1.0)["memory"], table.balance.memory
    owed = sums_of(Auto(), table.policy).owed_memory
    np.testing.assert_allclose(told[owed], whole[owed] / 4)
    others = np.setdiff1d(np.arange(len(whole)), owed)
    np.testing.assert_array_equal(told[others], whole[others])


def test_counts_are_those_of_the_blocks() -> None:
    start, _ = begun("cartpole", "auto", 5)
    parts = [block("cartpole", "auto", start, 2, number, 4) for number in (1, 2)]
    count(start.balance, [gained for gained, _ in parts])
    assert start.balance.clock.steps == sum(data.steps for _, data in parts)
    assert start.balance.clock.episodes == 8
    ratios = np.concatenate([data.column("log_b") - data.column("log_e") for _, data in parts])
    assert start.balance.divergence.kl == pytest.approx(ratios.mean())
    assert start.balance.divergence.largest == np.abs(ratios).max()


def test_samplers_that_cannot_be_added_up_are_refused() -> None:
    policy = get_domain("gridworld").policy()
    for name in set(SAMPLERS) - {"os", "ros", "auto"}:
        sampler = get_sampler(name, get_domain("gridworld").paper)
        with pytest.raises(SpecError, match=r"cannot be added up.*use auto, ros:alpha=… or os"):
            sums_of(sampler, policy)
