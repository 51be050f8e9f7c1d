"""Outputs that share a stage, which is computed once: two of them in one nest, as a stage of two tensors."""

from __future__ import annotations

import pytest

from contracts.acceptance import AcceptanceContract
from tilesmith.common.errors import TemplateError
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.tensor.dtype import f32
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse


def two_outputs(m: int, n: int, k: int) -> Program:
    return canonical(
        parse(f"""
        input A: f32[{m}, {k}]
        input B: f32[{k}, {n}]
        input x: f32[{n}]
        t[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
        p, q[i: {m}, j: {n}] = max(t[i, j], 0), t[i, j] * x[j]
        s[i: {m}] = max[j: {n}](t[i, j])
        return p, q, s
        """)
    )


def shared(s: Schedule) -> None:
    _, j = s.stage("t3").loops
    s.vectorize(s.split(j, s.lanes(f32))[1])
    s.parallel(s.stage("t3").loops[0])
    for name in ("t1", "t0"):
        i, j, *reduction = s.stage(name).loops
        i0, i1 = s.split(i, s.factor(f"{name}.rows", at_most=8, default=4))
        j0, j1, j2 = s.split(j, s.factor(f"{name}.vectors", at_most=4, default=2), s.lanes(f32))
        s.reorder(i0, j0, *reduction, i1, j1, j2)
        s.parallel(i0)
        s.unroll(i1, j1)
        s.vectorize(j2)


def tile_by_tile(s: Schedule) -> None:
    i, j = s.stage("t1").loops
    i0, i1 = s.split(i, s.factor("rows", at_most=8, default=4))
    j0, j1, j2 = s.split(j, s.factor("vectors", at_most=4, default=2), s.lanes(f32))
    s.reorder(i0, j0, i1, j1, j2)
    s.parallel(i0)
    s.unroll(i1, j1)
    s.vectorize(j2)
    i, j, k = s.compute_at("t0", j0).loops
    _, i1 = s.split(i, i1.extent)
    _, j1, j2 = s.split(j, j1.extent, j2.extent)
    s.reorder(k, i1, j1, j2)
    s.unroll(i1, j1)
    s.vectorize(j2)


class TestSharedStage(AcceptanceContract):
    template = shared
    large = two_outputs(512, 1024, 256)
    small = (two_outputs(7, 13, 5), two_outputs(2, 3, 4))
    titles = ("shared",)
    outline = """
t0: sum
  parallel t0.a0.p0: 128
    for t0.a1.p0: 32
      for t0.a2: 256
        unroll t0.a0.p1: 4
          unroll t0.a1.p1: 2
            vector t0.a1.p2: 16
              t0 += f(x0, x1)
t1, t2: pointwise
  parallel t1.a0.p0: 128
    for t1.a1.p0: 32
      unroll t1.a0.p1: 4
        unroll t1.a1.p1: 2
          vector t1.a1.p2: 16
            t1, t2 = f(t0, x2)
t3: max
  parallel t3.a0: 512
    for t3.a1.p0: 64
      vector t3.a1.p1: 16
        t3 max= f(t0)
"""


class TestOutputInsideOfAnother(AcceptanceContract):
    """An output that is also read is made tile by tile, right before the tile that reads it."""

    template = tile_by_tile
    large = canonical(
        parse("""
        input A: f32[1024, 256]
        input B: f32[256, 512]
        t[i: 1024, j: 512] = sum[k: 256](A[i, k] * B[k, j])
        p[i: 1024, j: 512] = max(t[i, j], 0)
        return t, p
        """)
    )
    small = (
        canonical(
            parse("""
            input A: f32[9, 5]
            input B: f32[5, 13]
            t[i: 9, j: 13] = sum[k: 5](A[i, k] * B[k, j])
            p[i: 9, j: 13] = max(t[i, j], 0)
            return t, p
            """)
        ),
    )
    titles = ("tile_by_tile",)
    outline = """
t1: pointwise
  parallel t1.a0.p0: 256
    for t1.a1.p0: 16
      t0: sum
        for t0.a0.p0: 1
          for t0.a2: 256
            for t0.a1.p0: 1
              unroll t0.a0.p1: 4
                unroll t0.a1.p1: 2
                  vector t0.a1.p2: 16
                    t0 += f(x0, x1)
      unroll t1.a0.p1: 4
        unroll t1.a1.p1: 2
          vector t1.a1.p2: 16
            t1 = f(t0)
"""


def test_a_stage_with_a_reader_elsewhere_is_not_attached() -> None:
    def attached(s: Schedule) -> None:
        s.compute_at("t0", s.stage("t1").loops[0])

    with pytest.raises(TemplateError) as caught:
        trace(attached, two_outputs(4, 5, 6))
    assert "t3 reads it too and does not run there" in caught.value.problem
    assert "<-- here" in caught.value.where
