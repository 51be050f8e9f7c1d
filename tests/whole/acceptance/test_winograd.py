"""A 3x3 convolution by Winograd's minimal filtering: transforms with tables, and 16 matmuls that are tiled as one."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse


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
    padded, columns, data, products, half, out = _roles(program)
    i, j, o, v = s.stage(out).loops
    o0, o1 = s.split(o, s.lanes(f32))
    s.reorder(i, j, o0, v, o1)
    s.parallel(i, j)
    s.vectorize(o1)

    v, i, j, o, u = s.stage(half).loops
    o0, o1 = s.split(o, s.lanes(f32))
    s.reorder(v, i, j, o0, u, o1)
    s.parallel(v, i)
    s.vectorize(o1)

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


def _roles(program: Program) -> tuple[str, str, str, str, str, str]:
    """(padded input, data after one transform, after both, products, output after one, after both)."""
    tables = {table.tensor.name for table in program.tables}
    (padded,) = [stage.name for stage in program.stages if stage.reads() and stage.reads()[0].tensor == "x0"][:1]
    (columns,) = [stage.name for stage in program.consumers[padded] if any(r.tensor in tables for r in stage.reads())]
    (data,) = [stage.name for stage in program.consumers[columns]]
    (products,) = [stage.name for stage in program.consumers[data]]
    (half,) = [stage.name for stage in program.consumers[products]]
    (out,) = [stage.name for stage in program.consumers[half]]
    return padded, columns, data, products, half, out


class TestWinograd(AcceptanceContract):
    template = winograd
    large = convolution(64, 56, 56, 64)
    small = (convolution(2, 5, 4, 3), convolution(1, 3, 2, 1))
    titles = ("winograd(tile=2)", "winograd(tile=4)")
    outline = """
t1: sum
  for t1.a0: 58
    for t1.a1: 58
      for t1.a2: 64
        t1 += f(x0)
t2: max
  for t2.a0: 56
    for t2.a1: 56
      for t2.a2: 3
        for t2.a3: 3
          t2 max= f(t1)
t3: max
  for t3.a0: 28
    for t3.a1: 28
      for t3.a2: 2
        for t3.a3: 2
          t3 max= f(t2)
t4: min
  for t4.a0: 28
    for t4.a1: 28
      for t4.a2: 2
        for t4.a3: 2
          t4 min= f(t2)
t5: pointwise
  for t5.a0: 28
    for t5.a1: 28
      t5 = f(t3, t4)
t6: max
  for t6.a0: 64
    for t6.a1: 64
      for t6.a2: 3
        for t6.a3: 3
          t6 max= f(x1)
t8: sum
  parallel t8.a2: 784
    for t8.a3: 64
      t7: sum
        for t7.a0: 4
          for t7.a1: 1
            for t7.a2: 4
              for t7.a3: 1
                for t7.a4.p0: 1
                  unroll t7.a4.p1: 4
                    t7 += f(c0, x0)
      for t8.a0: 4
        for t8.a1: 4
          for t8.a4: 4
            t8 += f(c0, t7)
t9: sum
  for t9.a0: 4
    for t9.a1: 4
      for t9.a2: 64
        for t9.a3: 64
          for t9.a4: 3
            for t9.a5: 3
              t9 += f(c1, x1)
t10: sum
  parallel t10.a0: 4
    parallel t10.a1: 4
      for t10.a3.p0: 2
        for t10.a2.p0: 131
          for t10.a4.p0: 16
            unroll t10.a4.p1: 4
              unroll t10.a2.p1: 6
                unroll t10.a3.p1: 2
                  vector t10.a3.p2: 16
                    t10 += f(t8, t9)
t11: sum
  parallel t11.a0: 4
    parallel t11.a1: 56
      for t11.a2: 28
        for t11.a3.p0: 4
          for t11.a4: 4
            vector t11.a3.p1: 16
              t11 += f(c2, t10)
t12: sum
  parallel t12.a0: 56
    parallel t12.a1: 56
      for t12.a2.p0: 4
        for t12.a3: 4
          vector t12.a2.p1: 16
            t12 += f(c2, t11)
t13: sum
  for t13.a0: 56
    for t13.a1: 56
      for t13.a2: 64
        for t13.a3: 64
          for t13.a4: 3
            for t13.a5: 3
              t13 += f(t5, t6, x0, x1)
t14: pointwise
  for t14.a0: 56
    for t14.a1: 56
      for t14.a2: 64
        t14 = f(t5, t6, t12, t13)
t15: pointwise
  for t15.a0: 64
    for t15.a1: 56
      for t15.a2: 56
        t15 = f(t14)
"""
    largest = 20_000
