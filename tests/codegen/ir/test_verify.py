"""The invariants of loop IR: faults in names, indices and operands, planted in valid programs, are found where they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.lowering.planting import (
    CPU,
    GPU,
    NAN,
    PROGRAMS,
    TWO,
    Node,
    Planted,
    any_node,
    assert_found,
    edited,
    index,
    of,
    plus,
    to,
)
from tilesmith.codegen.ir.loop_ir import (
    Block,
    Buffer,
    For,
    If,
    LoopProgram,
    Prefetch,
    Scope,
    Store,
    Update,
)
from tilesmith.codegen.ir.verify import faults
from tilesmith.codegen.passes.run import run_passes
from tilesmith.codegen.rows import PitchedRows
from tilesmith.common.errors import InternalError
from tilesmith.tensor.dtype import boolean, f16, f32, f64, i32, i64
from tilesmith.tensor.expr import Cast, Const, Op, Read, Var

FAULTS = {
    # names
    "a buffer nobody made": Planted(
        "cpu", Read, of(tensor="s"), to(tensor="d"), "no buffer 'd' is in scope", "acc[v, m] +="
    ),
    "a buffer out of scope": Planted(
        "cpu", Prefetch, any_node, to(buffer="acc"), "no buffer 'acc' is in scope", "prefetch"
    ),
    "a variable nobody binds": Planted(
        "cpu", Var, of(name="k"), to(name="z"), "no variable 'z' is bound", "acc[v, m] +="
    ),
    "a variable bound twice": Planted(
        "cpu", For, of(var="k"), to(var="b"), "'b' is bound already", "parallel b < i64(2)"
    ),
    "threads on a processor": Planted("cpu", Var, of(name="k"), to(name="thread_index"), "no variable", "acc[v, m] +="),
    "a buffer made twice": Planted(
        "cpu", Buffer, of(name="acc"), to(name="s"), "'s' is made where there is one", "allocate s"
    ),
    "arguments of one name": Planted("cpu", Buffer, of(name="w"), to(name="x"), "several buffers are called 'x'", ""),
    "no argument": Planted("cpu", Buffer, of(name="w"), to(scope=Scope.STACK), "'w' is in stack memory", ""),
    "an allocated argument": Planted(
        "cpu", Buffer, of(name="s"), to(scope=Scope.OUTPUT), "'s' is in output memory", "allocate s"
    ),
    "shared on a processor": Planted(
        "cpu", Buffer, of(name="s"), to(scope=Scope.SHARED), "'s' is in shared memory", "allocate s"
    ),
    "a table too short": Planted("cpu", Buffer, of(name="t"), to(values=(1.0,)), "'t' has 1 values", ""),
    "values of no table": Planted("cpu", Buffer, of(name="s"), to(values=(1.0,)), "'s' has 1 values", "allocate s"),
    "a swizzle of no use": Planted(
        "cpu", Buffer, of(name="s"), to(swizzle=2), "as only shared memory is", "allocate s"
    ),
    "rows inside of a dimension": Planted(
        "cpu", Buffer, of(name="x"), to(rows=PitchedRows(2, 99)), "'x' does not lie in PitchedRows", ""
    ),
    "rows of what is no argument": Planted(
        "cpu", Buffer, of(name="s"), to(rows=PitchedRows(1, 99)), "'s' does not lie in PitchedRows", "allocate s"
    ),
    "an input written": Planted(
        "cpu",
        Store,
        of(buffer="s"),
        lambda n: replace(n, buffer="x", indices=(Const(0, i64), *n.indices)),
        "'x' (input) is written",
        "x[i64(0), q] =",
    ),
    "a table written": Planted(
        "cpu",
        Store,
        of(buffer="s"),
        lambda n: replace(n, buffer="t", indices=(Const(0, i64),)),
        "'t' (table) is written",
        "t[i64(0)] =",
    ),
    "a constant at run time": Planted("cpu", Read, of(tensor="c"), to(tensor="w"), "reads the constant 'w'", "nest y"),
    "a call's nest prepares": Planted(
        "cpu",
        Store,
        of(buffer="s"),
        lambda n: replace(n, buffer="c", indices=(Const(0, i64),)),
        "prepares constants writes what belongs to a call",
        "nest y",
    ),
    "a register not yet written": Planted(
        "cpu", Store, of(buffer="acc"), lambda n: Block(()), "'acc' is read before anything is written", "acc[v, m] +="
    ),
    "memory never written": Planted(
        "cpu", Store, of(buffer="s"), lambda n: Block(()), "'s' is read before anything is written", "acc[v, m] +="
    ),
    # indices
    "too few indices": Planted(
        "cpu",
        Update,
        any_node,
        lambda n: replace(n, indices=n.indices[:1]),
        "1 indices of 'acc', which has 2",
        "acc[v] +=",
    ),
    "an index that is no i64": Planted(
        "cpu",
        Store,
        of(buffer="s"),
        lambda n: index(n, 0, Cast(n.indices[0], i32)),
        "an index is i32, not i64",
        "s[i32(q)]",
    ),
    "one row too far": Planted(
        "cpu",
        Store,
        of(buffer="y"),
        lambda n: index(n, 0, plus(n.indices[0], 26)),
        "index 0 of 'y' is 29, of 29",
        "=(stream)",
    ),
    "one element before the first": Planted(
        "cpu",
        Read,
        of(tensor="x"),
        lambda n: index(n, 1, plus(n.indices[1], -1)),
        "index 1 of 'x' is -1, of 37",
        "acc[v, m] +=",
    ),
    "a lane too far": Planted(
        "cpu",
        Read,
        of(tensor="x"),
        lambda n: index(n, 1, plus(n.indices[1], 20)),
        "index 1 of 'x' is 37, of 37",
        "acc[v, m] +=",
    ),
    "a shared row too far": Planted(
        "gpu",
        Read,
        of(tensor="sh"),
        lambda n: index(n, 1, plus(n.indices[1], 1)),
        "index 1 of 'sh' is 64, of 64",
        "r[u] =",
    ),
    "another block's rows": Planted(
        "gpu", Store, of(buffer="y"), lambda n: index(n, 0, plus(n.indices[0], 29)), "index 0 of 'y' is 64, of 64", "y["
    ),
    "a register too small": Planted(
        "cpu", Buffer, of(name="acc"), to(shape=(3, 16)), "index 0 of 'acc' is 3, of 3", "acc[u, l] ="
    ),
    "a register by a serial loop": Planted(
        "cpu", Update, any_node, lambda n: index(n, 0, Var("k")), "'acc' is indexed by what is not known", "acc[k, m]"
    ),
    "a fragment by threads": Planted(
        "gpu",
        Store,
        of(buffer="r"),
        lambda n: index(n, 0, Op("mod", (Var("l"), TWO), i64)),
        "'r' is indexed by what is not known",
        "r[l % 2]",
    ),
    # operands
    "operands of two types": Planted(
        "cpu", Read, of(tensor="s"), to(dtype=f64), "'mul' differ in dtype", "acc[v, m] +="
    ),
    "read as another type": Planted("cpu", Read, of(tensor="w"), to(dtype=f64), "holds f32, is read as f64", "c[a] ="),
    "stored as another type": Planted(
        "cpu", Store, of(buffer="acc"), to(value=NAN), "f64 is stored to 'acc', which holds f32", "acc[u, l] ="
    ),
    "wide where it is memory": Planted(
        "cpu", Buffer, of(name="s"), to(dtype=f16), "f32 is stored to 's', which holds f16", "s[q] ="
    ),
    "a result of another type": Planted(
        "cpu", Op, of(name="mul", dtype=f32), to(dtype=f64), "'mul' gives f32, not f64", "s[q] ="
    ),
    "a literal of another type": Planted(
        "cpu", Const, of(value=0.0, dtype=f32), to(value=0), "the literal 0 is no f32", "acc[u, l] ="
    ),
    "no such function": Planted(
        "cpu", Op, of(name="mul", dtype=f32), to(name="mull"), "unknown function 'mull'", "s[q] ="
    ),
    "a condition that is a number": Planted(
        "cpu", If, any_node, to(condition=Var("b")), "a condition is i64, not bool", "if b"
    ),
    "an extent that is no number": Planted(
        "cpu", For, of(var="q"), to(extent=Const(True, boolean)), "the extent of a loop is bool", "for q"
    ),
    "no such combiner": Planted(
        "gpu", Store, of(buffer="o"), lambda n: Update("o", (), "mean", n.value), "no combiner is called 'mean'", "mean"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_valid_program_has_no_fault(name: str) -> None:
    assert faults(PROGRAMS[name]) == []


@pytest.mark.parametrize("name", FAULTS)
def test_each_planted_fault_is_found_with_its_place(name: str) -> None:
    assert_found(FAULTS[name])


def test_a_pass_that_breaks_something_is_named() -> None:
    def forgetful(program: LoopProgram) -> LoopProgram:
        """Drops the first thing that is written."""
        return edited(program, lambda node: Block(()) if isinstance(node, Store) and node.buffer == "acc" else node)

    assert run_passes(CPU, ()) == CPU
    with pytest.raises(InternalError, match="after forgetful"):
        run_passes(CPU, (forgetful,))


def test_registers_of_narrow_floats_are_wide() -> None:
    def narrow(node: Node) -> Node:
        return replace(node, dtype=f16) if isinstance(node, Buffer) and node.name == "o" else node

    messages = [fault.text for fault in faults(edited(GPU, narrow))]
    assert messages == ["a shuffle from f16 to f32"]
