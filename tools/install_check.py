"""`make install-check`: what `make dist` left in dist/, installed by pip alone into clean environments, and used there.

    python tools/install_check.py torch==2.13.0              # all of it
    python tools/install_check.py torch==2.13.0 sdist data   # some of it

`wheel` and `sdist` are installed without extras. Their files are those of the last commit, every module can be imported,
the first commands of the README work, and what needs an extra says which. Each extra is then installed with the wheel into
an environment of its own, and what failed without it must work. The requirement of torch is installed before an extra that
brings torch, which would bring packages for GPUs otherwise.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = "import evenroll; print(evenroll.__version__)"
WHERE = "import evenroll, pathlib; print(pathlib.Path(evenroll.__file__).parents[1])"
# Every module. What it may miss is a package that an extra brings which is not installed: its arguments are those that are.
IMPORTS = """
import importlib, pkgutil, sys, evenroll
absent = {"torch", "stable_baselines3", "pyarrow", "minari", "distributed"} - set(sys.argv[1:])
for module in pkgutil.walk_packages(evenroll.__path__, "evenroll.", onerror=lambda name: None):
    try:
        module.name == "evenroll.__main__" or importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name not in absent:
            raise
"""
POLICY = 'import evenroll; evenroll.save_policy(evenroll.get_domain("cartpole").policy(), "p.safetensors")'
# A model whose network is no plain MLP. The environment of the checkout makes it, which has Stable-Baselines3.
LEAKY = """
import sys, torch
from stable_baselines3 import PPO
PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"activation_fn": torch.nn.LeakyReLU}, device="cpu").save(sys.argv[1])
"""
SB3 = """
import evenroll, gymnasium, stable_baselines3
from evenroll.sb3 import BalancedPPO, EvalCallback
model = BalancedPPO("MlpPolicy", "CartPole-v1", n_steps=64, seed=0, device="cpu").learn(64)
mean, spread = evenroll.evaluate_policy(model, gymnasium.make("CartPole-v1"), n_eval_episodes=8)
assert mean > 1
"""
DASK = """
import evenroll
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        there = cluster.scheduler_address.replace("tcp://", "dask://")
        study = evenroll.compare("bandit", ["os/mc"], trials=4, budget=8, executor=there)
    assert study.curves[0].mse[-1] > 0
"""
COLLECT = ("collect", "evenroll/CartPole-v0", "--policy", "p.safetensors", "--episodes", "5", "--out")
DIAGNOSE = ("--policy", "p.safetensors")
# What needs an extra: command lines, or a program of Python; and what is said of it where the extra is missing.
EXTRAS: dict[str, tuple[list[tuple[str, ...]] | str, str]] = {
    "data": ([(*COLLECT, "d.parquet"), ("diagnose", "d.parquet", *DIAGNOSE)], "pip install 'evenroll[data]'"),
    "torch": ([("evaluate", "CartPole-v1", "--policy", "leaky.zip", "--episodes", "5")], "pip install 'evenroll[torch]'"),
    "minari": ([(*COLLECT, "d.minari"), ("diagnose", "d.minari", *DIAGNOSE)], "pip install 'evenroll[minari]'"),
    "sb3": (SB3, "No module named 'stable_baselines3'"),
    "dask": (DASK, "No module named 'distributed'"),
}
BRINGS = {  # packages, as they are imported
    "data": ("pyarrow",), "torch": ("torch",), "minari": ("minari", "pyarrow"), "sb3": ("stable_baselines3", "torch"),
    "dask": ("distributed", "pyarrow"),
}


class Failed(Exception):
    """Something that must work does not."""


class Place:
    """An environment with nothing in it but pip, and a directory to work in, from which no path leads into the checkout."""

    def __init__(self, directory: str) -> None:
        self.bin, self.work = Path(directory, "env", "bin"), Path(directory, "work")
        self.work.mkdir()
        subprocess.run([sys.executable, "-c", LEAKY, str(self.work / "leaky.zip")], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.bin.parent)], check=True)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA", "VIRTUAL_ENV"))}

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / program), *words]
        return subprocess.run(command, cwd=self.work, env=self.env, capture_output=True, text=True)

    def works(self, program: str, *words: str) -> str:
        done = self.run(program, *words)
        if done.returncode:
            raise Failed(f"{program} {' '.join(words)[:200]}: code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
        return done.stdout

    def install(self, *words: str) -> None:
        self.works("pip", "install", "--quiet", "--disable-pip-version-check", *words)

    def uses(self, extra: str) -> subprocess.CompletedProcess[str]:
        """What needs the extra, as far as it goes."""
        task = EXTRAS[extra][0]
        if isinstance(task, str):
            (self.work / "task.py").write_text(task)
            return self.run("python", "task.py")
        for words in task:
            done = self.run("evenroll", *words)
            if done.returncode:
                break
        return done


def distribution(suffix: str) -> Path:
    found = sorted((ROOT / "dist").glob(f"*{suffix}"))
    if len(found) != 1:
        raise Failed(f"dist/ holds {len(found)} files *{suffix}: make dist leaves one in an empty directory")
    return found[0]


def committed() -> dict[str, bytes]:
    """The package's files in the last commit, by path."""
    run = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD", "src/evenroll"], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(run.stdout)) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {member.name.removeprefix("src/"): archive.extractfile(member).read() for member in files}


def check_distribution(place: Place, path: Path) -> None:
    """Without extras: all files, all modules, the first commands, and refusals that name the extra."""
    place.install(str(path))
    place.works("pip", "check")
    version = place.works("python", "-c", VERSION).strip()
    if place.works("evenroll", "--version").strip() != f"evenroll {version}" or f"-{version}" not in path.name:
        raise Failed(f"{path.name} says that it is {version}")
    site = Path(place.works("python", "-c", WHERE).strip())
    if not site.is_relative_to(place.bin.parent.resolve()):
        raise Failed(f"evenroll was imported from {site}")
    wanted = committed()
    there = {p.relative_to(site).as_posix(): p.read_bytes() for p in (site / "evenroll").rglob("*") if p.is_file()}
    there = {name: data for name, data in there.items() if "__pycache__" not in name}
    if there != wanted or "evenroll/py.typed" not in there:
        different = sorted(name for name in wanted | there if wanted.get(name) != there.get(name))
        raise Failed(f"not the files of the last commit: {', '.join(different)}")
    place.works("python", "-W", "error::SyntaxWarning", "-c", IMPORTS)
    if "evaluate" not in place.works("evenroll", "--help"):
        raise Failed("evenroll --help does not name its commands")
    if "500 episodes" not in place.works("evenroll", "evaluate", "cartpole", "--episodes", "500"):
        raise Failed("evenroll evaluate cartpole --episodes 500 does not say what it did")
    place.works("evenroll", "evaluate", "gridworld", "--episodes", "50", "--report", "r.html", "--plot", "p.png")
    place.works("python", "-c", POLICY)
    for extra, (_, said) in EXTRAS.items():
        done = place.uses(extra)
        if not done.returncode or said not in done.stderr:
            raise Failed(f"without {extra}: code {done.returncode} instead of {said!r}\n{done.stderr[-1000:]}")


def check_extra(place: Place, extra: str, torch: str) -> None:
    """The wheel with the extra, in an environment of its own."""
    first = [torch] if "torch" in BRINGS[extra] else []
    if first:
        place.install(*first)
    place.install(f"{distribution('.whl')}[{extra}]", *first)
    place.works("pip", "check")
    place.works("python", "-c", "import " + ", ".join(BRINGS[extra]))
    place.works("python", "-c", IMPORTS, *BRINGS[extra])
    place.works("python", "-c", POLICY)
    done = place.uses(extra)
    if done.returncode:
        raise Failed(f"with {extra}: code {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")


def main(arguments: list[str]) -> int:
    torch, *names = arguments
    failed = 0
    for name in names or ["wheel", "sdist", *EXTRAS]:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="install-check-") as directory:
            try:
                if name in EXTRAS:
                    check_extra(Place(directory), name, torch)
                else:
                    check_distribution(Place(directory), distribution({"wheel": ".whl", "sdist": ".tar.gz"}[name]))
            except Failed as failure:
                failed += 1
                print(f"{name}: FAILED: {failure}", flush=True)
            else:
                print(f"{name}: good, {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
