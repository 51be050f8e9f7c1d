"""Line tables of machine code point to what the setting says, and nothing else of the code is another."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import tilesmith as ts
from helpers.pipeline.drawn import drawn_program
from tilesmith.codegen.debug_info.places import debug_key, debug_source, printed_lines
from tilesmith.codegen.ir.loop_ir import Block, statements
from tilesmith.codegen.ir.printing import statement_lines
from tilesmith.codegen.pipeline import assembled, kernel_name, loop_ir, loop_tree
from tilesmith.common.errors import ScheduleError
from tilesmith.common.settings import DEBUG_STAGES
from tilesmith.runtime.kernel import Kernel
from tilesmith.schedules.loops import LoopTree
from tilesmith.schedules.space import config
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.expr import Expr
from tilesmith.tensor.origins import originating
from tilesmith.tensor.program import Origin, Program, Tensor

TEXT = """
input A: f32[32, 64]
input B: f32[64, 64]
input bias: f32[64]
C[i: 32, j: 64] = sum[k: 64](A[i, k] * B[k, j])
D[i: 32, j: 64] = max(C[i, j] + bias[j], 0)
return D
"""
WORDS = {  # what the line says that products, and the last maximum, are of
    "program": ("= sum[a2: 64]", "= max("),
    "outline": ("+= f(x0, x1)", "= f(t0, x2)"),
    "loops": ("+= x0[", "= max("),
}
pytestmark = pytest.mark.usefixtures("whole_drafts")  # lines are those of a certain pick
needs_objdump = pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump")


def compiled(monkeypatch: pytest.MonkeyPatch, stage: str, program: Program, threads: int = 1) -> Kernel:
    monkeypatch.setenv("TILESMITH_DEBUG_INFO", stage)
    return ts.compile(program, target="host", threads=threads)


def told(*command: object) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def source_line(place: str) -> str:
    path, _, line = place.rpartition(":")
    return Path(path).read_text().splitlines()[int(line) - 1]


def lines_of(code: bytes, folder: Path, instruction: str) -> set[str]:
    """The places of all instructions whose names match."""
    (folder / "code.o").write_bytes(code)
    place, found = "", set()
    for line in told("objdump", "-dl", "--no-show-raw-insn", folder / "code.o").splitlines():
        if re.match(r"(/|\w+\.py).*:\d+", line):
            place = line.partition(" (")[0]
        elif re.search(rf"\t{instruction}", line):
            found.add(place)
    return found


@needs_objdump
@pytest.mark.parametrize("stage", DEBUG_STAGES)
def test_instructions_are_of_the_lines_that_ask_for_them(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILESMITH_DEBUG_INFO", stage)
    artifact = ts.compile(ts.parse(TEXT), threads=2).artifact
    if "x86" not in artifact.target:
        pytest.skip("the names of instructions are those of x86")
    for instruction, word in zip(("vfmadd", "v?maxps"), WORDS[stage], strict=True):
        places = lines_of(artifact.code, tmp_path, instruction)
        assert places and all(word in source_line(place) for place in places), places


def default_trees(task: Task, most: int) -> Iterator[LoopTree]:
    """The trees of the first sketches, those whose default numbers are valid here."""
    for sketch in task.sketches[:most]:
        space = sketch.config_space(task.body, task.target)
        with suppress(ScheduleError):
            yield loop_tree(task.program, sketch, config(space, space.default), task.target)


def sections(code: bytes) -> dict[str, bytes]:
    return {(one.name() or b"").decode(): one.data() for one in llvm.ObjectFileRef.from_data(code).sections()}


@pytest.mark.parametrize("stage", DEBUG_STAGES)
def test_the_code_is_the_same(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = parse_target("x86:avx2")
    task = Task.of(ts.parse(TEXT), target, 2)
    for tree in default_trees(task, 2):
        loops, name = loop_ir(tree, target, 2, "k"), kernel_name(task.program)
        monkeypatch.delenv("TILESMITH_DEBUG_INFO", raising=False)
        assert debug_source(task.program, tree, name) is None
        plain = assembled(loops, target, 2, source=None)
        monkeypatch.setenv("TILESMITH_DEBUG_INFO", stage)
        told_of = assembled(loops, target, 2, source=debug_source(task.program, tree, name))
        parts = zip((plain.code, *plain.parts), (told_of.code, *told_of.parts), strict=True)
        for without, with_lines in parts:
            before, after = sections(without), sections(with_lines)
            assert before.get(".text") == after.get(".text") and not any(".debug" in name for name in before)
        assert any(".debug_line" in sections(code) for code in (told_of.code, *told_of.parts))


def test_artifacts_with_and_without_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ts.parse(TEXT)
    monkeypatch.delenv("TILESMITH_DEBUG_INFO", raising=False)
    keys = {debug_key(program)}
    assert keys == {""}
    for stage in DEBUG_STAGES:
        monkeypatch.setenv("TILESMITH_DEBUG_INFO", stage)
        keys.add(debug_key(program))
    assert len(keys) == 4
    monkeypatch.setenv("TILESMITH_DEBUG_INFO", "assembly")
    with pytest.raises(ts.errors.ArgumentError, match="TILESMITH_DEBUG_INFO"):
        debug_key(program)


def layers() -> Program:
    """A product, its norm and its activation, each from a line of a module."""
    at = "/models/net.py"
    with originating(Origin("linear", "block.fc", at, 31)):
        a, w = ts.placeholder((24, 32), name="a"), ts.placeholder((32, 40), name="w")
        k = ts.reduce_axis(32, "k")
        y = ts.compute((24, 40), lambda i, j: ts.sum(a[i, k] * w[k, j], k), name="y")
    with originating(Origin("scale", "block.norm", at, 32)):
        s = ts.compute((24, 40), lambda i, j: y[i, j] * 3, name="s")
    with originating(Origin("relu", "block.act", at, 33)):
        z = ts.compute((24, 40), lambda i, j: ts.maximum(s[i, j], 0), name="z")
    return ts.program([z])


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
def test_a_fused_kernel_lists_all_of_its_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(monkeypatch, "program", layers())
    path = tmp_path / "code.o"
    path.write_bytes(kernel.artifact.code)
    names = " ".join(re.findall(r"DW_AT_name.*: (.*)", told("readelf", "--debug-dump=info", path)))
    assert all(layer in names for layer in ("block.fc", "block.norm", "block.act"))
    table = told("readelf", "--debug-dump=decodedline", path)
    assert {"31", "33"} <= set(re.findall(r"net\.py\s+(\d+)", table))
    assert "linear_scale_relu_f32_24x40x32" in told("readelf", "-sW", path)
    assert {one.layer for one in kernel.profile().rows[0].call.origins} == {"block.fc", "block.norm", "block.act"}


def positive(a: Tensor, i: Expr) -> Expr:
    return ts.maximum(a[i], 0)


def test_equal_programs_of_other_lines_keep_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = []
    for line in (41, 57):
        with originating(Origin("relu", f"act{line}", "/models/net.py", line)):
            a = ts.placeholder((2000,), name="a")
            program = ts.program([ts.compute((2000,), partial(positive, a), name="z")])
        codes.append(compiled(monkeypatch, "program", program).artifact.code)
    assert [f"act{line}".encode() in code for code in codes for line in (41, 57)] == [True, False, False, True]


@pytest.mark.skipif(shutil.which("gdb") is None or shutil.which("cc") is None, reason="no gdb")
def test_a_debugger_finds_lines_of_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(monkeypatch, "program", layers())
    made = kernel.export(tmp_path / "out", name="net")
    said = told("gdb", "-batch", "-nx", "-ex", "info line net.py:31", made.shared)
    found = re.search(r"starts at address (0x[0-9a-f]+) <linear_scale_relu_f32_24x40x32", said)
    assert found, said
    if shutil.which("addr2line"):
        place = told("addr2line", "-f", "-i", "-e", made.shared, found[1]).splitlines()
        assert place[:2] == ["block.fc", "/models/net.py:31"] and "linear_scale_relu" in place[2]
    x, w = np.ones((24, 32), np.float32), np.ones((32, 40), np.float32)
    assert (ts.Kernel.load(tmp_path / "out")(x, w) == 96).all()


def test_statements_are_on_the_lines_on_which_they_are_printed() -> None:
    target = parse_target("x86:avx512")
    seen = 0
    for number in range(0, 60, 12):
        task = Task.of(drawn_program(number), target, 1)
        for tree in default_trees(task, 2):
            for nest in loop_ir(tree, target).nests:
                text, lines = statement_lines(nest.body), {}
                assert printed_lines(nest.body, 0, lines) == len(text)
                for one in statements(nest.body):
                    if not isinstance(one, Block):
                        assert text[lines[id(one)]].strip() == statement_lines(one)[0].strip()
                        seen += 1
    assert seen > 50
