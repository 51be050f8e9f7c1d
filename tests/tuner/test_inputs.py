"""Inputs that a person gives for trials: checked, recorded, and sent to whoever measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilesmith
from helpers.warm.client import run_python
from tilesmith import ops
from tilesmith.common.errors import ArgumentError
from tilesmith.measure.calibrate.calibrate import _keep, _path
from tilesmith.measure.checking.bench import bench_of
from tilesmith.measure.given import digest, keep, pack, read
from tilesmith.measure.result import Job
from tilesmith.measure.timing.reference_kernels import task_of
from tilesmith.runtime.devices.choose import open_device
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import bf16
from tilesmith.tensor.printing import print_program
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.inputs import packed_inputs, read_inputs
from tilesmith.tuner.records.database import Database

PROGRAM = parse("""
    input weights: f32[50, 8]
    input rows: i32[20]
    constant scale: bf16[8]
    out[i: 20, j: 8] = weights[min(max(i64(rows[i]), 0), 49), j] * f32(scale[j])
    return out
""")
ROWS = np.full(20, 7, np.int32)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache in which ceilings are kept already, so that nothing calibrates."""
    monkeypatch.setenv("TILESMITH_CACHE", str(tmp_path / "cache"))
    target = parse_target("host")
    _keep(_path(target, 1), default_ceilings(target, 1).to_json())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"row": ROWS}, "no input 'row'"),
        ({"rows": ROWS[:19]}, "wrong shape"),
        ({"rows": ROWS.astype(np.int64)}, "wrong dtype"),
        ({"rows": "seven"}, "no array"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        tilesmith.tune(PROGRAM, trials=1, threads=1, inputs=given, progress=False)


def test_inputs_of_several_programs_are_refused() -> None:
    with pytest.raises(ArgumentError, match="several programs"):
        tilesmith.tune([PROGRAM, ops.relu(shape=(64,))], trials=1, threads=1, inputs={"rows": ROWS}, progress=False)


def test_bytes_go_there_and_back_and_are_known_by_what_is_in_them() -> None:
    scale = np.arange(8, dtype=np.uint16)
    packed = packed_inputs(PROGRAM, {"rows": ROWS, "scale": scale})
    assert packed == packed_inputs(PROGRAM, {"scale": scale, "rows": ROWS.copy()}) and digest(packed)
    assert digest(packed) != digest(packed_inputs(PROGRAM, {"rows": ROWS + 1, "scale": scale}))
    found = read(keep(packed))
    assert sorted(len(array) for array in found.values()) == [8, 20]
    assert found.keys() < {"x0", "x1", "x2"}
    assert packed_inputs(PROGRAM, {}) == b"" and keep(b"") == "" and read("") == {} and digest(b"") == ""
    one = read(keep(pack({"x": np.array(3.0)})))["x"]
    assert one.shape == () and one == 3


@pytest.mark.parametrize("device", ["cpu", "cuda:emulator"])
def test_benches_take_what_is_given_and_draw_the_rest(device: str) -> None:
    text = print_program(PROGRAM)
    bench = bench_of(text, open_device(device), 1, {"rows": ROWS})
    arrays = [x if isinstance(x, np.ndarray) else x.numpy() for x in bench.timed]
    assert (arrays[1] == 7).all() and len(np.unique(arrays[0])) > 100
    assert bench.constants[0].dtype == bf16.numpy and len(np.unique(bench.constants[0])) > 2


def test_times_of_different_inputs_are_of_different_tasks_to_a_runner() -> None:
    jobs = [Job(n, "p", "", {}, "t", 1, inputs=data) for n, data in enumerate((b"", b"one", b"two", b"one"))]
    tasks = [task_of(job) for job in jobs]
    assert len(set(tasks)) == 3 and tasks[1] == tasks[3] and tasks[0] == ("p", "t", 1)


def test_trials_run_on_them_and_the_run_says_so(tmp_path: Path) -> None:
    """From the command line; times on other inputs do not count for a search."""
    db, file, text = tmp_path / "a.sqlite", tmp_path / "real.npz", tmp_path / "p.tensor"
    np.savez(file, rows=ROWS)
    text.write_text(print_program(PROGRAM))
    command = ["-m", "tilesmith", "run", text, "--trials", "2", "--threads", "1", "--db", db]
    command += ["--effort", "quick", "--no-progress"]
    for more in ([], ["--inputs", str(file)]):
        done = run_python(*command, *more, timeout=100)
        assert done.returncode == 0, done.stderr
    with Database(db, read_only=True) as database:
        (task,) = database.tasks()
        runs = {run.id: json.loads(run.request).get("inputs") for run in database.runs(task.key)}
        records = database.records(task.key)
    assert sorted(map(str, runs.values())) == sorted(["None", digest(packed_inputs(PROGRAM, {"rows": ROWS}))])
    assert all(record.trial.measurement.ok for record in records)
    assert None not in {runs[r.trial.run] for r in records[-2:]}  # the same candidates were measured again, on these


def test_what_is_no_archive_is_one_error(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", ROWS)
    np.savez(tmp_path / "objects.npz", rows=np.array([object()]))
    (tmp_path / "text.npz").write_text("rows")
    for name in ("one.npy", "objects.npz", "text.npz", "missing.npz"):
        with pytest.raises(ArgumentError, match="cannot be read"):
            read_inputs(tmp_path / name)


def test_a_kernel_times_itself_on_indices_in_range() -> None:
    kernel = tilesmith.compile(ops.embedding(tokens=64, vocabulary=500, width=4), threads=1)
    assert max(int(array.max()) for array in kernel._random_inputs() if array.dtype == np.int64) > 300
