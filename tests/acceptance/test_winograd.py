"""A 3x3 convolution by Winograd's minimal filtering: transforms with tables, and 16 matmuls that are tiled as one."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text import canonical, parse


def convolution(c: int, h: int, w: int, o: int) -> Program:
    return canonical(
        parse(f"""
        input x: f32[{c}, {h}, {w}]
        constant f: f32[{o}, {c}, 3, 3]
        p[c: {c}, i: {h + 2}, j: {w + 2}] = select(i >= 1 and i <= {h} and j >= 1 and j <= {w}, x[c, i - 1, j - 1], 0)
        y[o: {o}, i: {h}, j: {w}] = sum[c: {c}, r: 3, s: 3](p[c, i + r, j + s] * f[o, c, r, s])
        return y
        """)
    )


def winograd(s: Schedule) -> None:
    program = s.rewrite("winograd", stage="t1", rows="a1", columns="a2", tile=s.variant("tile", [2, 4]))
    names = [stage.name for stage in program.stages]
    padded, data, products, tiles, out = _roles(names, program)
    o, i, j = s.stage(out).loops
    s.vectorize(s.split(j, s.lanes(f32))[1])
    s.parallel(o, i)

    o, y, _, _, _, u, v = s.stage(tiles).loops
    s.parallel(o, y)
    s.unroll(u, v)

    u, v, o, y, x, c = s.stage(products).loops
    o0, o1 = s.split(o, s.factor("o.tile", at_most=8, default=6))
    x0, x1, x2 = s.split(x, s.factor("x.vectors", at_most=4, default=2), s.lanes(f32))
    c0, c1 = s.split(c, s.factor("c.unroll", at_most=8, default=4))
    s.reorder(u, v, y, o0, x0, c0, c1, o1, x1, x2)
    s.parallel(u, v, y)
    s.unroll(c1, o1, x1)
    s.vectorize(x2)
    s.require(o1.extent * x1.extent + x1.extent < s.target("vector_registers"), "the tile fits in the registers")

    u, v, c, y, x, r, q = s.stage(data).loops
    s.reorder(c, y, x, u, v, r, q)
    s.parallel(c, y)
    s.inline(padded)


def _roles(names: list[str], program: Program) -> tuple[str, str, str, str, str]:
    """(padded input, transformed data, products, transformed products, output)."""
    out = names[-1]
    (tiles,) = [r.tensor for r in program.stage(out).reads() if r.tensor in names]
    (products,) = [r.tensor for r in program.stage(tiles).reads() if r.tensor in names]
    sources = {r.tensor for r in program.stage(products).reads()}
    (padded,) = [n for n in names if program.stage(n).combiner is None and n != out]
    (data,) = [n for n in sources if padded in {r.tensor for r in program.stage(n).reads()}]
    return padded, data, products, tiles, out


class TestWinograd(AcceptanceContract):
    template = winograd
    large = convolution(64, 56, 56, 64)
    small = (convolution(2, 5, 4, 3), convolution(1, 3, 2, 1))
    titles = ("winograd(tile=2)", "winograd(tile=4)")
    outline = """
t0: sum
  for t0.a0: 4
    for t0.a1: 4
      for t0.a2: 64
        for t0.a3: 64
          for t0.a4: 3
            for t0.a5: 3
              t0 += f(c0, x1)
t2: sum
  parallel t2.a2: 64
    parallel t2.a3: 28
      for t2.a4: 28
        for t2.a0: 4
          for t2.a1: 4
            for t2.a5: 4
              for t2.a6: 4
                t2 += f(c1, x0)
t3: sum
  parallel t3.a0: 4
    parallel t3.a1: 4
      parallel t3.a3: 28
        for t3.a2.p0: 11
          for t3.a4.p0: 1
            for t3.a5.p0: 16
              unroll t3.a5.p1: 4
                unroll t3.a2.p1: 6
                  unroll t3.a4.p1: 2
                    vector t3.a4.p2: 16
                      t3 += f(t0, t2)
t4: sum
  parallel t4.a0: 64
    parallel t4.a1: 28
      for t4.a2: 28
        for t4.a3: 2
          for t4.a4: 2
            unroll t4.a5: 4
              unroll t4.a6: 4
                t4 += f(c2, t3)
t5: pointwise
  parallel t5.a0: 64
    parallel t5.a1: 56
      for t5.a2.p0: 4
        vector t5.a2.p1: 16
          t5 = f(t4)
"""
    largest = 20_000
