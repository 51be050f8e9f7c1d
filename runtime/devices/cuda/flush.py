"""A kernel that only reads: it fills a GPU's L2 with lines that nobody has to write back.

A write would empty the L2 too, but leaves it full of changed lines, whose way to memory falls into the time of what runs next.
The PTX is written by hand, for the oldest architecture that Tilesmith has targets for, so that every driver takes it.
"""

from __future__ import annotations

THREADS = 256
LINE = 16  # bytes that a thread reads
BLOCK = THREADS * LINE
SYMBOL = "tilesmith_read"

# The sum is stored only if it is a number that zeros never have: so the reads are needed, and nothing is written.
PTX = f"""\
.version 6.3
.target sm_75
.address_size 64
.visible .entry {SYMBOL}(.param .u64 memory)
{{
  .reg .b32 %r<10>;
  .reg .b64 %p<4>;
  .reg .pred %q;
  ld.param.u64 %p0, [memory];
  cvta.to.global.u64 %p0, %p0;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %tid.x;
  mad.lo.u32 %r0, %r0, {THREADS}, %r1;
  mul.wide.u32 %p1, %r0, {LINE};
  add.u64 %p2, %p0, %p1;
  ld.global.cg.v4.u32 {{%r2, %r3, %r4, %r5}}, [%p2];
  or.b32 %r6, %r2, %r3;
  or.b32 %r7, %r4, %r5;
  or.b32 %r8, %r6, %r7;
  setp.eq.u32 %q, %r8, 1234567891;
  @%q st.global.u32 [%p2], %r8;
  ret;
}}
"""


def blocks(size: int) -> int:
    """Blocks of the kernel that read `size` bytes and no more."""
    return size // BLOCK
