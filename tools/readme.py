"""`make readme`: everything that the README tells people to type, as it stands there, in a fresh clone of the last commit.

    python -m tools.readme torch==2.13.0

It runs `make demo`, installs with pip as the README says, and gives every line of "On the command line" to a shell, with
policies that it makes itself. That takes long, because `compare`, `coverage`, `reproduce all --quick`, `bench`, `train` and
`value` have their full size. `make test` and `make docs` are left to CI, which runs both (.ci/run). The README's Python, and
its command lines at a smaller size, are run by `make test` (tests/docs).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
# What makes a command small, for `make test`, where the README's own size would take minutes.
SMALLER: dict[str, tuple[str, ...]] = {
    "compare": ("--trials", "4", "--budget", "64"),
    "coverage": ("--repeats", "20"),
    "reproduce": ("--trials", "2", "--budget", "2"),
    "value": ("--episodes", "1000"),
    "train": ("--episodes", "64"),
}
# What a command must say, and the file that it must leave if the line names one.
SAYS: dict[str, str] = {
    "evaluate": "± ",
    "plan": "The plain mean of on-policy episodes needs about",
    "difference": "The first policy is better",
    "gate": "PASS",
    "best": "c is the best of 3",
    "collect": "data.parquet",
    "diagnose": "action 1",
    "compare": "v(π) = ",
    "coverage": "score at 512 episodes",
    "reproduce": "report.html",
    "value": "v(π) = ",
    "train": "mine.safetensors: v(π) = ",
    "bench": "steps/s",
}
LEAVES = {
    "mse.png": "mse.png", "demo.png": "demo.png", "reproduce": "reproduction/report.html", "collect": "data.parquet",
    "train": "mine.safetensors",
}


def lines() -> list[str]:
    """What stands under "On the command line", line by line."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## On the command line\n")[2].partition("\n## ")[0]
    return re.findall(r"^    (\S.*)$", section, re.M)


def demo() -> list[str]:
    """The commands of `make demo`."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    return [f"evenroll {line}" for line in re.findall(r"^\t\$\(BIN\)/evenroll (.*)$", recipe, re.M)]


def missing(line: str, output: str, directory: Path) -> list[str]:
    """What the command should have said or left behind, and did not."""
    words = shlex.split(line, comments=True)[1:]
    said = [] if SAYS[words[0]] in output else [SAYS[words[0]]]
    return said + [file for word, file in LEAVES.items() if word in words and not (directory / file).is_file()]


def make_policies(directory: Path) -> None:
    """The files that the lines name: models of Stable-Baselines3 that push the cart under the pole, more or less surely."""
    import torch
    from stable_baselines3 import PPO

    import evenroll

    for names, sureness in {("old", "a"): 0.0, ("model", "b"): 0.5, ("new", "c"): 1.0}.items():
        model = PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu", policy_kwargs={"net_arch": [2, 2]})
        first, _, second, _ = model.policy.mlp_extractor.policy_net
        with torch.no_grad():
            first.weight.copy_(torch.tensor([[0.0, 0.0, 4.0, 1.0]] * 2))  # the pole's angle and its speed
            second.weight.copy_(torch.eye(2))
            model.policy.action_net.weight.copy_(sureness * torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
        for name in names:
            model.save(directory / f"{name}.zip")
    domain = evenroll.get_domain("cartpole")
    evenroll.save_policy(domain.policy().astype(np.float64), directory / "mine.safetensors")  # its value is not shipped


def main(arguments: list[str]) -> int:
    torch = arguments[0]
    with tempfile.TemporaryDirectory(prefix="readme-") as directory:
        clone, own, work = (Path(directory, name) for name in ("clone", "own", "work"))
        work.mkdir()
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NUMBA", "VIRTUAL_ENV", "MAKE"))}
        env["PATH"] = f"{own / 'bin'}{os.pathsep}{env['PATH']}"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(own)], check=True)
        make_policies(work)
        failed = 0
        # torch comes first: the README's line would bring packages for GPUs, where pip finds no other build.
        start = ["make demo", "pip install .", f"pip install {torch}", "pip install '.[data,torch]'"]
        for place, line in [*((clone, line) for line in start), *((work, line) for line in lines())]:
            began = time.perf_counter()
            done = subprocess.run(["bash", "-c", line], cwd=place, env=env, capture_output=True, text=True)
            checked = line in lines()
            wrong = missing(line, done.stdout, work) if checked and not done.returncode else []
            good = not done.returncode and not wrong
            failed += not good
            print(f"{'good' if good else 'FAILED'} {time.perf_counter() - began:6.1f} s  {line}", flush=True)
            if not good:
                print(f"  code {done.returncode}, missing: {wrong}\n{(done.stdout + done.stderr)[-2000:]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
