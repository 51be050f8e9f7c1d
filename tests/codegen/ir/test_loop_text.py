"""Printed loop IR parses back: the same text, and the same code, on a CPU and on a GPU; what is not as printed is told of."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config
from tilesmith.codegen.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopKind,
    LoopProgram,
    Nest,
    Prefetch,
    Scope,
    Shuffle,
    Store,
    Update,
)
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.codegen.pipeline import assembled, loop_program
from tilesmith.codegen.rows import PitchedRows
from tilesmith.common.errors import ProgramError
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dtype import boolean, f32, i64
from tilesmith.tensor.expr import Const, Op, Read, Var
from tilesmith.tensor.ops import OPERATORS
from tilesmith.tensor.ops.catalogue import example

TARGETS = ("x86:avx512", "cuda:sm_90a")


def drawn(name: str, target: str, sketches: int = 2) -> list[LoopProgram]:
    task, rng = Task.of(example(name), parse_target(target), 2), np.random.default_rng(0)
    chosen = [task.sketches[n] for n in rng.permutation(len(task.sketches))[:sketches]]
    configs = [(sketch, random_config(task, sketch, rng)) for sketch in chosen]
    return [loop_program(task.program, s, values, task.target) for s, values in configs if values is not None]


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_printed_parses_to_what_prints_so(target: str) -> None:
    for name in sorted(OPERATORS)[::6]:
        for loops in drawn(name, target):
            text = print_loops(loops)
            assert print_loops(parse_loops(text)) == text


@pytest.mark.parametrize("name", ["matmul", "softmax", "conv2d", "cumsum"])
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_parsed_is_the_same_code(name: str, target: str) -> None:
    for loops in drawn(name, target, 1):
        machine = parse_target(target)
        codes = [
            assembled(each, machine, 2, texts=True).texts["llvm"] for each in (loops, parse_loops(print_loops(loops)))
        ]
        assert codes[0] == codes[1]


def test_every_node_parses_back() -> None:
    i, one = Var("i_1"), Const(1, i64)
    a, r = Read("a", (i,), f32), Buffer("r_2", f32, (), Scope.REGISTER, padded=True)
    body = Block(
        (
            Allocate(r, Block((Store("r_2", (), a), Shuffle("r_2", "r_2", 4), Store("b", (i,), Read("r_2", (), f32))))),
            Let("k_3", Op("add", (i, one), i64), Prefetch("a", (Var("k_3"),), 2)),
            If(Op("lt", (i, one), boolean), Barrier(frozenset({"b"})), Update("b", (i,), "max", a)),
            Update("b", (i,), "prod", Read("w", (one,), f32)),
            Store("b", (one,), a, streaming=True),
        )
    )
    loop = For("i_1", Const(8, i64), body, LoopKind.THREAD, valid=Op("min", (one, i), i64), index=Var("thread_index"))
    table = Buffer("w", f32, (2,), Scope.TABLE, values=(1.5, -0.0))
    shared = Buffer("s", f32, (4, 8), Scope.SHARED, swizzle=3, slots=4)
    rows = Buffer("c", f32, (3, 8), Scope.INPUT, rows=PitchedRows(8, 24))
    arguments = (Buffer("a", f32, (8,), Scope.INPUT), rows, Buffer("b", f32, (8,), Scope.OUTPUT))
    program = LoopProgram("p", arguments, (table, shared), (Nest("w", Block(())),), (Nest("b", loop, 2, 32),))
    assert parse_loops(print_loops(program)) == program


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the first line is: program NAME"),
        ("loops p", "the first line is: program NAME"),
        ("program p\n  argument a: f31[2] in input", "a buffer, as in: copy0: f32[16, 64] in scratch padded"),
        (
            "program p\n  argument a: f32[2, 6] in input rows 5 pitch 8",
            "rows that begin where points of a dimension do",
        ),
        ("program p\nt0:", "a nest, as in: nest t0:"),
        ("program p\nnest t0:\n  for i:\n", "a loop, as in: for i_1 < i64(8) unroll 2:"),
        ("program p\nnest t0:\n  go on\n", "a statement of the loop IR"),
        ("program p\nnest t0:\n  b[0] = f32(1)\n", "a tensor declared above: there is none"),
    ],
)
def test_other_texts_are_refused(text: str, expected: str) -> None:
    with pytest.raises(ProgramError) as refused:
        parse_loops(text)
    assert refused.value.expected == expected
