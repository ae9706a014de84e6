"""What a target of `evenroll reproduce` is: a figure or a table of the paper, as a value.

A target has panels, and a panel has lines or sweeps. A line names the work whose trials it draws, and a sweep names one
work for each of its settings. Targets that draw different things from the same trials name the same work, so the work is
done once.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenroll.study.blocks import Work
from evenroll.study.method import MethodSpec


@dataclass(frozen=True)
class Line:
    """A curve over checkpoints. It shows one column of a work's trials."""

    method: str  # it gives the line its name in the legend, its colour and its published counterpart
    work: Work
    column: str
    trials: int


@dataclass(frozen=True)
class Sweep:
    """A curve over settings. It shows the MSE of a method's `works` relative to that of `against`, setting by setting."""

    label: str
    method: str
    x: tuple[float, ...]
    works: tuple[Work, ...]
    against: tuple[Work, ...]
    trials: int


@dataclass(frozen=True)
class Panel:
    """One chart. `quantity` is mse, median, kl or grad_norm where there are lines, and ratio where there are sweeps."""

    title: str
    domain: str
    quantity: str
    lines: tuple[Line, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    x_label: str = "environment steps"
    log_x: bool = True


@dataclass(frozen=True)
class PaperTarget:
    """A figure or a table. A target without panels (the domains, the theory) is drawn from no trials."""

    name: str
    title: str
    panels: tuple[Panel, ...] = ()

    def wanted(self) -> dict[Work, int]:
        """Every work that the target draws, and how many of its trials."""
        found: dict[Work, int] = {}
        for panel in self.panels:
            for line in panel.lines:
                found[line.work] = max(found.get(line.work, 0), line.trials)
            for sweep in panel.sweeps:
                for work in (*sweep.works, *sweep.against):
                    found[work] = max(found.get(work, 0), sweep.trials)
        return found


def label(method: str) -> str:
    """The method's name as the paper writes it: init+os/wis+mc is (OPD + OS)-(WIS + MC)."""
    spec = MethodSpec.parse(method)
    shown = spec.name if spec.name == "auto" else _in_capitals(spec.name)
    end = {
        "wis+mc": "(WIS + MC)",
        "fqe-net-small": "FQE",
        "fqe-net": "FQE (authors’ network)",
        "fqe": "FQE (closed form)",
    }.get(spec.estimator, _in_capitals(spec.estimator))
    tail = ", " + spec.parameters.replace("alpha=", "α = ") if spec.parameters else ""
    return (f"(OPD + {shown})" if spec.initial else shown) + (f"-{end}" if end else "") + tail


def _in_capitals(name: str) -> str:
    """Names of ours in capitals; of something written elsewhere, `module:name`, the name as it is."""
    return name.rpartition(":")[2] if ":" in name else name.upper()
