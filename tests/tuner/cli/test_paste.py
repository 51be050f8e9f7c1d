"""The lines that `tune run` and `tune best` print run as they are, in the folder of the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from helpers.warm.client import run_python
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tuner.cli.named.what import read_what
from tilesmith.tuner.cli.report import paste_lines
from tilesmith.tuner.display import display_text
from tilesmith.tuner.records.data import TaskIdentity

LAYER = """\
input x: bf16[4, 8]
constant w: f32[8, 6]
constant b: bf16[6]
y[i: 4, j: 6] = sum[k: 8](f32(x[i, k]) * w[k, j])
z[i: 4, j: 6] = y[i, j] + f32(b[j])
return z
"""
MODULE = "import tilesmith\ndef double(n: int) -> object:\n    a = tilesmith.placeholder((n,), name='a')\n" + (
    "    return tilesmith.program(tilesmith.compute((n,), lambda i: a[i] * 2, name='b'))\n"
)


def identity(program: ts.Program, threads: int, target: str = "host") -> TaskIdentity:
    task = Task.of(program, parse_target(target), threads)
    return TaskIdentity("", "", task.text, display_text(program), task.target.key, task.target.text, threads)


@pytest.mark.parametrize(("words", "constants", "target", "db"), [
    (["matmul", "m=4", "n=8", "k=6"], ["B"], "host", None),
    (["layer's.tensor"], [], "host", "a b.jsonl"),
    (["layer's.tensor"], [], "x86:avx2", None),
    (["own_module:double", "n=8"], [], "host", "other.sqlite"),
    ([], [], "host", None),
])  # fmt: skip
def test_they_run(
    words: list[str], constants: list[str], target: str, db: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("layer's.tensor").write_text(LAYER, encoding="utf-8-sig")
    Path("own_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    what = read_what(words[0], words[1:], constants) if words else None
    program = what.program if what else ts.parse(LAYER)
    lines = paste_lines(identity(program, 2, target), what, None if db is None else Path(db))
    check = "print(kernel.artifact.threads, kernel.artifact.target.partition(';')[0], len(kernel.artifact.inputs))"
    done = run_python("-c", f"{lines}\n{check}", timeout=60)
    assert done.returncode == 0, f"{lines}\n{done.stderr}"
    threads, where, inputs = done.stdout.split()
    assert threads == "2" and int(inputs) == len(program.dynamic_inputs)
    assert target == "host" or where.startswith(target)


def test_values_of_constants_are_to_be_put_in() -> None:
    lines = paste_lines(identity(ts.parse(LAYER), 1), None, None)
    names: dict[str, object] = {}
    exec(lines.partition("kernel = ")[0], names)
    constants = names["constants"]
    assert isinstance(constants, dict) and list(constants) == ["w", "b"]
    assert constants["w"].shape == (8, 6) and constants["w"].dtype == np.float32
    assert lines.count("# your values here") == 2
