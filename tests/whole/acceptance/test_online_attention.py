"""Attention in one pass over the keys: a fold carries maximum, total and weighted sum; scores are made block by block."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.schedule import Schedule
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.ops import attention
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical


def heads(count: int, queries: int, keys: int, width: int) -> Program:
    return canonical(attention(count, queries, keys, width))


def online(s: Schedule) -> None:
    program = s.rewrite("online_softmax", stage="t2")
    (fold,) = [stage.name for stage in program.stages if stage.fold is not None]
    scores, scaled = (stage.name for stage in program.stages[:2])
    h, i, d = s.stage(program.outputs[0]).loops
    i0, i1 = s.split(i, s.factor("i.block", default=16))
    s.reorder(h, i0, i1, d)
    s.parallel(h, i0)

    s.inline(scaled)
    made = s.compute_at(fold, i0)
    (_, i, d), (j,) = made.axes, made.reduction
    j0, j1 = s.split(j, s.factor("j.block", default=64))
    d0, d1 = s.split(d, s.lanes(f32))
    s.reorder(j0, i, j1, d0, d1)
    s.vectorize(d1)

    _, i, j, k = s.compute_at(scores, j0).loops
    si0, si1 = s.split(i, s.factor("scores.rows", at_most=8, default=4))
    sj0, sj1, sj2 = s.split(j, s.factor("scores.vectors", at_most=4, default=2), s.lanes(f32))
    s.reorder(si0, sj0, k, si1, sj1, sj2)
    s.unroll(si1, sj1)
    s.vectorize(sj2)


class TestOnlineAttention(AcceptanceContract):
    template = online
    large = heads(16, 1024, 1024, 64)
    small = (heads(2, 7, 9, 5), heads(1, 3, 2, 9))
    titles = ("online",)
    outline = """
t5: pointwise
  parallel t5.a0: 16
    parallel t5.a1.p0: 64
      t2, t3, t4: fold
        for t2.a0: 1
          for t2.a3.p0: 16
            t0: sum
              for t0.a0: 1
                for t0.a1.p0: 4
                  for t0.a2.p0: 2
                    for t0.a3: 64
                      unroll t0.a1.p1: 4
                        unroll t0.a2.p1: 2
                          vector t0.a2.p2: 16
                            t0 += f(x0, x1)
            for t2.a1: 16
              for t2.a3.p1: 64
                for t2.a2.p0: 4
                  vector t2.a2.p1: 16
                    t2, t3, t4 = f(t0, x2)
      for t5.a1.p1: 16
        for t5.a2: 64
          t5 = f(t4, t3)
"""
