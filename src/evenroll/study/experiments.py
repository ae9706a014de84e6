"""The paper's experiments as values. To add a method or a domain to every figure, add it to METHODS or DOMAINS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from evenroll.domains.catalogue import get_domain
from evenroll.estimators.table import get_estimator
from evenroll.study.blocks import SAMPLING_ERRORS, Work
from evenroll.study.method import MethodSpec
from evenroll.study.targets import Line, Panel, PaperTarget, Sweep, label
from evenroll.study.trials import GRADIENT, KL

DOMAINS = {
    "bandit": "Bandit",
    "gridworld": "GridWorld",
    "cartpole": "CartPole",
    "cartpole-continuous": "CartPoleContinuous",
}
REDRAWN = "bandit:redraw=1"  # another bandit in every trial; table 3's column could have come from it
PAPER = ("os/mc", "bpg/ois", "ros/mc")  # their hyper-parameters are those of tables 1 and 2
METHODS = (*PAPER, "auto/mc")  # the paper's methods where the paper has them; the others in every figure
INITIAL_ON_POLICY = ("init+os/mc", "init+os/wis+mc")  # what else the paper compares with where there is initial data
ALPHAS = {"gridworld": (1.0, 10.0, 100.0, 1000.0, 10000.0), "cartpole": (1.0, 10.0, 100.0, 1000.0)}  # fig 4a, b
SWEEP_ALPHA = 1000.0  # fig 4c, d and 12
BANDIT_FACTORS = tuple(2.0**i for i in range(-3, 7))  # fig 4c
BANDIT_EPSILONS = (0.01, *(i / 10 for i in range(1, 10)))  # fig 4d
GRID_FACTORS = tuple(float(i) for i in range(1, 11))  # fig 12a; the mean-factor variants carry noise f = 1
GRID_EPSILONS = tuple(i / 10 for i in range(11))  # fig 12b
FQE = ("fqe-net-small", "fqe")  # fig 14: a small network, and our fit, exact on tables and linear in features elsewhere
FQE_AUTHORS = ("gridworld",)  # domains with the authors' network; a fit takes 16 s there, 70 s to 5 minutes on the cartpoles


@dataclass(frozen=True)
class Scale:
    """How many trials and steps everything gets. The defaults are the paper's, except for fig 14 and the bandit's trials.

    bandit_trials  The trials of estimates on the bandit. ROS can gain no more than 18 % there, which 200 trials do not
                   show; an episode is one step, so more of them are cheap.
    fqe_trials     The trials of fig 14's small network. A fit takes half a core-second (`costs.NETWORK_FIT`), so these many
                   of four samplers on four domains at two checkpoints take about ten core-minutes.
    """

    trials: int = 200
    bandit_trials: int = 5000
    budget: float = 8192.0
    sweep_trials: int = 500
    sweep_budget: float = 1000.0
    fqe_trials: int = 40
    fqe_budgets: tuple[float, ...] = (16.0, 128.0)
    fqe_authors: int = 4  # trials with the authors' network, at one checkpoint
    seed: int = 0

    def estimate_trials(self, domain: str) -> int:
        return self.bandit_trials if domain == "bandit" else self.trials

    @property
    def budgets(self) -> tuple[float, ...]:
        powers = tuple(2.0**i for i in range(math.floor(math.log2(self.budget)) + 1))
        return powers if powers[-1] == self.budget else (*powers, self.budget)

    def limited(self, trials: int | None, budget: float | None) -> Scale:
        """The same scale with other numbers of trials and other budgets where the user says so."""
        scale = self
        if trials is not None:
            scale = replace(scale, trials=trials, sweep_trials=trials, fqe_trials=min(trials, self.fqe_trials))
            scale = replace(scale, fqe_authors=min(trials, self.fqe_authors), bandit_trials=trials)
        if budget is not None:
            fqe = tuple(b for b in self.fqe_budgets if b <= budget) or (budget,)
            scale = replace(scale, budget=budget, sweep_budget=min(budget, self.sweep_budget), fqe_budgets=fqe)
        return scale


FULL = Scale()
QUICK = Scale(trials=20, bandit_trials=500, budget=256.0, sweep_trials=100, fqe_trials=5, fqe_budgets=(32.0,), fqe_authors=0)


@dataclass(frozen=True)
class Roster:
    """The domains and methods that take part."""

    domains: tuple[str, ...] = tuple(DOMAINS)
    methods: tuple[str, ...] = METHODS

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(m for m in self.methods if m not in PAPER)

    @property
    def with_initial(self) -> tuple[str, ...]:
        """OS-MC without initial data, and every method with it."""
        first, *others = self.methods
        return (first, *INITIAL_ON_POLICY, *(str(replace(MethodSpec.parse(m), initial=True)) for m in others))

    @property
    def collectors(self) -> tuple[str, ...]:
        """The samplers of the methods, each once."""
        return tuple(dict.fromkeys(MethodSpec.parse(m).collect for m in self.methods))


# ---- the targets ---------------------------------------------------------------------------------------------


def estimate_work(domain: str, method: str, scale: Scale) -> Work:
    """The work that figures 2, 3, 4a, 4b, 10, 11 and tables 3, 4 share."""
    spec = MethodSpec.parse(method)
    return Work(domain, spec.collect, (spec.estimator,), scale.budgets, seed=scale.seed)


def fit_work(domain: str, collect: str, scale: Scale) -> Work:
    """The work that figures 1, 6 – 9 and 13 share: one fit of π̂ gives KL and WRIS."""
    measures = SAMPLING_ERRORS if MethodSpec.parse(collect).initial else ("wris", *SAMPLING_ERRORS)
    return Work(domain, collect, measures, scale.budgets, seed=scale.seed)


def title_of(domain: str) -> str:
    return {**DOMAINS, REDRAWN: "Bandit, redrawn"}.get(domain, domain)


def estimates(quantity: str, methods: tuple[str, ...], domains: tuple[str, ...], scale: Scale) -> tuple[Panel, ...]:
    def line(domain: str, method: str) -> Line:
        work = estimate_work(domain, method, scale)
        return Line(method, work, get_estimator(work.measures[0]).name, scale.estimate_trials(domain))

    return tuple(Panel(title_of(d), d, quantity, tuple(line(d, m) for m in methods)) for d in domains)


def errors(column: str, collectors: tuple[str, ...], domains: tuple[str, ...], scale: Scale) -> tuple[Panel, ...]:
    def line(domain: str, collect: str) -> Line:
        return Line(collect, fit_work(domain, collect, scale), column, scale.trials)

    return tuple(Panel(title_of(d), d, column, tuple(line(d, c) for c in collectors)) for d in domains)


def alphas(domain: str, roster: Roster, scale: Scale) -> Panel:
    """The panel of ROS with several step sizes. The step size of table 1 is the same work as in fig 2."""
    usual = get_domain(domain).paper["ros"]["alpha"]
    steps = tuple("ros/mc" if a == usual else f"ros:alpha={a:g}/mc" for a in ALPHAS[domain])
    panel = estimates("mse", ("os/mc", *steps, *roster.others), (domain,), scale)[0]
    named = [replace(x, method=f"ros:alpha={usual:g}/mc") if x.method == "ros/mc" else x for x in panel.lines]
    return replace(panel, title=f"Step size α, {title_of(domain)}", lines=tuple(named))


def sweeps(
    name: str, x: tuple[float, ...], where: Callable[[float], tuple[str, float | None]], roster: Roster, scale: Scale
) -> tuple[Sweep, ...]:
    """One sweep over the settings for ROS, then one for each method that is not the paper's."""
    settings = [where(value) for value in x]

    def works(method: str) -> tuple[Work, ...]:
        spec, budgets = MethodSpec.parse(method), (scale.sweep_budget,)
        return tuple(Work(d, spec.collect, (spec.estimator,), budgets, epsilon=e, seed=scale.seed) for d, e in settings)

    def one(method: str, spec: str) -> Sweep:
        return Sweep(f"{label(method)}, {name}", method, x, works(spec), works("os/mc"), scale.sweep_trials)

    return one("ros/mc", f"ros:alpha={SWEEP_ALPHA:g}/mc"), *(one(m, m) for m in roster.others)


def sensitivity(domain: str, factors: tuple[Sweep, ...], epsilons: tuple[Sweep, ...], log_x: bool) -> tuple[Panel, Panel]:
    return (
        Panel(f"Environment noise, {title_of(domain)}", domain, "ratio", sweeps=factors, x_label="factor", log_x=log_x),
        Panel(f"Policy noise, {title_of(domain)}", domain, "ratio", sweeps=epsilons, x_label="ε", log_x=False),
    )


def bandit_sensitivity(roster: Roster, scale: Scale) -> tuple[Panel, Panel]:
    def by(name: str, key: str) -> tuple[Sweep, ...]:
        return sweeps(name, BANDIT_FACTORS, lambda f: (f"bandit:{key}={f:g}", None), roster, scale)

    epsilons = sweeps("ε-greedy", BANDIT_EPSILONS, lambda e: ("bandit", e), roster, scale)
    return sensitivity("bandit", (*by("mean factor", "mean_factor"), *by("scale factor", "scale_factor")), epsilons, True)


def grid_sensitivity(roster: Roster, scale: Scale) -> tuple[Panel, Panel]:
    mean = sweeps("mean factor", GRID_FACTORS, lambda f: (f"gridworld:mean_factor={f:g},noise=1", None), roster, scale)
    noise = sweeps("noise ± f", GRID_FACTORS, lambda f: (f"gridworld:noise={f:g}", None), roster, scale)
    epsilons = sweeps("ε-greedy", GRID_EPSILONS, lambda e: ("gridworld", e), roster, scale)
    return sensitivity("gridworld", (*mean, *noise), epsilons, False)


def wris(roster: Roster, scale: Scale) -> tuple[Panel, ...]:
    panels = estimates("mse", roster.methods, roster.domains, scale)
    more = [
        tuple(Line(f"{c}/wris", fit_work(panel.domain, c, scale), "wris", scale.trials) for c in roster.collectors)
        for panel in panels
    ]
    return tuple(replace(panel, lines=panel.lines + lines) for panel, lines in zip(panels, more, strict=True))


def fqe(roster: Roster, scale: Scale) -> tuple[Panel, ...]:
    trials = dict(zip(FQE, (scale.fqe_trials, scale.trials), strict=True))

    def lines(domain: str) -> tuple[Line, ...]:
        usual = tuple(
            Line(f"{c}/{e}", Work(domain, c, (e,), scale.fqe_budgets, seed=scale.seed), e, trials[e])
            for e in FQE
            for c in roster.collectors
        )
        if domain not in FQE_AUTHORS or scale.fqe_authors < 2:
            return usual
        large = Work(domain, "os", ("fqe-net",), (min(128.0, scale.fqe_budgets[-1]),), seed=scale.seed)
        return (*usual, Line("os/fqe-net", large, "fqe-net", scale.fqe_authors))

    return tuple(Panel(title_of(d), d, "mse", lines(d)) for d in roster.domains)


def targets(scale: Scale = FULL, roster: Roster | None = None) -> dict[str, PaperTarget]:
    """Everything there is to reproduce, by name, in the paper's order."""
    roster = roster or Roster()
    grid = tuple(d for d in roster.domains if d == "gridworld")
    initial = [spec for spec in map(MethodSpec.parse, roster.with_initial) if spec.initial]
    started = tuple(dict.fromkeys(spec.collect for spec in initial))
    without, with_ = (roster.collectors, started)
    both = tuple(
        replace(p, title=f"{t} initial data")
        for t, c in (("Without", without), ("With", with_))
        for p in errors(KL, c, grid, scale)
    )
    redrawn = (REDRAWN,) if "bandit" in roster.domains else ()
    every_target = (
        PaperTarget("fig1", "Sampling error (KL), GridWorld, without and with initial data", both),
        PaperTarget("fig2", "MSE without initial data", estimates("mse", roster.methods, roster.domains, scale)),
        PaperTarget("fig3", "MSE with initial data", estimates("mse", roster.with_initial, roster.domains, scale)),
        PaperTarget(
            "fig4",
            "Sensitivity: step size, environment noise, policy noise",
            (alphas("gridworld", roster, scale), alphas("cartpole", roster, scale), *bandit_sensitivity(roster, scale)),
        ),
        PaperTarget("fig5", "The domains, and the policies that are evaluated"),
        PaperTarget("fig6", "Sampling error (KL) without initial data", errors(KL, without, roster.domains, scale)),
        PaperTarget("fig7", "Sampling error (KL) with initial data", errors(KL, with_, roster.domains, scale)),
        PaperTarget("fig8", "Gradient norm without initial data", errors(GRADIENT, without, roster.domains, scale)),
        PaperTarget("fig9", "Gradient norm with initial data", errors(GRADIENT, with_, roster.domains, scale)),
        PaperTarget(
            "fig10", "Median and quartiles without initial data", estimates("median", roster.methods, roster.domains, scale)
        ),
        PaperTarget(
            "fig11",
            "Median and quartiles with initial data",
            estimates("median", roster.with_initial, roster.domains, scale),
        ),
        PaperTarget("fig12", "Sensitivity on GridWorld: reward noise, policy noise", grid_sensitivity(roster, scale)),
        PaperTarget("fig13", "MSE with weighted regression importance sampling", wris(roster, scale)),
        PaperTarget("fig14", "MSE with fitted Q-evaluation (fewer trials, small networks)", fqe(roster, scale)),
        PaperTarget(
            "table3",
            "Final MSE without initial data",
            estimates("mse", roster.methods, (*roster.domains, *redrawn), scale),
        ),
        PaperTarget("table4", "Final MSE with initial data", estimates("mse", roster.with_initial, roster.domains, scale)),
        PaperTarget("theory", "Proposition 1, Lemma 1, Theorems 1 – 3"),
    )
    return {target.name: target for target in every_target}
