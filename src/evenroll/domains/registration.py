"""The built-in domains, found by reading their files, and their names for Gymnasium, which `import evenroll` registers.

Every file of this folder that sets `NAME` at its top is a domain. `NAME`, `HORIZON` and `GYMNASIUM_ID` are literals: they
are read from the text of the file, which is not imported. An import would load Numba, and `import evenroll` has to be fast.
For the same reason Gymnasium itself is not imported here: it is told of the domains as soon as somebody imports it.
"""

from __future__ import annotations

import ast
import re
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from evenroll.errors import SpecError

LITERAL = re.compile(r"^(NAME|HORIZON|GYMNASIUM_ID) = (.+)$", re.MULTILINE)


class Listing(NamedTuple):
    """What is known of a built-in domain before its module is imported."""

    name: str
    module: str
    horizon: int
    gymnasium_id: str | None


def find_domains(folder: Path) -> dict[str, Listing]:
    """The domains of a folder by name, those with the shortest horizon first."""
    found: dict[str, Listing] = {}
    for path in sorted(folder.glob("*.py")):
        literals = {name: ast.literal_eval(text) for name, text in LITERAL.findall(path.read_text(encoding="utf-8"))}
        if "NAME" not in literals:
            continue
        if not isinstance(literals.get("HORIZON"), int):
            raise SpecError(f"{path.name}: a domain's file sets HORIZON to a whole number beside its NAME")
        name = literals["NAME"]
        if name in found:
            raise SpecError(f"{path.name}: the name {name!r} is that of {found[name].module}.py already")
        found[name] = Listing(name, path.stem, literals["HORIZON"], literals.get("GYMNASIUM_ID"))
    return dict(sorted(found.items(), key=lambda item: (item[1].horizon, item[0])))


DOMAINS = find_domains(Path(__file__).parent)


def register() -> None:
    """Make the environments known to Gymnasium, at once or when it is imported. Nothing is compiled until one is made."""
    if "gymnasium" in sys.modules:
        _tell(sys.modules["gymnasium"])
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


def _tell(gymnasium: ModuleType) -> None:
    """Doing it twice changes nothing."""
    for listing in DOMAINS.values():
        if listing.gymnasium_id is not None and listing.gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                listing.gymnasium_id,
                entry_point="evenroll.domains.gymnasium_env:DomainEnv",
                kwargs={"domain": listing.name},
                max_episode_steps=listing.horizon,
            )


class _Waiting:
    """Waits until Gymnasium is imported. Python asks it for every module, and it answers for this one only."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in others if spec is not None), None)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_tell(module: ModuleType) -> None:
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                _tell(module)

            spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec
