"""`auto` against plain ROS with the step size that is best in hindsight, and against on-policy sampling's theory.

    python -m tools.against_ros bandit --trials 2000
    python -m tools.against_ros gridworld --trials 400
    python -m tools.against_ros cartpole --trials 100 --alpha 1 10 100 1000
    python -m tools.against_ros gridworld --epsilon 0.9 1 --alpha --seed 5          # ε-greedy policies, without ROS

At every checkpoint from 2³ mean episodes on, ROS has the α whose mean squared error (MSE) is the smallest there. The ratio
is the geometric mean over the checkpoints of the MSE of `auto` to that one. Its interval comes from drawing the trials
again, those of `auto` and of ROS apart, with α chosen anew. The smallest of several noisy numbers is too good, so the ratio
is rather too high. The MSE relative to theory is divided by Var/(n v²), n being the checkpoint in mean episodes, and the
bias is that of the last checkpoint in root MSEs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import evenroll
from evenroll.domains.catalogue import get_domain
from evenroll.domains.domain import Domain
from evenroll.policies import TabularSoftmax, epsilon_greedy
from evenroll.study.true_value import truth

ALPHAS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
FROM, DRAWS = 8.0, 1000  # the first checkpoint, in mean episodes; how often trials are drawn again


def policies(domain: Domain, epsilons: Sequence[float]) -> dict[str, evenroll.Policy]:
    """The shipped policy, or ε-greedy ones that favour its likeliest actions, as in the paper's sensitivity study."""
    shipped = domain.policy()
    if not epsilons:
        return {"": shipped}
    if not isinstance(shipped, TabularSoftmax):
        raise SystemExit(f"ε-greedy policies are for tables, and {domain} has a network")
    best = shipped.table.argmax(axis=1) if domain.greedy is None else domain.greedy(domain.environment(None))
    return {f", ε = {e:g}": epsilon_greedy(best, shipped.table.shape[1], e) for e in epsilons}


def ratio(auto: np.ndarray, others: Sequence[np.ndarray]) -> float:
    """Squared errors [trials, checkpoints] of `auto` and of ROS with each α; the geometric mean of the ratio of the MSEs."""
    best = np.min([other.mean(axis=0) for other in others], axis=0)
    return float(np.exp(np.log(auto.mean(axis=0) / best).mean()))


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain")
    parser.add_argument("--alpha", type=float, nargs="*", default=list(ALPHAS))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--budget", type=float, default=8192, help="in mean episodes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(words)
    domain = get_domain(given.domain)
    methods = ["auto/mc", *(f"ros:alpha={alpha:g}/mc" for alpha in given.alpha)]
    for name, policy in policies(domain, given.epsilon).items():
        known = truth(domain, policy)
        study = evenroll.compare(
            domain, methods, policy=policy, trials=given.trials, budget=given.budget, seed=given.seed, workers=given.workers
        )
        sizes = np.asarray(study.checkpoints) / known.mean_length
        used = sizes > 0.9 * FROM  # checkpoints are whole steps
        squared = [curve.squared[:, used] for curve in study.curves]
        print(f"{domain}{name}, {given.trials} trials, seed {given.seed}:")
        scale = sizes[used] * known.value**2 / known.variance
        auto = study.curves[0]
        cells = (f"{n:.0f}: {x:.3g} ± {e:.2g}" for n, x, e in
                 zip(sizes[used], squared[0].mean(axis=0) * scale, auto.mse_se[used] * scale, strict=True))  # fmt: skip
        print(f"  auto, MSE over theory at n episodes: {', '.join(cells)}; bias {auto.bias[-1] / auto.mse[-1] ** 0.5:+.2f}")
        if not given.alpha:
            continue
        best = np.argmin([other.mean(axis=0) for other in squared[1:]], axis=0)
        print("  the best α there:", ", ".join(f"{given.alpha[i]:g}" for i in best))
        for alpha, curve in zip(given.alpha, study.curves[1:], strict=True):
            ends = curve.mse[-1] * scale[-1]
            print(f"  α = {alpha:g}: MSE over theory at the end {ends:.3g}, runs away in {curve.runaway} trials")
        rng, again = np.random.default_rng(0), []
        for _ in range(DRAWS):
            draws = rng.integers(given.trials, size=(2, given.trials))
            again.append(ratio(squared[0][draws[0]], [other[draws[1]] for other in squared[1:]]))
        low, high = np.quantile(again, [0.025, 0.975])
        print(f"  auto over ROS with the best α: {ratio(squared[0], squared[1:]):.3f} [{low:.3f}, {high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
