"""`make attack`: files and calls that ask for too much, lie, or want to run code, each in a child process that is watched.

    python -m tools.attack                 all attacks; the table of docs/files.md
    python -m tools.attack --short         those that take little time to make, as `make test` does
    python -m tools.attack NAME …          some of them

Each attack makes its file, opens a good file of the same kind first (libraries are loaded and compiled then), and is then
measured: the seconds, the memory beyond what was in use, and what came of it. Expected is an EvenrollError ("refused"), or
success where it says so ("served"). A signal, another error, more than a second or 200 MB is a failure.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.attack_commands import attacks

SECONDS, MEGABYTES = 1.0, 200
PATIENCE, ROOM = 120, 6 << 30  # seconds and bytes after which a child is ended: the attack has won


@dataclass(frozen=True)
class Attack:
    """make(directory) gives what is opened by use(path)."""

    what: str
    make: Callable[[Path], Any]
    use: Callable[[Any], Any]
    expected: str = "refused"
    slow: bool = False  # to make


# ---- hostile files -----------------------------------------------------------------------------------------------------


def tensors(path: Path, key: str, spec: Any, arrays: dict[str, np.ndarray]) -> Path:
    from safetensors.numpy import save_file

    save_file(arrays, path, {key: spec if isinstance(spec, str) else json.dumps(spec)})
    return path


def metadata_of_lists(place: Path) -> Path:
    """A description of 90 MB that consists of empty lists."""
    text = '{"gamma": 1.0, "steps": 1, "horizon": null, "x": [' + ",".join(["[]"] * 30_000_000) + "]}"
    header = json.dumps({"__metadata__": {"evenroll.rollouts": text}}).encode()
    path = place / "lists.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    return path


def some_lists(place: Path) -> Path:
    """The same as large as a description may be."""
    text = '{"gamma": 1.0, "steps": 1, "horizon": null, "x": [' + ",".join(["[]"] * 2_700_000) + "]}"
    return tensors(place / "some.safetensors", "evenroll.rollouts", text, {"returns": np.zeros(1)})


def wide_policy(place: Path) -> Path:
    """168 KB: a hidden layer of 6,000, whose features squared fill 1 GB."""
    shapes = {"layers.0.weight": (6000, 4), "layers.0.bias": (6000,), "head.weight": (2, 6000), "head.bias": (2,)}
    spec = {"kind": "mlp", "activation": "relu", "head": "softmax"}
    arrays = {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}
    return tensors(place / "wide.safetensors", "evenroll.policy", spec, arrays)


def sb3_zip(place: Path, data: bytes | None = None, tensors: bytes | None = None, packed: bool = False) -> Path:
    """A model of the test corpus with another member `data` or `policy.pth`."""
    from tests.files.corpus.valid import valid

    good = valid(place)["sb3"]
    with zipfile.ZipFile(good) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data"] = members["data"] if data is None else data
    members["policy.pth"] = members["policy.pth"] if tensors is None else tensors
    path = place / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def directory_of_nothing(place: Path) -> Path:
    """A member that is a zip of five million empty entries; zipped, 0.8 MB."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    count = 5_000_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, count * len(entry), 0, 0)
    return sb3_zip(place, tensors=entry * count + end, packed=True)


def many_members(place: Path) -> Path:
    """A zip of 300,000 empty entries: 14 MB."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    count = 300_000
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, count * len(entry), 0, 0)
    path = place / "model.zip"
    path.write_bytes(entry * count + end)
    return path


def long_line(place: Path) -> Path:
    """A CSV file whose first line has 25 million names."""
    path = place / "data.csv"
    path.write_bytes(b"episode,observation,action,reward" + b",x" * 25_000_000)
    return path


def pickled_marks(place: Path) -> Path:
    """A VecNormalize that is 30 million instructions long."""
    path = place / "statistics.pkl"
    path.write_bytes(b"\x80\x04" + b"(" * 30_000_000 + b".")
    return path


def marks(place: Path) -> Path:
    """Tensors described by 240,000 open brackets."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + b"(" * 240_000 + b".")
        archive.writestr("archive/version", b"3\n")
        archive.writestr("archive/byteorder", b"little")
    return sb3_zip(place, tensors=out.getvalue())


def list_of_nothing(place: Path) -> Path:
    """An Arrow file of 2 KB: lists of a thousand million structures without a member."""
    import pyarrow as pa

    from tests.files.corpus.valid import valid

    minari = valid(place)["minari"]
    (episode,) = [p for p in (minari / "data" / "0").iterdir() if p.suffix == ".arrow"]
    table = pa.ipc.open_stream(pa.py_buffer(episode.read_bytes()).slice(8)).read_all()
    size = 500_000_000
    empty = pa.StructArray.from_buffers(pa.struct([]), 2 * size, [None])
    column = pa.FixedSizeListArray.from_arrays(empty, size)
    table = table.slice(0, 2)
    table = table.set_column(table.column_names.index("observations"), "observations", column)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    episode.write_bytes(b"ARROW1\0\0" + sink.getvalue().to_pybytes())
    return minari


# ---- Parquet, written by hand ------------------------------------------------------------------------------------------


def number(n: int) -> bytes:
    """A whole number as Thrift writes it."""
    return varint((n << 1) ^ (n >> 63))


def thrift(fields: dict[int, Any]) -> bytes:
    """Thrift's compact encoding of {field: int, bytes, list or dict}."""
    out, last = b"", 0
    for field, value in fields.items():
        kind, encoded = thrift_value(value)
        out += bytes([(field - last) << 4 | kind]) + encoded
        last = field
    return out + b"\0"


def thrift_value(value: Any) -> tuple[int, bytes]:
    if isinstance(value, int):
        return 6, number(value)
    if isinstance(value, bytes):
        return 8, varint(len(value)) + value
    if isinstance(value, dict):
        return 12, thrift(value)
    items = [thrift_value(item) for item in value]
    kind = items[0][0] if items else 12
    size = len(items)
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + varint(size)
    return 9, head + b"".join(encoded for _, encoded in items)


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def parquet(path: Path, body: bytes, groups: list[dict[int, Any]], rows: int) -> Path:
    """A file with one column `reward` of double precision, whose parts are described as given."""
    schema = [{4: b"schema", 5: 1}, {1: 5, 3: 0, 4: b"reward"}]
    footer = thrift({1: 1, 2: schema, 3: rows, 4: groups})
    path.write_bytes(b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def part(offset: int, size: int, rows: int) -> dict[int, Any]:
    column = {1: 5, 2: [0], 3: [b"reward"], 4: 0, 5: rows, 6: size, 7: size, 9: offset}
    return {1: [{2: offset, 3: column}], 2: size, 3: rows}


def page(rows: int, content: bytes = b"") -> bytes:
    header = thrift({1: 0, 2: len(content), 3: len(content), 5: {1: rows, 2: 0, 3: 3, 4: 3}})
    return header + content


def one_page_for_all(place: Path) -> Path:
    """5,000 parts of a column that all begin at the first of the same 40,000 pages."""
    body = page(1, bytes(8)) * 40_000
    return parquet(place / "parts.parquet", body, [part(4, len(body), 40_000) for _ in range(5_000)], 200_000_000)


def many_pages(place: Path) -> Path:
    """One part of 150,000 pages of one number each."""
    body = page(1, bytes(8)) * 150_000
    return parquet(place / "pages.parquet", body, [part(4, len(body), 150_000)], 150_000)


def long_footer(place: Path) -> Path:
    """30,000 parts of a column in 0.9 MB of description, and nothing else."""
    return parquet(place / "footer.parquet", b"", [part(4, 0, 0) for _ in range(30_000)], 0)


def zeros(place: Path) -> Path:
    """0.3 MB of Parquet that unpack to a gigabyte of zeros."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = 4_000_000
    flat = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(10 * n)), 10)
    columns = {"episode": np.zeros(n, np.int64), "observation": flat, "action": np.zeros(n), "reward": np.zeros(n)}
    pq.write_table(pa.table(columns), place / "zeros.parquet", compression="zstd")
    return place / "zeros.parquet"


def typed_parquet(kind: str) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        whole = pa.array([1, 2, 3])
        observation = whole.cast(pa.decimal128(25, 2)) if kind == "decimal" else whole.cast(getattr(pa, kind)("s"))
        columns = {"episode": [0, 0, 1], "observation": observation, "action": [0, 1, 0], "reward": [1.0, 1.0, 1.0]}
        pq.write_table(pa.table(columns), place / "typed.parquet")
        return place / "typed.parquet"

    return make


def rollouts_of(dtype: Any) -> Callable[[Path], Path]:
    def make(place: Path) -> Path:
        arrays = {
            "returns": np.array([2, 1], dtype), "ends": np.array([2, 3]), "terminated": np.array([True, True]),
            "rewards": np.array([1, 1, 1], dtype), "actions": np.zeros((3, 1), dtype),
            "observations": np.zeros((3, 4), dtype),
        }  # fmt: skip
        return tensors(place / "data.safetensors", "evenroll.rollouts", {"gamma": 1.0, "steps": 3, "horizon": None}, arrays)

    return make


def edited_collector(change: Callable[[dict[str, Any], dict[str, np.ndarray]], None]) -> Callable[[Path], Path]:
    """A saved collector, edited by hand with its checksum made anew."""

    def make(place: Path) -> Path:
        from evenroll.errors import DataError
        from evenroll.files.safe_files import read_tensors, tensor_bytes

        collector = table_collector()
        for t in range(12):
            collector.act(t % 16)
            collector.observe(1.0, t % 5 == 4)
        collector.save(place / "collector.safetensors")
        spec, arrays = read_tensors(place / "collector.safetensors", "evenroll.collector", 1 << 30, DataError)
        arrays = {name: x.copy() for name, x in arrays.items()}
        change(spec, arrays)
        (place / "collector.safetensors").write_bytes(tensor_bytes("evenroll.collector", spec, arrays))
        return place / "collector.safetensors"

    return make


def a_state_before_the_first(spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays["columns.observations"][-1] = -1.0


def an_action_too_many(spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    arrays["columns.actions"][-1] = 7.0


def a_thousand_million_episodes(spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    spec["begun"] = 10**9


# ---- how they are opened -----------------------------------------------------------------------------------------------


def table_collector() -> Any:
    from evenroll.evaluation.collector import Collector
    from evenroll.policies import TabularSoftmax

    return Collector(TabularSoftmax(np.zeros((16, 4))))


def resume(path: Path) -> None:
    table_collector().resume(path).result()


def load_data(path: Path) -> None:
    from evenroll.collection.balance import Balance
    from evenroll.collection.rollout_files import load_rollouts
    from evenroll.samplers import Auto
    from tests.files.corpus.valid import policy

    data = load_rollouts(path)
    Balance(policy(), Auto(), (0,), gamma=1.0, initial=data.prefix(int(data.ends[-1]) if data.episodes else 0))


def load_zip(path: Path) -> None:
    from evenroll.adapters.sb3_zip import load_sb3

    load_sb3(path)


def warn_of(path: Path) -> None:
    """What the command line does with a zip before it opens it."""
    from evenroll.adapters.normalization import unnormalised

    unnormalised(path)


def load_statistics(path: Path) -> None:
    from evenroll.adapters.normalization import load_normalization

    load_normalization(path)


def act_with(path: Path) -> None:
    from evenroll.evaluation.collector import Collector
    from evenroll.policies import load_policy

    collector = Collector(load_policy(path))
    for _ in range(20):
        collector.act(np.zeros(4))
        collector.observe(1.0, False)


def run_sampler(spec: str) -> None:
    from evenroll import evaluate

    evaluate("gridworld", sampler=spec, episodes=20)


def open_good(use: Callable[[Any], Any], place: Path) -> None:
    """Open a good file of the kind, so that libraries are loaded and code is compiled before anything is measured."""
    from tests.files.corpus.valid import valid

    good = valid(place)
    if use is load_zip:
        use(good["sb3"])
    elif use is warn_of:
        use(good["sb3"])
    elif use is load_statistics:
        from evenroll.adapters.normalization import Normalization, save_normalization

        save_normalization(Normalization(np.zeros(4), np.ones(4), 10.0, 1e-8), place / "norm.safetensors")
        use(place / "norm.safetensors")
    elif use is load_data:
        for name in ("columns", "parquet", "minari"):
            use(good[name])
    elif use is resume:
        use(edited_collector(lambda spec, arrays: None)(place))
    elif use is act_with:
        use(good["policy"])
    else:
        use("os")


ATTACKS: dict[str, Attack] = {
    "metadata-of-lists": Attack("a 90 MB description of `[]`", metadata_of_lists, load_data, slow=True),
    "some-lists": Attack("an 8 MB description of `[]`", some_lists, load_data),
    "wide-policy": Attack("a 0.1 MB policy with a hidden layer of 6,000, under `auto`", wide_policy, act_with),
    "zip-directory": Attack("a zip in a zip: 5 million empty entries", directory_of_nothing, load_zip, slow=True),
    "zip-members": Attack("a zip of 300,000 empty entries, as a normalised model", many_members, warn_of, "served"),
    "csv-line": Attack("CSV: a line of 25 million names", long_line, load_data),
    "pickle-statistics": Attack("a VecNormalize of 30 million instructions", pickled_marks, load_statistics),
    "zip-zeros": Attack(
        "a zip of 200 MB of zeros", lambda place: sb3_zip(place, tensors=bytes(200 << 20), packed=True), load_zip, slow=True
    ),
    "zip-json": Attack(
        "its description: 8 MB of `[]`",
        lambda place: sb3_zip(place, data=b"[" + b"[]," * 2_700_000 + b"[]]"), load_zip,
    ),
    "pickle-marks": Attack("tensors described by 240,000 open brackets", marks, load_zip),
    "arrow-of-nothing": Attack("Arrow: lists of 10⁹ structures without a member", list_of_nothing, load_data),
    "parquet-parts": Attack("Parquet: 5,000 parts on the same 40,000 pages", one_page_for_all, load_data),
    "parquet-pages": Attack("Parquet: 150,000 pages of one number", many_pages, load_data),
    "parquet-footer": Attack("Parquet: a description of 30,000 parts", long_footer, load_data),
    "parquet-zeros": Attack("Parquet: a small file that unpacks to 1 GB", zeros, load_data, slow=True),
    **{
        f"parquet-{kind}": Attack(f"Parquet: observations that are {kind}s", typed_parquet(kind), load_data)
        for kind in ("timestamp", "duration", "decimal")
    },
    **{
        f"rollouts-{kind}": Attack(f"rollouts in {kind}", rollouts_of(kind), load_data, "served")
        for kind in ("float32", "int64", "int8")
    },
    "collector-state": Attack("a saved collector: state −1", edited_collector(a_state_before_the_first), resume),
    "collector-action": Attack("a saved collector: action 7 of 4", edited_collector(an_action_too_many), resume),
    "collector-begun": Attack("a saved collector: 10⁹ episodes", edited_collector(a_thousand_million_episodes), resume),
    "sampler-numbers": Attack("`revar:first=10²⁰`", lambda place: f"revar:first={10**20}", run_sampler),
    "sampler-memory": Attack("`props:buffer=10¹⁵`", lambda place: f"props:buffer={10**15}", run_sampler),
}  # fmt: skip


# ---- watching ----------------------------------------------------------------------------------------------------------


def memory(what: str) -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(what))
    return int(line.split()[1]) >> 10


def child(names: list[str]) -> None:
    """Carry out attacks in this process, one after the other, and say what came of each."""
    from evenroll.errors import EvenrollError

    warnings.simplefilter("ignore")
    for name in names:
        attack = ATTACKS[name]
        with tempfile.TemporaryDirectory() as place:
            good, bad = Path(place, "good"), Path(place, "bad")
            good.mkdir()
            bad.mkdir()
            open_good(attack.use, good)
            thing = attack.make(bad)
            gc.collect()
            resource.setrlimit(resource.RLIMIT_AS, (ROOM, resource.RLIM_INFINITY))
            Path("/proc/self/clear_refs").write_text("5")
            before, started = memory("VmRSS"), time.perf_counter()
            try:
                attack.use(thing)
                came, said = "served", ""
            except EvenrollError as error:
                came, said = "refused", str(error)
            except Exception as error:
                came, said = type(error).__name__, str(error)
            seconds = time.perf_counter() - started
            used = max(memory("VmHWM") - before, 0)
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(json.dumps({"name": name, "came": came, "said": said, "seconds": seconds, "megabytes": used}), flush=True)


def watched(names: list[str]) -> Iterator[tuple[str, bool, str]]:
    """For each attack its name, whether it was held off, and its row of the table. One child carries them all out."""
    command = [sys.executable, "-m", "tools.attack", *names, "--child"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        out, end = run.stdout, "" if run.returncode == 0 else f"ended with {run.returncode}: {run.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired as late:
        out, end = (late.stdout or b"").decode(), f"not done after {PATIENCE} s"
    results = {r["name"]: r for r in map(json.loads, out.splitlines())}
    for name in names:
        attack = ATTACKS[name]
        if name not in results:
            yield name, False, f"| {attack.what} | {end} | | |"
            continue
        r = results[name]
        held = r["came"] == attack.expected and r["seconds"] <= SECONDS and r["megabytes"] <= MEGABYTES
        said = "" if held else f": {r['said']}"
        yield name, held, f"| {attack.what} | {r['came']}{said} | {r['seconds']:.2f} s | +{r['megabytes']} MB |"


def entrances() -> tuple[bool, str]:
    """Every entrance to compiled code (tests/engine/entrances.py)."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.engine.entrances"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return False, f"ended with {run.returncode} at {(run.stderr.strip().splitlines() or ['the start'])[-1]}"
    r = json.loads(run.stdout)
    text = f"{r['refused']:,} wrong numbers refused, {r['taken']:,} that were sound taken, {len(r['wrong'])} other errors"
    return not r["wrong"], "\n".join([text, *r["wrong"]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of attacks, default all: {', '.join(ATTACKS)}")
    parser.add_argument("--short", action="store_true", help="leave out what takes long to make, and the entrances")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.names)
        return
    lost = 0
    print("| attack | came of it | time | memory |\n|---|---|---|---|")
    chosen = arguments.names or [name for name, attack in ATTACKS.items() if not (arguments.short and attack.slow)]
    for together in [chosen] if arguments.short else [[name] for name in chosen]:
        for name, held, row in watched(together):
            lost += not held
            print(row + ("" if held else f" ← {name} FAILED"), flush=True)
    if not arguments.names and not arguments.short:
        held, text = entrances()
        lost += not held
        print(f"entrances to compiled code: {text}", flush=True)
        lost += attacks([])
    print(f"{lost} attacks were not held off")
    raise SystemExit(1 if lost else 0)


if __name__ == "__main__":
    main()
