"""Domains are found by their files: a new one needs nothing elsewhere, and nothing is imported to find it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

import evenroll
from evenroll.domains.catalogue import DOMAINS, get_domain
from evenroll.domains.registration import Listing, find_domains, register
from evenroll.errors import SpecError

PACKAGE = Path(evenroll.__file__).parent
# Where the paper's experiments, claims and figures are about particular domains.
PAPER = {"experiments.py", "claims.py", "report.py", "domain_pictures.py"}


def test_a_file_with_a_name_is_a_domain(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("HORIZON = 3\n")
    (tmp_path / "my_maze.py").write_text('"""A maze."""\n\nimport nowhere\n\nNAME = "maze"\nHORIZON = 50  # steps\n')
    (tmp_path / "toy.py").write_text('NAME = "toy"\nHORIZON = 2\nGYMNASIUM_ID = "evenroll/Toy-v0"\n')
    assert list(find_domains(tmp_path).values()) == [
        Listing("toy", "toy", 2, "evenroll/Toy-v0"),
        Listing("maze", "my_maze", 50, None),
    ]


def test_a_file_that_is_half_a_domain_is_refused(tmp_path: Path) -> None:
    (tmp_path / "maze.py").write_text('NAME = "maze"\n')
    with pytest.raises(SpecError, match=r"maze\.py.*HORIZON"):
        find_domains(tmp_path)
    for name in ("maze", "other"):
        (tmp_path / f"{name}.py").write_text('NAME = "maze"\nHORIZON = 1\n')
    with pytest.raises(SpecError, match=r"other\.py.*maze\.py"):
        find_domains(tmp_path)


@pytest.mark.parametrize("name", DOMAINS)
def test_what_a_file_says_is_what_its_domain_has(name: str) -> None:
    domain, listing = get_domain(name), DOMAINS[name]
    assert (domain.name, domain.horizon, domain.gymnasium_id) == (listing.name, listing.horizon, listing.gymnasium_id)
    assert gymnasium.spec(domain.gymnasium_id).max_episode_steps == domain.horizon
    assert gymnasium.make(domain.gymnasium_id).unwrapped.domain.name == name


def test_registering_twice_changes_nothing() -> None:
    before = {name: gymnasium.registry[name] for name in gymnasium.registry}
    register()
    assert all(gymnasium.registry[name] is spec for name, spec in before.items())
    assert len(gymnasium.registry) == len(before)


def test_importing_the_package_loads_no_compiler_and_no_domain() -> None:
    code = (
        "import sys, evenroll\n"
        "from evenroll.domains.registration import DOMAINS\n"
        "wrong = {'numba', *(f'evenroll.domains.{x.module}' for x in DOMAINS.values())}\n"
        "print(sorted(wrong & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_no_other_file_names_a_domain() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value.partition(":")[0]
                if name in DOMAINS and path.stem != DOMAINS[name].module and path.name not in PAPER:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} names {name}")
    assert found == []


def test_misspelt_names_and_parameters_are_answered() -> None:
    with pytest.raises(SpecError, match=r"did you mean gridworld\?"):
        get_domain("gridwrld")
    with pytest.raises(SpecError, match=r"did you mean noise\?\); known: mean_factor, noise"):
        get_domain("gridworld:nois=1")
    with pytest.raises(SpecError, match=r"unknown parameter 'x'; known: none"):
        get_domain("cartpole-continuous:x=1")


@pytest.mark.parametrize("order", ["import evenroll, gymnasium", "import gymnasium, evenroll"])
def test_gymnasium_knows_the_domains_whichever_is_imported_first(order: str) -> None:
    """`import evenroll` does not import Gymnasium, which takes most of the time that it used to take."""
    code = (
        "import sys, importlib.util\n"
        "importlib.util.find_spec('gymnasium')  # who only asks where it is has not imported it\n"
        f"{order.partition(',')[0]}\n"
        "assert 'evenroll' not in sys.modules or 'gymnasium' not in sys.modules and 'numpy' not in sys.modules\n"
        f"importlib.util.find_spec('gymnasium')\n"
        f"{order}\n"
        "assert gymnasium.spec('evenroll/CartPole-v0').max_episode_steps == 200\n"
        "assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith('evenroll')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
