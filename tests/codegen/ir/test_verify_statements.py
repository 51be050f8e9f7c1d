"""The invariants of loop IR: loops and statements where they may not stand, planted in valid programs, are found there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.lowering.planting import (
    LT,
    TWO,
    Planted,
    any_node,
    around,
    assert_found,
    of,
    to,
)
from tilesmith.codegen.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    Buffer,
    Commit,
    For,
    If,
    LoopKind,
    MatrixMove,
    MatrixMultiply,
    Nest,
    Prefetch,
    Shuffle,
    Store,
    Wait,
)
from tilesmith.tensor.dtype import f32, f64, i64
from tilesmith.tensor.expr import Const, Op, Read, Var

FAULTS = {
    # loops
    "an extent known too late": Planted(
        "cpu", For, of(var="v"), to(extent=Var("size")), "'v' is not known when the code is written", "unroll v"
    ),
    "three lanes": Planted(
        "cpu",
        For,
        of(var="f"),
        to(extent=Const(3, i64)),
        "the 3 trips of the vector loop 'f' are no power of two",
        "vector f",
    ),
    "less than no trip": Planted(
        "cpu", For, of(var="q"), to(extent=Op("sub", (Var("size"), Const(5, i64)), i64)), "'q' runs -1 trips", "for q"
    ),
    "a serial loop in part": Planted(
        "cpu", For, of(var="q"), to(valid=TWO), "'q' has copies that are not real", "for q"
    ),
    "copies of a parallel loop": Planted("cpu", For, of(var="b"), to(unroll=2), "'b' asks for 2 copies", "parallel b"),
    "an index of a serial loop": Planted(
        "cpu", For, of(var="q"), to(index=TWO), "the serial loop 'q' has an index", "for q"
    ),
    "a thread loop without one": Planted(
        "gpu", For, of(var="w"), to(index=None), "the warp loop 'w' has no index", "warp w"
    ),
    "a trip too far": Planted(
        "gpu", For, of(var="w"), to(index=Var("thread_index")), "the trip of the loop 'w' is 63 of 2", "warp w"
    ),
    "a parallel loop on a GPU": Planted(
        "gpu", For, of(var="k"), to(kind=LoopKind.PARALLEL), "a parallel loop in a nest of a GPU", "parallel k"
    ),
    "a thread loop on a processor": Planted(
        "cpu",
        For,
        of(var="q"),
        to(kind=LoopKind.THREAD, index=TWO),
        "a thread loop in a nest of a processor",
        "thread q",
    ),
    "threads started in lanes": Planted(
        "cpu", Store, of(buffer="acc"), around(LoopKind.PARALLEL), "a parallel loop in a vector loop", "vector l"
    ),
    "blocks in a block": Planted(
        "gpu",
        Store,
        of(buffer="o"),
        around(LoopKind.BLOCK, 2, Const(0, i64)),
        "a block loop in a serial loop",
        "block z",
    ),
    "a register across threads": Planted(
        "cpu", For, of(var="u"), around(LoopKind.PARALLEL), "'acc' is used across a parallel loop", "parallel z"
    ),
    # statements
    "a barrier on a processor": Planted(
        "cpu",
        Store,
        of(buffer="s"),
        lambda n: Block((n, Barrier(frozenset(("s",))))),
        "threads that meet in a nest of a processor",
        "barrier s",
    ),
    "a barrier for nothing": Planted(
        "gpu", Barrier, any_node, to(buffers=frozenset(("a",))), "no buffer 'a' is in scope", "barrier a"
    ),
    "a barrier for some": Planted(
        "gpu", Barrier, any_node, lambda n: If(LT, n), "not all threads of the block come here", "if l < 7"
    ),
    "a wait in some": Planted(
        "gpu", Wait, any_node, lambda n: If(LT, n), "not all threads of the block come here", "wait(0)"
    ),
    "trips that differ": Planted(
        "gpu", For, of(var="k"), to(extent=Var("w")), "not all threads of the block come here", "for k < w"
    ),
    "a wait for less than none": Planted("gpu", Wait, any_node, to(groups=-1), "all but -1 groups", "wait(-1)"),
    "copies that nobody waits for": Planted(
        "gpu", Wait, any_node, lambda n: Block(()), "asynchronous stores without a wait", "nest y"
    ),
    "copies in no group": Planted(
        "gpu", Commit, any_node, lambda n: Block(()), "asynchronous stores without a commit", "nest y"
    ),
    "asynchronous to an output": Planted(
        "gpu",
        Store,
        of(buffer="y"),
        lambda n: replace(n, later=True),
        "asynchronous store to memory that is not shared",
        "y[",
    ),
    "ahead of no pipeline": Planted("gpu", Buffer, of(name="sh"), to(slots=1), "no slot of a pipeline", "=(ahead)"),
    "a shuffle of many": Planted(
        "gpu", Shuffle, any_node, to(source="r"), "'r' is no scalar in a register", "shuffle(r"
    ),
    "a shuffle of two lanes at once": Planted(
        "gpu", Shuffle, any_node, to(mask=3), "the mask 3 of a shuffle", "shuffle(o[], 3)"
    ),
    "a shuffle of two types": Planted(
        "gpu", Buffer, of(name="q"), to(dtype=f64), "a shuffle from f32 to f64", "shuffle"
    ),
    "a prefetch of registers": Planted(
        "gpu", Commit, any_node, lambda n: Block((n, Prefetch("o", ()))), "'o' is no memory", "prefetch"
    ),
    "no such locality": Planted("cpu", Prefetch, any_node, to(locality=4), "the locality 4", "prefetch(4)"),
    # the matrix unit
    "tiles of another shape": Planted(
        "tiles", Buffer, of(name="s"), to(shape=(1, 1, 16, 8)), "the tiles 's' are (1, 1, 16, 8)", "allocate s"
    ),
    "tiles as memory": Planted(
        "tiles",
        MatrixMove,
        any_node,
        lambda n: Store("y", (Const(0, i64),) * 2, Read("s", (Const(0, i64),) * 4, f32)),
        "the tiles 's' are no memory",
        "y[i64(0), i64(0)] =",
    ),
    "memory as tiles": Planted(
        "tiles", MatrixMove, any_node, to(tiles="y"), "'y' is no buffer of tiles", "tile y[0, 0]"
    ),
    "a tile that is not there": Planted(
        "tiles", MatrixMove, any_node, to(tile=(0, 1)), "there is no tile [0, 1]", "tile s[0, 1]"
    ),
    "more products than tiles": Planted(
        "tiles",
        MatrixMultiply,
        any_node,
        lambda n: replace(n, rows=n.rows * 2),
        "products of 2 by 1 tiles",
        "tiles s +=",
    ),
    "a pair that is not there": Planted(
        "tiles", MatrixMultiply, any_node, to(pairs=((0, 1),)), "there is no pair 0*1", "tiles s +="
    ),
    "an instruction of other sums": Planted(
        "tiles",
        MatrixMultiply,
        any_node,
        to(instruction="amx_u8_i8"),
        "'amx_u8_i8' adds to no tiles of f32",
        "tiles s +=",
    ),
    "rows too far apart": Planted(
        "tiles",
        MatrixMultiply,
        any_node,
        to(pitches=(16, 17)),
        "a tile ends at element 270 of 256 of 'v'",
        "tiles s +=",
    ),
    "words of floats": Planted("tiles", Buffer, of(name="x"), to(dtype=f32), "'x' is no memory of i32", "tiles s +="),
    "sums that begin nowhere": Planted(
        "tiles",
        Allocate,
        any_node,
        lambda n: replace(n, body=Block(n.body.body[1:])),
        "'s' is read before anything is written",
        "tiles s +=",
    ),
    "tiles on a GPU": Planted(
        "tiles", Nest, any_node, to(blocks=1, threads=32), "a matrix statement of processors", "tiles s = 0"
    ),
    "blocks without threads": Planted(
        "gpu", Nest, any_node, to(blocks=0), "a nest of 0 blocks of 64 threads", "nest y"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_planted_fault_is_found_with_its_place(name: str) -> None:
    assert_found(FAULTS[name])
