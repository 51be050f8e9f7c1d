"""A convolution as a matmul on a GPU: columns are gathered into shared memory while blocks and threads multiply tiles."""

from __future__ import annotations

from contracts.acceptance import AcceptanceContract
from tilesmith.schedules.extents import Extent
from tilesmith.schedules.schedule import LoopHandle, Schedule
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical


def convolution(c: int, h: int, w: int, o: int) -> Program:
    return canonical(ops.conv2d(1, c, h, w, o, padding=1))


def implicit_gemm(s: Schedule) -> None:
    s.rewrite("merge_axes", stage="t0", axes=["a2", "a3"])
    s.rewrite("merge_axes", stage="t0", axes=["a3", "a4", "a5"])
    s.rewrite("im2col", stage="t0", tensor="x0")  # t0: the columns, t1: the product

    n, o, p, k = s.stage("t1").loops
    o0, o1, o2 = s.split(o, s.factor("o.threads", at_most=32, default=8), s.factor("o.tile", at_most=8, default=4))
    p0, p1, p2 = s.split(p, s.factor("p.threads", at_most=64, default=32), s.factor("p.tile", at_most=8, default=4))
    k0, k1 = s.split(k, s.factor("k.block", at_most=64, default=16))
    s.reorder(n, o0, p0, k0, o1, p1, k1, o2, p2)
    s.bind("block", 2, n)
    s.bind("block", 1, o0)
    s.bind("block", 0, p0)
    s.bind("thread", 1, o1)
    s.bind("thread", 0, p1)
    s.unroll(o2, p2)
    s.pipeline(k0, s.choice("stages", [1, 2, 3, 4], 2))

    def stage(tensor: str, threads: Extent) -> str:
        """A copy of a tile in shared memory; all threads of the block take part."""
        made = s.compute_at(s.copy(tensor, "t1", "shared").name, k0)
        *rest, last = made.loops
        last0, last1 = s.split(last, threads)
        s.reorder(*rest, last0, last1)
        s.bind("thread", 0, last1)
        s.pad_layout(made.name, s.choice(f"{tensor}.pad", [0, 1, 4], 0))
        return made.name

    columns = stage("t0", p1.extent)
    s.inline("t0")  # the gather is done while the tile is copied
    weights = stage("x1", p1.extent)
    if s.variant("swizzle", [False, True]):
        s.swizzle(columns, s.choice("columns.bits", [0, 2, 3], 3))
        s.swizzle(weights, s.choice("weights.bits", [0, 2, 3], 3))
    s.require(o1.extent * p1.extent <= 1024, "a block has at most 1024 threads")
    s.require(_tile(o1, o2, p1, p2) * k1.extent * 4 <= 96 * 1024, "the tiles fit in shared memory")


def _tile(o1: LoopHandle, o2: LoopHandle, p1: LoopHandle, p2: LoopHandle) -> Extent:
    return o1.extent * o2.extent + p1.extent * p2.extent


class TestImplicitGemm(AcceptanceContract):
    template = implicit_gemm
    large = convolution(64, 56, 56, 128)
    small = (convolution(2, 4, 5, 6),)
    titles = ("implicit_gemm(swizzle=false)", "implicit_gemm(swizzle=true)")
    refusal = "bound to GPU .*, which no CPU has"
    outline = """
t1: sum, pipeline t1.a3.p0 2
  block.2 t1.a0: 1
    block.1 t1.a1.p0: 4
      block.0 t1.a2.p0: 25
        for t1.a3.p0: 36
          copy0: copy of t0 in shared, pad_layout 0
            for copy0.a0: 1
              for copy0.a1: 128
                for copy0.a2.p0: 1
                  thread.0 copy0.a2.p1: 32
                    copy0 = f(x0)
          copy1: copy of x1 in shared, pad_layout 0
            for copy1.a0: 32
              for copy1.a1.p0: 1
                thread.0 copy1.a1.p1: 32
                  copy1 = f(x1)
          thread.1 t1.a1.p1: 8
            thread.0 t1.a2.p1: 32
              for t1.a3.p1: 16
                unroll t1.a1.p2: 4
                  unroll t1.a2.p2: 4
                    t1 += f(copy0, copy1)
"""
