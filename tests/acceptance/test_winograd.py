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
    padded, columns, data, products, out = _roles(program)
    o, i, j, u, v = s.stage(out).loops
    j0, j1 = s.split(j, s.lanes(f32))
    s.reorder(o, i, j0, u, v, j1)
    s.parallel(o, i)
    s.vectorize(j1)

    u, v, t, o, c = s.stage(products).loops
    t0, t1 = s.split(t, s.factor("t.tile", at_most=8, default=6))
    o0, o1, o2 = s.split(o, s.factor("o.vectors", at_most=4, default=2), s.lanes(f32))
    c0, c1 = s.split(c, s.factor("c.unroll", at_most=8, default=4))
    s.reorder(u, v, o0, t0, c0, c1, t1, o1, o2)
    s.parallel(u, v)
    s.unroll(c1, t1, o1)
    s.vectorize(o2)
    s.require(t1.extent * o1.extent + o1.extent < s.target("vector_registers"), "the tile fits in the registers")

    u, v, t, c, q = s.stage(data).loops
    s.reorder(t, c, u, v, q)
    s.parallel(t)
    s.inline(padded)
    u, t, q, c, r = s.compute_at(columns, s.stage(data).loops[1]).loops
    s.unroll(*s.split(r, r.extent)[1:])


def _roles(program: Program) -> tuple[str, str, str, str, str]:
    """(padded input, data after one transform, after both, products, output)."""
    (padded,) = [stage.name for stage in program.stages if stage.combiner is None]
    (columns,) = [stage.name for stage in program.consumers[padded]]
    (data,) = [stage.name for stage in program.consumers[columns]]
    (products,) = [stage.name for stage in program.consumers[data]]
    (out,) = [stage.name for stage in program.consumers[products]]
    return padded, columns, data, products, out


class TestWinograd(AcceptanceContract):
    template = winograd
    large = convolution(64, 56, 56, 64)
    small = (convolution(2, 5, 4, 3), convolution(1, 3, 2, 1))
    titles = ("winograd(tile=2)", "winograd(tile=4)")
    outline = """
t2: sum
  parallel t2.a2: 784
    for t2.a3: 64
      t1: sum
        for t1.a0: 4
          for t1.a1: 1
            for t1.a2: 4
              for t1.a3: 1
                for t1.a4.p0: 1
                  unroll t1.a4.p1: 4
                    t1 += f(c0, x0)
      for t2.a0: 4
        for t2.a1: 4
          for t2.a4: 4
            t2 += f(c0, t1)
t3: sum
  for t3.a0: 4
    for t3.a1: 4
      for t3.a2: 64
        for t3.a3: 64
          for t3.a4: 3
            for t3.a5: 3
              t3 += f(c1, x1)
t4: sum
  parallel t4.a0: 4
    parallel t4.a1: 4
      for t4.a3.p0: 2
        for t4.a2.p0: 131
          for t4.a4.p0: 16
            unroll t4.a4.p1: 4
              unroll t4.a2.p1: 6
                unroll t4.a3.p1: 2
                  vector t4.a3.p2: 16
                    t4 += f(t2, t3)
t5: sum
  parallel t5.a0: 64
    parallel t5.a1: 56
      for t5.a2.p0: 4
        for t5.a3: 4
          for t5.a4: 4
            vector t5.a2.p1: 16
              t5 += f(c2, t4)
"""
    largest = 20_000
