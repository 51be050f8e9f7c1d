"""The structure of loop IR is all of it but for names: other names are the same code, anything else is another."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.pipeline.candidates import random_config
from tilesmith.codegen.emit.cpu.module import emit_nest
from tilesmith.codegen.ir import loop_ir
from tilesmith.codegen.ir.loop_ir import Buffer, LoopProgram, Nest, Statement
from tilesmith.codegen.ir.nest_part import NestPart, part_of
from tilesmith.codegen.ir.structure import BUFFERS, SILENT, VARIABLES, Structure
from tilesmith.codegen.pipeline import loop_program
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import expr
from tilesmith.tensor.expr import Expr
from tilesmith.tensor.ops.catalogue import example

TARGET = parse_target("x86:avx512")
PROGRAMS = ("matmul", "softmax", "conv2d", "cumsum", "layer_norm", "attention")
NODES = {
    kind
    for module in (loop_ir, expr)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Expr | Statement | Buffer) and kind not in (Expr, Statement)
}


@cache
def programs() -> tuple[LoopProgram, ...]:
    """Candidates of several operators."""
    rng, found = np.random.default_rng(0), []
    for name in PROGRAMS:
        task = Task.of(example(name), TARGET, 2)
        sketch = task.sketches[int(rng.integers(len(task.sketches)))]
        values = random_config(task, sketch, rng)
        if values is not None:
            found.append(loop_program(task.program, sketch, values, TARGET))
    assert len(found) > 3
    return tuple(found)


def renamed(node: Any) -> Any:
    """A node with other names, in another order of the alphabet."""
    if isinstance(node, tuple):
        return tuple(map(renamed, node))
    if type(node) not in NODES:
        return node
    kind = type(node)
    names = (VARIABLES.get(kind), *BUFFERS.get(kind, ()))
    values = {f.name: getattr(node, f.name) for f in fields(kind)}
    return kind(**{name: value[::-1] + "x" if name in names else renamed(value) for name, value in values.items()})


def parts(loops: LoopProgram) -> list[NestPart]:
    return [part_of(loops, nest, 2, "kernel.nest") for nest in (*loops.prepare, *loops.nests)]


def test_other_names_are_the_same_code() -> None:
    for loops in programs():
        bodies = tuple(replace(nest, name="other", body=renamed(nest.body)) for nest in loops.nests)
        other = replace(loops, arguments=renamed(loops.arguments), globals=renamed(loops.globals), nests=bodies)
        for one, two in zip(parts(replace(loops, prepare=())), parts(replace(other, prepare=())), strict=True):
            assert one.digest == two.digest and one.nest != two.nest
            if not one.tables:  # whose symbols have names
                assert emit_nest(one, TARGET).text() == emit_nest(two, TARGET).text()


def test_every_text_in_a_node_is_known_to_be_a_name_or_a_value() -> None:
    values = {("Op", "name"), ("Update", "combiner"), ("MatrixMultiply", "instruction")}
    for kind in NODES:
        for field in fields(kind):
            if field.type in ("str", "frozenset[str]") and (kind.__name__, field.name) not in values:
                known = (VARIABLES.get(kind), *BUFFERS.get(kind, ()), *SILENT.get(kind, ()))
                assert field.name in known or kind.__name__ == "Local", (kind, field.name)


def others(value: Any) -> list[Any]:
    """Values of the same kind that are not equal; none for parts, which have fields themselves."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1]
        case str():
            return [f"{value}2"]
        case frozenset():
            return [value | {"another"}]
    return []


def nodes(node: Any) -> list[Any]:
    """A node and all inside of it."""
    if isinstance(node, tuple):
        return [one for part in node for one in nodes(part)]
    if type(node) not in NODES:
        return []
    return [node, *(one for field in fields(node) for one in nodes(getattr(node, field.name)))]


@pytest.mark.parametrize("place", range(len(PROGRAMS) - 2))
def test_every_other_field_counts(place: int) -> None:
    """A field that did not count would let two nests share the code of one."""
    seen = set()
    for node in nodes(programs()[place].nests[0].body):
        kind = type(node)
        names = (VARIABLES.get(kind), *BUFFERS.get(kind, ()), *SILENT.get(kind, ()))
        for field in fields(kind):
            for value in others(getattr(node, field.name)):
                if field.name not in names:
                    seen.add((kind.__name__, field.name))
                    assert text(node) != text(replace(node, **{field.name: value})), (kind, field.name)
    assert len(seen) > 5


def text(node: Any) -> str:
    structure = Structure()
    structure.add(node)
    return structure.text


def test_names_count_by_where_they_are_the_same() -> None:
    i, j = expr.Var("i"), expr.Var("j")
    same, different = (loop_ir.Store("a", (i,), expr.Read("b", (x,), expr.i64)) for x in (i, j))
    assert text(same) != text(different)
    assert text(same) != text(replace(same, buffer="b"))
    assert part_of(LoopProgram("p", (), (), (), ()), Nest("n", same), 1, "s").digest
