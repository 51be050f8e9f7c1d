"""A matmul with a long reduction and a small result: parts of the reduction run in parallel, a second stage adds them."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical


def product(m: int, n: int, k: int) -> Program:
    return canonical(matmul(m, n, k))


def split_k(s: Schedule) -> None:
    s.rewrite("split_k", stage="t0", axis="a2", parts=s.variant("parts", [2, 8]))  # t0: the parts, t1: their sum
    part, i, j, k = s.stage("t0").loops
    i0, i1 = s.split(i, s.factor("i.tile", at_most=14, default=6))
    j0, j1, j2 = s.split(j, s.factor("j.vectors", at_most=4, default=2), s.lanes(f32))
    k0, k1 = s.split(k, s.factor("k.unroll", at_most=8, default=4))
    s.reorder(part, i0, j0, k0, k1, i1, j1, j2)
    s.parallel(part)
    s.unroll(k1, i1, j1)
    s.vectorize(j2)
    s.require(i1.extent * j1.extent + j1.extent < s.target("vector_registers"), "the tile fits in the registers")

    i, j, part = s.stage("t1").loops
    j0, j1, j2 = s.split(j, s.factor("sum.vectors", at_most=4, default=2), s.lanes(f32))
    s.reorder(i, j0, part, j1, j2)
    s.parallel(i)
    s.unroll(j1)
    s.vectorize(j2)


class TestSplitK(AcceptanceContract):
    template = split_k
    large = product(64, 64, 65536)
    small = (product(5, 9, 19), product(1, 1, 8))
    titles = ("split_k(parts=2)", "split_k(parts=8)")
    outline = """
t0: sum
  parallel t0.a0: 2
    for t0.a1.p0: 11
      for t0.a2.p0: 2
        for t0.a3.p0: 8192
          unroll t0.a3.p1: 4
            unroll t0.a1.p1: 6
              unroll t0.a2.p1: 2
                vector t0.a2.p2: 16
                  t0 += f(x0, x1)
t1: sum
  parallel t1.a0: 64
    for t1.a1.p0: 2
      for t1.a2: 2
        unroll t1.a1.p1: 2
          vector t1.a1.p2: 16
            t1 += f(t0)
"""
