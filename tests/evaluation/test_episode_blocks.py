"""Blocks: which there are depends on the number of episodes alone, and what one brings depends on nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from evenroll.domains.catalogue import get_domain
from evenroll.evaluation.episode_blocks import MOST_BLOCKS, SHARE, Block, Task, collect_block, round_after
from evenroll.evaluation.recipes import Recipe, close_all, policy_to_send
from evenroll.samplers import OnPolicy
from tests.evaluation.worker_environments import ID


@pytest.mark.parametrize("balanced", [True, False])
def test_rounds_follow_each_other_and_grow(balanced: bool) -> None:
    episodes, sizes = 0, []
    while episodes < 5000:
        blocks = round_after(episodes, balanced)
        assert [b.first for b in blocks] == [episodes + i * blocks[0].count for i in range(len(blocks))]
        assert len(blocks) <= MOST_BLOCKS
        sizes.append(sum(b.count for b in blocks))
        if balanced and sizes[-1] > 2:
            assert sizes[-1] <= SHARE * episodes
        episodes = blocks[-1].end
    assert sizes == sorted(sizes)
    assert sizes[0] == (2 if balanced else MOST_BLOCKS)


def test_a_block_depends_on_its_numbers_alone() -> None:
    """The same episodes, alone or as a part of a longer block, in an environment that is new or was used before."""
    recipe = Recipe(ID, policy_to_send(get_domain("cartpole").policy()), OnPolicy(), 0.99, 5, None, False, place=(5,))
    made = recipe.make()
    made.env.close()
    long = collect_block(Task(recipe, made.key, Block(4, 6, False), None))
    close_all(made.key)
    short = collect_block(Task(recipe, made.key, Block(7, 2, False), None))
    close_all(made.key)
    np.testing.assert_array_equal(long.columns["returns"][3:5], short.columns["returns"])
    first, last = long.columns["ends"][2], long.columns["ends"][4]
    for name in ("observations", "actions", "log_e", "log_b"):
        np.testing.assert_array_equal(long.columns[name][first:last], short.columns[name])
    np.testing.assert_array_equal(long.columns["last"][3:5], short.columns["last"])
    assert len(np.unique(long.columns["returns"])) > 1
