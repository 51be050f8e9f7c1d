"""A packed, blocked matmul with its reduction outermost inside of a block, and an epilogue on the finished block."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse


def matmul_bias_relu(m: int, n: int, k: int) -> Program:
    return canonical(
        parse(f"""
        input A: f32[{m}, {k}]
        input B: f32[{k}, {n}]
        input bias: f32[{n}]
        C[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
        D[i: {m}, j: {n}] = max(C[i, j] + bias[j], 0)
        return D
        """)
    )


def tiled(s: Schedule) -> None:
    out = s.stage("t1")
    i, j = out.loops
    i0, i1, i2 = s.split(i, s.factor("i.block", default=8), s.factor("i.tile", at_most=14, default=6))
    block, vectors = s.factor("j.block", default=4), s.factor("j.vectors", at_most=4, default=2)
    j0, j1, j2, j3 = s.split(j, block, vectors, s.lanes(f32))
    s.reorder(j0, i0, i1, j1, i2, j2, j3)
    s.parallel(j0, i0)
    s.unroll(i2, j2)
    s.vectorize(j3)

    i, j, k = s.compute_at("t0", i0).loops
    ci0, ci1 = s.split(i, i2.extent)
    cj0, cj1, cj2 = s.split(j, j2.extent, j3.extent)
    k0, k1, k2 = s.split(k, s.factor("k.block", default=64), s.factor("k.unroll", at_most=8, default=4))
    s.reorder(k0, cj0, ci0, k1, k2, ci1, cj1, cj2)
    s.unroll(k2, ci1, cj1)
    s.vectorize(cj2)

    k, j = s.compute_at(s.copy("x1", "t0").name, k0).loops
    pj0, pj1, pj2 = s.split(j, j2.extent, j3.extent)
    s.reorder(pj0, k, pj1, pj2)
    s.unroll(pj1)
    s.vectorize(pj2)

    if s.variant("pack A", [True, False]):
        i, k = s.compute_at(s.copy("x0", "t0").name, k0).loops
        pi0, pi1 = s.split(i, i2.extent)
        s.reorder(pi0, k, pi1)
        s.unroll(pi1)
    s.require(
        i2.extent * j2.extent + j2.extent + 1 <= s.target("vector_registers"),
        "accumulators, a row of vectors and a broadcast fit in the registers",
    )


class TestBlockedMatmul(AcceptanceContract):
    template = tiled
    large = matmul_bias_relu(1024, 1024, 1024)
    small = (matmul_bias_relu(13, 21, 11), matmul_bias_relu(7, 3, 5))
    titles = ("tiled(pack A=true)", "tiled(pack A=false)")
    outline = """
t1: pointwise
  parallel t1.a1.p0: 8
    parallel t1.a0.p0: 22
      t0: sum
        for t0.a2.p0: 4
          copy0: copy of x1
            for copy0.a1.p0: 4
              for copy0.a0: 256
                unroll copy0.a1.p1: 2
                  vector copy0.a1.p2: 16
                    copy0 = f(x1)
          copy1: copy of x0
            for copy1.a0.p0: 8
              for copy1.a1: 256
                unroll copy1.a0.p1: 6
                  copy1 = f(x0)
          for t0.a1.p0: 4
            for t0.a0.p0: 8
              for t0.a2.p1: 64
                unroll t0.a2.p2: 4
                  unroll t0.a0.p1: 6
                    unroll t0.a1.p1: 2
                      vector t0.a1.p2: 16
                        t0 += f(copy1, copy0)
      for t1.a0.p1: 8
        for t1.a1.p1: 4
          unroll t1.a0.p2: 6
            unroll t1.a1.p2: 2
              vector t1.a1.p3: 16
                t1 = f(t0, x2)
"""
