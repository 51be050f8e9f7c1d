"""A padded 3x3 convolution: channels in vectors, weights packed once, rows of the input packed on the way."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor import ops
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical


def convolution(c: int, h: int, w: int, o: int) -> Program:
    made = ops.conv2d(1, c, h, w, o, padding=1)
    constant = ops.conv2d(1, c, h, w, o, padding=1, constants=[made.inputs[1].tensor.name])
    return canonical(constant)


def packed(s: Schedule) -> None:
    n, o, y, x, c, r, q = s.stage("t0").loops
    o0, o1, o2 = s.split(o, s.factor("o.vectors", at_most=4, default=2), s.lanes(f32))
    y0, y1 = s.split(y, s.factor("y.block", default=4))
    x0, x1 = s.split(x, s.factor("x.tile", at_most=14, default=6))
    c0, c1 = s.split(c, s.factor("c.block", default=16))
    s.reorder(n, o0, y0, c0, y1, x0, c1, r, q, x1, o1, o2)
    s.parallel(n, o0, y0)
    s.unroll(x1, o1)
    s.vectorize(o2)

    wo, wc, wr, wq = s.stage(s.copy("x1", "t0").name).loops
    w0, w1, w2 = s.split(wo, o1.extent, o2.extent)
    s.reorder(w0, wc, wr, wq, w1, w2)
    s.unroll(w1)
    s.vectorize(w2)

    if s.variant("pack rows", [True, False]):
        s.compute_at(s.copy("x0", "t0").name, c0)
    s.require(x1.extent * o1.extent + o1.extent < s.target("vector_registers"), "the tile fits in the registers")


class TestPackedConvolution(AcceptanceContract):
    template = packed
    large = convolution(64, 56, 56, 128)
    small = (convolution(2, 4, 5, 6), convolution(1, 3, 3, 2))
    titles = ("packed(pack rows=true)", "packed(pack rows=false)")
    outline = """
copy0: copy of x1
  for copy0.a0.p0: 4
    for copy0.a1: 64
      for copy0.a2: 3
        for copy0.a3: 3
          unroll copy0.a0.p1: 2
            vector copy0.a0.p2: 16
              copy0 = f(x1)
t0: sum
  parallel t0.a0: 1
    parallel t0.a1.p0: 4
      parallel t0.a2.p0: 14
        for t0.a4.p0: 4
          copy1: copy of x0
            for copy1.a0: 1
              for copy1.a1: 16
                for copy1.a2: 6
                  for copy1.a3: 58
                    copy1 = f(x0)
          for t0.a2.p1: 4
            for t0.a3.p0: 10
              for t0.a4.p1: 16
                for t0.a5: 3
                  for t0.a6: 3
                    unroll t0.a3.p1: 6
                      unroll t0.a1.p1: 2
                        vector t0.a1.p2: 16
                          t0 += f(copy1, copy0)
"""
