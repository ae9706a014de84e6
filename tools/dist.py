"""`make dist`: build wheel and source distribution of the last commit, with the same bytes whoever builds them.

Both are built twice from `git archive HEAD`, in different directories and with all times set to the commit's time. If a
byte differs, nothing is left behind.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True).stdout


def repacked(data: bytes, when: int) -> bytes:
    """A .tar.gz with its files in order and nothing in it of who packed it, and when. (setuptools notes both.)"""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data)) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda m: m.name):
            clean = tarfile.TarInfo(member.name)
            clean.size, clean.type, clean.mtime = member.size, member.type, when
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(clean, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=when)


def built() -> dict[str, bytes]:
    """File name → bytes of both distributions of the last commit."""
    when = int(_git("log", "-1", "--format=%ct"))
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(when), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory(prefix="dist-") as directory:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "HEAD"))) as archive:
            archive.extractall(directory, filter="data")
        for path in Path(directory).rglob("*"):  # whatever the umask: modes are in the wheel
            path.chmod(0o755 if path.is_dir() else 0o644)
        out = Path(directory) / "out"
        out.mkdir()
        for kind in ("build_sdist", "build_wheel"):
            command = [sys.executable, "-c", BUILD, kind, str(out)]
            run = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, umask=0o022)
            if run.returncode:
                raise SystemExit(run.stderr[-2000:])
        files = {path.name: path.read_bytes() for path in out.iterdir()}
    return {name: repacked(data, when) if name.endswith(".tar.gz") else data for name, data in files.items()}


def main() -> int:
    files = built()
    different = [name for name, data in built().items() if files.get(name) != data]
    if different:
        print(f"not the same bytes twice: {', '.join(different)}", file=sys.stderr)
        return 1
    target = ROOT / "dist"
    target.mkdir(exist_ok=True)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    for name, data in files.items():
        (target / name).write_bytes(data)
    (target / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
