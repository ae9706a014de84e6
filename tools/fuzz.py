"""`make fuzz`: open mutated files of every kind that is read. Only an EvenrollError or success is allowed.

Each kind runs in a child process, so that a crash inside a C library is noticed and the input that caused it has a number.
The memory of the child and the seconds of every input are limited, and the child ends when it exceeds a limit. A mutation
follows from seed, kind and number: `python -m tools.fuzz KIND --first NUMBER --count 1` repeats one.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from evenroll.errors import EvenrollError

SECONDS, MEMORY = 5, 1 << 30  # an input may take so long, and all of them so much memory beyond what was loaded before
Random = np.random.Generator
Mutate = Callable[[bytes, Random], bytes]

# ---- mutations ---------------------------------------------------------------------------------------------------------

NUMBERS = (0, 1, -1, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 10**12, 2**60, 2**63 - 1)
VALUES: tuple[Any, ...] = (
    None, True, "", "x", "nan", [], {}, [[]], 0, -1, 0.5, -0.0, 1e308, float("nan"), float("inf"), 2**31, 10**12, 2**63,
    10**30, "\x1b[2J", "a" * 1000, {"a": [1]}, [10**12, 10**12], "../../x", "O", "F64", "BF16", "float16",
)  # fmt: skip


def mutated_bytes(data: bytes, rng: Random) -> bytes:
    """Bits flipped, numbers overwritten, parts cut out, doubled or moved; once or a few times."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        if not out:
            break
        a, b = sorted(int(i) for i in rng.integers(len(out) + 1, size=2))
        kind = int(rng.integers(8))
        if kind <= 2:
            out[a % len(out)] ^= 1 << int(rng.integers(8))
        elif kind == 3:
            out[a % len(out)] = int(rng.integers(256))
        elif kind == 4:
            size = int(rng.choice((2, 4, 8)))
            number = int(NUMBERS[int(rng.integers(len(NUMBERS)))]) & ((1 << 8 * size) - 1)
            out[a : a + size] = number.to_bytes(size, "little")
        elif kind == 5:
            del out[a : min(b, a + int(rng.integers(1, 200)))]
        elif kind == 6:
            out[a:a] = out[b : b + int(rng.integers(1, 200))]
        else:
            del out[b if rng.integers(2) else len(out) - 1 :]
    return bytes(out)


def mutated_json(thing: Any, rng: Random) -> Any:
    """One place in it replaced, dropped, renamed or doubled."""
    if isinstance(thing, dict) and thing and rng.integers(8):
        key = list(thing)[int(rng.integers(len(thing)))]
        kind = int(rng.integers(8))
        rest = {k: v for k, v in thing.items() if k != key}
        if kind == 0:
            return rest
        if kind == 1:
            return rest | {str(VALUES[int(rng.integers(len(VALUES)))]): thing[key]}
        return thing | {key: mutated_json(thing[key], rng)}
    if isinstance(thing, list) and thing and rng.integers(8):
        at = int(rng.integers(len(thing)))
        if not rng.integers(4):
            return thing[:at] + thing[at + 1 :] if rng.integers(2) else [*thing, thing[at]]
        return [*thing[:at], mutated_json(thing[at], rng), *thing[at + 1 :]]
    if isinstance(thing, str) and thing.startswith(("{", "[")) and rng.integers(4):
        return mutated_text(thing.encode(), rng).decode(errors="replace")
    return VALUES[int(rng.integers(len(VALUES)))]


def mutated_text(data: bytes, rng: Random) -> bytes:
    """JSON as text; now and then only its characters."""
    try:
        if not rng.integers(8):
            raise ValueError
        return json.dumps(mutated_json(json.loads(data), rng)).encode()
    except ValueError:
        return mutated_bytes(data, rng)


def mutated_tensors(data: bytes, rng: Random) -> bytes:
    """A safetensors file: its header as JSON, its numbers, or its bytes; mostly without the checksum, which would notice."""
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    if rng.integers(8):
        header["__metadata__"].pop("evenroll.sha256", None)
    if not rng.integers(4):
        text = json.dumps(header).encode()
        return mutated_bytes(struct.pack("<Q", len(text)) + text + body, rng)
    if rng.integers(3):
        header = mutated_json(header, rng)
    else:
        body = mutated_numbers(body, rng)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def mutated_numbers(data: bytes, rng: Random) -> bytes:
    """Of equal length: some of the numbers exchanged for extreme ones."""
    values = (0.0, -1.0, 1e300, np.inf, -np.inf, np.nan, 5e-324, 0.5, 1e9)
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        size = int(rng.choice((4, 8)))
        at = int(rng.integers(max(len(out) // size, 1))) * size
        new = struct.pack("<f" if size == 4 else "<d", np.float32(rng.choice(values)) if size == 4 else rng.choice(values))
        if rng.integers(2):
            new = int(NUMBERS[int(rng.integers(len(NUMBERS)))] & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        out[at : at + size] = new
    return bytes(out[: len(data)])


def mutated_zip(data: bytes, rng: Random, depth: int = 0) -> bytes:
    """A member mutated and everything packed again, so that all checksums fit; or the bytes as they are."""
    if not rng.integers(4):
        return mutated_bytes(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[int(rng.integers(len(members)))]
    if not rng.integers(16):
        members.pop(name)
    elif name == "data":
        members[name] = mutated_text(members[name], rng)
    elif name.endswith(".pth") and depth == 0:
        members[name] = mutated_zip(members[name], rng, 1)
    else:
        members[name] = mutated_bytes(members[name], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if not rng.integers(8) else zipfile.ZIP_STORED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return out.getvalue()


def mutated_parquet(data: bytes, rng: Random) -> bytes:
    """The end of the file or a page header more often than the rest; or a good file with other columns and metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if rng.integers(2):
        if rng.integers(2):
            start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
            tail = mutated_bytes(data[start:-8], rng)
            return data[:start] + tail + struct.pack("<I", len(tail)) + b"PAR1"
        return mutated_bytes(data, rng)
    table = pq.read_table(io.BytesIO(data))
    metadata = {k.decode(): v for k, v in (table.schema.metadata or {}).items() if k != b"evenroll.sha256"}
    for key in metadata if not rng.integers(3) else ():
        metadata[key] = mutated_text(metadata[key], rng)
    columns = {name: table.column(name) for name in table.column_names}
    for _ in range(int(rng.integers(0, 3))):
        name = list(columns)[int(rng.integers(len(columns)))]
        with contextlib.suppress(pa.ArrowException, OverflowError):
            columns[name] = other_column(columns[name], rng)
    out = io.BytesIO()
    with contextlib.suppress(pa.ArrowException):
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), out, use_dictionary=bool(rng.integers(2)))
        return out.getvalue()
    return mutated_bytes(data, rng)


def other_column(column: Any, rng: Random) -> Any:
    import pyarrow as pa

    rows = len(column)
    choices: tuple[Callable[[], Any], ...] = (
        lambda: pa.array([None] * rows),
        lambda: pa.array([VALUES[int(rng.integers(len(VALUES)))]] * rows),
        lambda: pa.array(rng.choice((np.nan, 1e308, -1.0, 0.0, 1.0), size=rows)),
        lambda: pa.array([[1.0] * int(rng.integers(3)) for _ in range(rows)]),
        lambda: pa.array(rng.integers(-3, 3, size=rows)),
        lambda: column.cast(pa.float32()),
        lambda: pa.array(rng.integers(2, size=rows)).cast(pa.int8()),
    )
    return choices[int(rng.integers(len(choices)))]()


# ---- kinds of files: what is mutated and how it is opened ------------------------------------------------------------

SAVED = ("squashed", "normalised", "greedy", "certain", "recurrent", "images")  # models of Stable-Baselines3
NAMES = (
    "policy", "sb3-zip", *(f"sb3-{name}" for name in SAVED), "rollouts-safetensors", "rollouts-parquet", "minari",
    "collector", "results-block", "rollouts-csv", "statistics-safetensors", "statistics-pkl",
)  # fmt: skip
Open = Callable[[Path], Any]


def kinds() -> dict[str, tuple[Callable[[Path], Path], Mutate, Open]]:
    """Name → (makes a valid file or directory, mutation of the bytes of a file, how it is opened)."""
    from evenroll.adapters.model import as_model
    from evenroll.adapters.normalization import Normalization, load_normalization, save_normalization
    from evenroll.adapters.sb3_zip import load_sb3
    from evenroll.collection.recorder import see
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.evaluation.collector import Collector
    from evenroll.policies import load_policy
    from evenroll.study.blocks import Block, Work, compute
    from evenroll.study.store import Store
    from tests.files.corpus import saved_models
    from tests.files.corpus import valid as corpus

    model = as_model(corpus.policy(), None, None)

    def one(name: str) -> Callable[[Path], Path]:
        return lambda directory: corpus.valid(directory)[name]

    def saved(name: str) -> tuple[Callable[[Path], Path], Mutate, Open]:
        def make(directory: Path) -> Path:
            (directory / "model.zip").write_bytes(saved_models.model_zip(name))
            return directory / "model.zip"

        return make, mutated_zip, lambda path: saved_models.opened(name, path)

    def collector(directory: Path) -> Path:
        made = Collector(model, gamma=0.9)
        for step in range(12):
            made.act(np.full(4, 0.1 * step))
            if step < 11:
                made.observe(1.0, step % 5 == 4, False, np.zeros(4))
        made.save(directory / "collector.safetensors")
        return directory / "collector.safetensors"

    def csv(directory: Path) -> Path:
        names = "episode,t,observation.0,observation.1,observation.2,observation.3,action,reward,terminated"
        rows = [f"{e},{t},{0.1 * t},-0.5,{e},1e-3,{t % 2},1.0,{t == 3}" for e in range(3) for t in range(4)]
        (directory / "data.csv").write_text("\n".join([names, *rows, ""]))
        return directory / "data.csv"

    def statistics(directory: Path) -> Path:
        save_normalization(Normalization(np.zeros(4), np.ones(4), 10.0, 1e-8), directory / "norm.safetensors")
        return directory / "norm.safetensors"

    def pickled(directory: Path) -> Path:
        from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

        normalised = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
        normalised.reset()
        normalised.save(str(directory / "norm.pkl"))
        return directory / "norm.pkl"

    def store(directory: Path) -> Path:
        block = Block(Work("gridworld", "os", ("mc",), (1.0, 2.0)), 0, 3)
        kept = Store(directory / "store")
        kept.save(block, compute(block))
        return kept.path(block.key)

    def opened(data: Path) -> None:
        see(model, load_rollouts(data))

    def resumed(path: Path) -> None:
        made = Collector(model, gamma=0.9).resume(path)
        if made.open_episodes:
            made.go_on()
        if not made._pending:
            made.act(np.zeros(4))
        made.observe(1.0, True)
        made.rollouts()

    def listed(block: Path) -> None:
        good = len(list(Store(block.parent.parent).entries()))
        aside = block.parent.parent / "aside"
        if good + (sum(1 for _ in aside.iterdir()) if aside.is_dir() else 0) != 1:
            raise AssertionError("a block is neither listed nor set aside")
        shutil.rmtree(aside, ignore_errors=True)

    return {
        "policy": (one("policy"), mutated_tensors, load_policy),
        "sb3-zip": (one("sb3"), mutated_zip, load_sb3),
        **{f"sb3-{name}": saved(name) for name in SAVED},
        "rollouts-safetensors": (one("columns"), mutated_tensors, opened),
        "rollouts-parquet": (one("parquet"), mutated_parquet, opened),
        "minari": (one("minari"), mutated_bytes, opened),
        "collector": (collector, mutated_tensors, resumed),
        "results-block": (store, mutated_parquet, listed),
        "rollouts-csv": (csv, mutated_bytes, opened),
        "statistics-safetensors": (statistics, mutated_tensors, load_normalization),
        "statistics-pkl": (pickled, mutated_bytes, load_normalization),
    }


def attempts(
    kind: str, parts: tuple[Callable[[Path], Path], Mutate, Open], count: int, seed: int, first: int
) -> dict[str, Any]:
    """Open `count` mutated files; what came of them. Before each its number is told on standard error."""
    make, mutate, open_it = parts
    limits = resource.getrlimit(resource.RLIMIT_AS)
    accepted, slowest = 0, 0.0
    with tempfile.TemporaryDirectory() as place:
        path = make(Path(place))
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        good = {file: file.read_bytes() for file in files}
        open_it(path)  # the good one is accepted
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (virtual + MEMORY, limits[1]))
        try:
            for number in range(first, first + count):
                print(f"{kind} {number}", file=sys.stderr, flush=True)
                rng = np.random.default_rng([seed, sum(kind.encode()), number])
                file = files[int(rng.integers(len(files)))]
                file.write_bytes((mutated_text if file.suffix == ".json" else mutate)(good[file], rng))
                started = time.perf_counter()
                faulthandler.dump_traceback_later(SECONDS, exit=True)
                try:
                    open_it(path)
                    accepted += 1
                except EvenrollError:
                    pass
                finally:
                    faulthandler.cancel_dump_traceback_later()
                slowest = max(slowest, time.perf_counter() - started)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(good[file])
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used) >> 10
    return {"inputs": count, "accepted": accepted, "slowest": round(slowest, 3), "megabytes": grown}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"of files, default all: {', '.join(NAMES)}")
    parser.add_argument("--count", type=int, default=10_000, help="mutated inputs of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first input, to repeat a failure")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.child:
        faulthandler.enable()
        known = kinds()
        for kind in arguments.kinds:
            print(json.dumps(attempts(kind, known[kind], arguments.count, arguments.seed, arguments.first)))
        return
    failed, started = [], time.perf_counter()
    for kind in arguments.kinds or NAMES:
        options = [f"--{name}={getattr(arguments, name)}" for name in ("count", "seed", "first")]
        child = subprocess.Popen(
            [sys.executable, "-m", "tools.fuzz", kind, *options, "--child"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        assert child.stderr is not None
        assert child.stdout is not None
        told: list[str] = []
        last = ""
        for line in child.stderr:
            if not line.startswith(f"{kind} "):
                told.append(line)
                continue
            last = line.strip()
            if sys.stderr.isatty() and last.endswith("00"):
                print(f"\r{last} of {arguments.count} ", end="", file=sys.stderr, flush=True)
        result = child.stdout.read()
        if child.wait() == 0:
            r = json.loads(result)
            print(
                f"{kind:21} {r['inputs']:,} inputs: {r['inputs'] - r['accepted']:,} refused, {r['accepted']:,} accepted; "
                f"slowest {r['slowest']} s, memory +{r['megabytes']} MB",
                flush=True,
            )
        else:
            failed.append(kind)
            print(
                f"{kind:21} FAILED at input {last.split()[-1] if last else 'none'} (exit code {child.returncode})",
                flush=True,
            )
            print("".join(told[-40:]), flush=True)
    print(f"{len(failed)} of the kinds failed, {time.perf_counter() - started:.0f} s")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
