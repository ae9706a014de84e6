"""Fig 5: the bandit's arms, the grid with its rewards, the pole, and what the evaluated policies do there.

The pictures are black, white and grey, because on the page a colour says how data was collected (`palette`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from evenroll.domains import bandit, gridworld
from evenroll.domains.catalogue import get_domain
from evenroll.policies import TabularSoftmax

SMALL, LARGE = 8.5, 10.0  # points, of text
SHADES = {10.0: "0.75", 1.0: "0.88", -10.0: "0.6"}  # of GridWorld's cells, by the reward of entering them


def domains_figure() -> Any:
    """All domains in one figure."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=(1.5, 1, 1))
    for axis, draw in zip(axes, PICTURES.values(), strict=True):
        draw(axis)
    return figure


def domain_pngs() -> dict[str, bytes]:
    """Each domain's picture as a PNG with no background, small enough that its text can be read on a phone."""
    plt = pyplot()
    pngs = {}
    for name, draw in PICTURES.items():
        figure, axis = plt.subplots(figsize=(3.6, 3.2), layout="constrained")
        draw(axis)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=200, transparent=True, metadata={"Software": None})
        plt.close(figure)
        pngs[name] = data.getvalue()
    return pngs


def _draw_bandit(axis: Any) -> None:
    means, scales = bandit.draw_arms(np.random.RandomState(0))
    policy = get_domain("bandit").policy()
    assert isinstance(policy, TabularSoftmax)
    arms = np.arange(len(means))
    axis.bar(arms, 2 * scales, bottom=means - scales, color="0.8", width=0.8, label="reward, mean ± scale")
    axis.plot(arms, means, "k_", ms=5)
    axis.bar(arms, policy.table[0], color="0.2", width=0.4, label="π(arm)")
    axis.set_title("Bandit: 30 arms", fontsize=LARGE)
    axis.set_xlabel("arm", fontsize=SMALL)
    axis.legend(frameon=False, fontsize=SMALL, loc="upper right")
    axis.set_ylim(-0.9, 2.6)
    axis.tick_params(labelsize=SMALL)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_grid(axis: Any) -> None:
    cells, rewards = gridworld.tables()
    policy = get_domain("gridworld").policy()
    assert isinstance(policy, TabularSoftmax)
    entered = {int(c): float(r) for s in range(16) for c, r in zip(cells[s], rewards[s], strict=True) if int(c) != s}
    for s in range(16):
        x, y = s % 4, s // 4
        reward = entered.get(s)
        shade = SHADES.get(reward if reward is not None else 0.0, "none")
        axis.add_patch(pyplot().Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=shade, edgecolor="0.5"))
        text = "start" if s == 0 else f"{reward:+g}" if reward is not None else ""
        axis.text(x - 0.44, y + 0.44, text, fontsize=SMALL, color="0.15", va="top")
        if s == gridworld.GOAL:
            continue
        for action in range(4):  # each action is a ray whose length is its probability
            there, size = int(cells[s, action]), 0.5 * float(policy.table[s, action])
            axis.plot([x, x + (there % 4 - x) * size], [y, y + (there // 4 - y) * size], color="0.1", lw=3)
    axis.set(xlim=(-0.55, 3.55), ylim=(-0.55, 3.55), aspect="equal")
    axis.set_title("GridWorld: reward of the cell entered;\nrays: π, as long as likely", fontsize=LARGE)
    axis.axis("off")


def _draw_pole(axis: Any) -> None:
    plt = pyplot()
    axis.plot([-2.4, 2.4], [0, 0], color="0.5", lw=1)
    axis.add_patch(plt.Rectangle((-0.35, 0), 0.7, 0.35, color="0.3"))
    axis.plot([0, 0.28], [0.35, 1.85], color="0.6", lw=5, solid_capstyle="round")
    axis.annotate("", (-1.3, 0.18), (-0.4, 0.18), arrowprops={"arrowstyle": "->", "color": "0.1"})
    axis.annotate("", (1.3, 0.18), (0.4, 0.18), arrowprops={"arrowstyle": "->", "color": "0.1"})
    axis.text(0, -0.3, "CartPole: push left or right (10 N)", ha="center", fontsize=SMALL)
    axis.text(0, -0.65, "CartPoleContinuous: force 30·a, a ~ Gaussian", ha="center", fontsize=SMALL)
    axis.set(xlim=(-2.5, 2.5), ylim=(-0.8, 2.2), aspect="equal")
    axis.set_title("CartPole: +1 per step until it falls;\n200 steps at most", fontsize=LARGE)
    axis.axis("off")


PICTURES: dict[str, Callable[[Any], None]] = {"Bandit": _draw_bandit, "GridWorld": _draw_grid, "CartPole": _draw_pole}


def pyplot() -> Any:
    """Matplotlib, which is loaded only when a picture is made, and which needs no screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
