"""A matmul and a softmax over its rows in one nest: a block of rows goes through all stages while it is in the cache."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import LoopHandle, Schedule
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse


def matmul_softmax(m: int, n: int, k: int) -> Program:
    return canonical(
        parse(f"""
        input A: f32[{m}, {k}]
        input B: f32[{k}, {n}]
        c[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
        top[i: {m}] = max[k: {n}](c[i, k])
        e[i: {m}, j: {n}] = exp(c[i, j] - top[i])
        total[i: {m}] = sum[k: {n}](e[i, k])
        y[i: {m}, j: {n}] = e[i, j] / total[i]
        return y
        """)
    )


def rows_in_cache(s: Schedule) -> None:
    lanes = s.lanes(f32)
    i, j = s.stage("t4").loops
    i0, i1 = s.split(i, s.factor("i.block", default=12))
    j0, j1 = s.split(j, lanes)
    s.reorder(i0, i1, j0, j1)
    s.parallel(i0)
    s.vectorize(j1)

    def row_sum(stage: str, name: str) -> None:
        _, k = s.compute_at(stage, i0).loops
        _, k1, k2 = s.split(k, s.factor(name, at_most=8, default=4), lanes)
        s.unroll(k1)
        s.vectorize(k2)

    def row(stage: str, at: LoopHandle) -> None:
        _, j = s.compute_at(stage, at).loops
        s.vectorize(s.split(j, lanes)[1])

    row_sum("t3", "total.sums")
    if s.variant("keep exponentials", [True, False]):
        row("t2", i0)
    else:
        s.inline("t2")
    row_sum("t1", "top.sums")

    i, j, k = s.compute_at("t0", i0).loops
    ci0, ci1 = s.split(i, s.factor("i.tile", at_most=14, default=6))
    cj0, cj1, cj2 = s.split(j, s.factor("j.vectors", at_most=4, default=2), lanes)
    k0, k1 = s.split(k, s.factor("k.unroll", at_most=8, default=4))
    s.reorder(cj0, ci0, k0, k1, ci1, cj1, cj2)
    s.unroll(k1, ci1, cj1)
    s.vectorize(cj2)
    s.require(ci1.extent * cj1.extent + cj1.extent < s.target("vector_registers"), "the tile fits in the registers")


class TestMatmulSoftmax(AcceptanceContract):
    template = rows_in_cache
    large = matmul_softmax(4096, 1000, 256)
    small = (matmul_softmax(7, 13, 5), matmul_softmax(1, 3, 2))
    titles = ("rows_in_cache(keep exponentials=true)", "rows_in_cache(keep exponentials=false)")
    outline = """
t4: pointwise
  parallel t4.a0.p0: 342
    t0: sum
      for t0.a1.p0: 32
        for t0.a0.p0: 2
          for t0.a2.p0: 64
            unroll t0.a2.p1: 4
              unroll t0.a0.p1: 6
                unroll t0.a1.p1: 2
                  vector t0.a1.p2: 16
                    t0 += f(x0, x1)
    t1: max
      for t1.a0: 12
        for t1.a1.p0: 16
          unroll t1.a1.p1: 4
            vector t1.a1.p2: 16
              t1 max= f(t0)
    t2: pointwise
      for t2.a0: 12
        for t2.a1.p0: 63
          vector t2.a1.p1: 16
            t2 = f(t0, t1)
    t3: sum
      for t3.a0: 12
        for t3.a1.p0: 16
          unroll t3.a1.p1: 4
            vector t3.a1.p2: 16
              t3 += f(t2)
    for t4.a0.p1: 12
      for t4.a1.p0: 63
        vector t4.a1.p1: 16
          t4 = f(t2, t3)
"""
