"""Faults planted in valid loop IR, for its verifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest

from tilesmith.codegen.ir.loop_ir import (
    Buffer,
    For,
    LoopKind,
    LoopProgram,
    Nest,
    Statement,
)
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.verify import faults, verify
from tilesmith.common.errors import InternalError
from tilesmith.tensor.dtype import boolean, f64, i64
from tilesmith.tensor.expr import Const, Expr, Op, Var

CPU = parse_loops("""program p
  argument x: f32[29, 37] in input
  argument w: f32[8] in constant
  argument y: f32[29, 48] in output
  global t: f32[2] in table = [1.0, 2.0]
  global c: f32[8] in prepared
prepare c:
  for a < i64(8):
    c[a] = w[a]
nest y:
  parallel b < i64(2):
    let size = min(4, 29 - b * 16)
      allocate s: f32[16] in scratch
        for q < i64(16):
          s[q] = c[q % 8] * t[q % 2]
        allocate acc: f32[4, 16] in register
          unroll u < i64(4) valid size:
            vector l < i64(16):
              acc[u, l] = f32(0)
          for k < i64(3) unroll 2:
            unroll v < i64(4) valid size:
              vector m < i64(16):
                acc[v, m] += x[b * 16 + v, k + m] * s[m]
          unroll e < i64(4) valid size:
            vector f < i64(16):
              if b < 1:
                y[b * 16 + e, f] =(stream) acc[e, f]
              else:
                y[b * 16 + e, f] = acc[e, f]
        prefetch(3) x[b * 1000, 5]
""")
GPU = parse_loops("""program g
  argument x: f32[64, 32] in input
  argument y: f32[64, 32] in output
nest y of 2 blocks of 64 threads:
  block b = block_index < i64(2):
    warp w = thread_index // 32 < i64(2):
      thread l = thread_index % 32 < i64(32):
        allocate sh: f32[2, 64] in shared slots 2
          allocate r: f32[2] in register
            allocate o: f32[] in register
              allocate q: f32[] in register
                for k < i64(4):
                  sh[k % 2, w * 32 + l] =(later) x[b * 32 + k, l]
                  sh[(k + 1) % 2, w * 32 + l] =(ahead) x[b * 32 + k, l]
                  commit
                  wait(0)
                  barrier sh
                  unroll u < i64(2):
                    r[u] = sh[k % 2, l * 2 + u]
                  o[] = r[0] + r[1]
                  q[] = shuffle(o[], 16)
                  y[b * 32 + k, l] = q[]
""")
TILES = parse_loops("""program m
  argument x: i32[1, 1, 16, 16] in input
  argument v: i32[1, 1, 16, 16] in input
  argument y: f32[16, 16] in output
nest y:
  allocate s: f32[1, 1, 16, 16] in tile
    tiles s = 0
    tiles s += amx_bf16 0*0:
      rows 16 apart:
        0: x[0, 0, 0, 0]
      columns 16 apart:
        0: v[0, 0, 0, 0]
    rows 16 apart at y[0, 0] = tile s[0, 0]
""")
PROGRAMS = {"cpu": CPU, "gpu": GPU, "tiles": TILES}
Node = Any
TWO = Const(2, i64)


def edited(node: Node, change: Callable[[Node], Node]) -> Node:
    """A node with `change` done to every one inside of it, from the inside out."""
    if isinstance(node, tuple):
        return tuple(edited(part, change) for part in node)
    if not is_dataclass(node) or not isinstance(node, Expr | Statement | Buffer | Nest | LoopProgram):
        return node
    values = {field.name: getattr(node, field.name) for field in fields(node)}
    changed = {name: edited(value, change) for name, value in values.items()}
    return change(replace(node, **changed))


@dataclass(frozen=True)
class Planted:
    """A fault: in which program, in the first node of a kind for which `where` holds, and what is said of it, and where."""

    program: str
    kind: type
    where: Callable[[Node], bool]
    change: Callable[[Node], Node]
    message: str
    place: str


def of(**wanted: object) -> Callable[[Node], bool]:
    return lambda node: all(getattr(node, name) == value for name, value in wanted.items())


def to(**values: object) -> Callable[[Node], Node]:
    return lambda node: replace(node, **values)


def any_node(_: Node) -> bool:
    return True


def around(kind: LoopKind, extent: int = 2, index: Expr | None = None) -> Callable[[Node], Node]:
    """Another loop around a statement."""
    return lambda node: For("z", Const(extent, i64), node, kind, index=index)


def index(node: Node, place: int, other: Expr) -> Node:
    """A statement with another index."""
    return replace(node, indices=(*node.indices[:place], other, *node.indices[place + 1 :]))


def plus(expr: Expr, number: int) -> Expr:
    return Op("add", (expr, Const(number, i64)), i64)


LT = Op("lt", (Var("l"), Const(7, i64)), boolean)
NAN = Const(1.0, f64)


def assert_found(fault: Planted) -> None:
    """Plants a fault and looks for it."""
    planted = 0

    def plant(node: Node) -> Node:
        nonlocal planted
        if planted or not isinstance(node, fault.kind) or not fault.where(node):
            return node
        planted += 1
        return fault.change(node)

    broken = edited(PROGRAMS[fault.program], plant)
    assert planted == 1
    told = [one for one in faults(broken) if fault.message in one.text]
    assert told, [one.text for one in faults(broken)]
    assert fault.place in "\n".join(told[0].place)
    with pytest.raises(InternalError, match="breaks an invariant after it") as caught:
        verify(broken, "after it")
    assert caught.value.where
