"""The calibration loops as LLVM IR: arithmetic that never leaves registers, and streams over a buffer of a given size.

All have the calling convention of `codegen.artifact`. The first argument is a buffer, the second holds two i64: the bytes
of one stream (a multiple of `STEP` vectors) and how often the whole is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...targets.backend import FUSED
from ...targets.ceilings import OWN_PAST
from ...targets.matrix_instructions import BF16_TILES
from ...targets.target import Target

STEP = 8  # vectors of each stream that one trip of the inner loop handles
OPERATIONS = 64  # vector operations of each accumulator in one trip of the arithmetic loop
SUMS = BF16_TILES.registers - 2  # tile registers of sums in the loop of the matrix unit; the two others are operands
TILE_PRODUCTS = 8  # of each sum in one trip of that loop
TILE_BYTES = BF16_TILES.m * BF16_TILES.row_bytes
VISIT_STRIDE = 16384  # bytes from page to page, as between rows of 4,096 float32
TILE_FLOPS = BF16_TILES.operations  # of one product of tiles


@dataclass(frozen=True, slots=True)
class Stream:
    """A kind of memory loop: streams it reads, whether it writes one more, and whether past the caches.

    `ahead`: by how many bytes it asks for what it will read; 0 leaves that to the hardware. `in_place`: what it writes is the
    last array that it reads.
    """

    name: str
    reads: int
    writes: bool
    bypass: bool = False
    ahead: int = 0
    in_place: bool = False

    @property
    def streams(self) -> int:
        """Counts the arrays that it touches."""
        return self.reads + self.writes - self.in_place


STREAMS = (
    Stream("read", 1, False),
    Stream("read_ahead", 1, False, ahead=4096),
    Stream("write", 0, True),
    Stream("copy", 1, True),
    Stream("triad", 2, True),
    Stream("write_past", 0, True, bypass=True),
    Stream("copy_past", 1, True, bypass=True),
    Stream("triad_past", 2, True, bypass=True),
    Stream(OWN_PAST, 1, True, bypass=True, in_place=True),
)

_FRAME = """\
define void @{name}(ptr %arguments, ptr %prepared, ptr %workspace) {{
entry:
  %buffer = load ptr, ptr %arguments
  %slot = getelementptr ptr, ptr %arguments, i64 1
  %numbers = load ptr, ptr %slot
  %bytes = load i64, ptr %numbers
  %second = getelementptr i64, ptr %numbers, i64 1
  %times = load i64, ptr %second
{body}
}}
{declarations}
attributes #0 = {{ nounwind }}
!0 = !{{i32 1}}
"""


def accumulators(target: Target) -> int:
    """Independent chains of the arithmetic loop: more than latency times ports, fewer than the registers."""
    return min(16, target.vector_registers - 4)


def arithmetic_loop(target: Target, dtype: str, loaded: bool = False) -> str:
    """IR of @flops: `times` trips of OPERATIONS multiply-adds on each accumulator. `dtype` is "f32" or "f64".

    `loaded`: every second one loads an operand.
    """
    lanes = target.vector_bits // (32 if dtype == "f32" else 64)
    vector = f"<{lanes} x {'float' if dtype == 'f32' else 'double'}>"
    chains = range(accumulators(target))
    fused = target.has(FUSED)
    intrinsic = f"@llvm.fma.v{lanes}{dtype}"
    lines = ["  %slot.b = getelementptr " + vector + ", ptr %buffer, i64 1"]
    lines += [f"  %x = load {vector}, ptr %buffer", f"  %y = load {vector}, ptr %slot.b", "  br label %loop", "loop:"]
    lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    lines += [f"  %v{c}.0 = phi {vector} [ %x, %entry ], [ %v{c}.{OPERATIONS}, %loop ]" for c in chains]
    for step in range(OPERATIONS):
        if loaded:  # else what a step before has loaded would do
            lines.append('  call void asm sideeffect "", "~{memory}"()')
        for c in chains:
            operand = "%y"
            if loaded and c % 2:
                operand = f"%w{c}.{step}"
                lines.append(f"  %q{c}.{step} = getelementptr {vector}, ptr %buffer, i64 {c + 2}")
                lines.append(f"  {operand} = load {vector}, ptr %q{c}.{step}")
            before, after = f"%v{c}.{step}", f"%v{c}.{step + 1}"
            if fused:
                lines.append(
                    f"  {after} = call {vector} {intrinsic}({vector} {before}, {vector} {operand}, {vector} %x)"
                )
            else:
                lines.append(f"  {after}.m = fmul {vector} {before}, {operand}")
                lines.append(f"  {after} = fadd {vector} {after}.m, %x")
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %times",
        "  br i1 %more, label %loop, label %end",
    ]
    lines.append("end:")
    for c in chains:
        lines.append(f"  %to.{c} = getelementptr {vector}, ptr %buffer, i64 {c + 2}")
        lines.append(f"  store {vector} %v{c}.{OPERATIONS}, ptr %to.{c}")
    lines.append("  ret void")
    declaration = f"declare {vector} {intrinsic}({vector}, {vector}, {vector})" if fused else ""
    return _FRAME.format(name="flops", body="\n".join(lines), declarations=declaration)


def matrix_loop() -> str:
    """IR of @tiles: `times` trips of TILE_PRODUCTS products of tiles of bfloat16 for each of SUMS sums in tile registers.

    The buffer holds, a tile apart, the configuration of the tiles (`tile_configuration`), the two operands, and room for
    the sums. A loop over zeros would run faster than any kernel does: the clock follows how many bits change.
    """
    names = (
        "tilezero(i8)",
        "tileloadd64(i8, ptr, i64)",
        "tilestored64(i8, ptr, i64)",
        "tdpbf16ps(i8, i8, i8)",
        "ldtilecfg(ptr)",
        "tilerelease()",
    )
    lines = ["  call void @llvm.x86.ldtilecfg(ptr %buffer)"]
    lines += [f"  call void @llvm.x86.tilezero(i8 {tile})" for tile in range(SUMS)]
    for number, tile in enumerate((SUMS, SUMS + 1), 1):
        lines.append(f"  %operand.{tile} = getelementptr i8, ptr %buffer, i64 {number * TILE_BYTES}")
        lines.append(f"  call void @llvm.x86.tileloadd64(i8 {tile}, ptr %operand.{tile}, i64 64)")
    lines += ["  br label %loop", "loop:", "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]"]
    product = f"  call void @llvm.x86.tdpbf16ps(i8 {{}}, i8 {SUMS}, i8 {SUMS + 1})"
    lines += [product.format(tile) for _ in range(TILE_PRODUCTS) for tile in range(SUMS)]
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %times"]
    lines += ["  br i1 %more, label %loop, label %end", "end:"]
    for tile in range(SUMS):
        lines.append(f"  %sum.{tile} = getelementptr i8, ptr %buffer, i64 {(3 + tile) * TILE_BYTES}")
        lines.append(f"  call void @llvm.x86.tilestored64(i8 {tile}, ptr %sum.{tile}, i64 64)")
    lines += ["  call void @llvm.x86.tilerelease()", "  ret void"]
    declarations = "\n".join(f"declare void @llvm.x86.{name}" for name in names)
    return _FRAME.format(name="tiles", body="\n".join(lines), declarations=declarations)


def stream_loop(target: Target, stream: Stream) -> str:
    """IR of @<name>: `times` passes over streams of `bytes` each, one behind the other in the buffer."""
    width = target.vector_bits // 8
    vector = f"<{width // 4} x float>"
    hint = ", !nontemporal !0" if stream.bypass else ""
    step = STEP * width
    lines = [f"  %base.{s} = getelementptr i8, ptr %buffer, i64 %offset.{s}" for s in range(stream.streams)]
    offsets = [f"  %offset.{s} = mul i64 %bytes, {s}" for s in range(stream.streams)]
    lines = [*offsets, *lines, "  br label %pass", "pass:"]
    sums = range(STEP) if not stream.writes else range(0)
    lines.append("  %p = phi i64 [ 0, %entry ], [ %p.next, %pass.end ]")
    lines += [f"  %sum.{u} = phi {vector} [ zeroinitializer, %entry ], [ %total.{u}, %pass.end ]" for u in sums]
    lines += ["  br label %loop", "loop:", "  %o = phi i64 [ 0, %pass ], [ %o.next, %loop ]"]
    lines += [f"  %part.{u} = phi {vector} [ %sum.{u}, %pass ], [ %total.{u}, %loop ]" for u in sums]
    for u in range(STEP):
        lines += _trip(stream, u, u * width, vector, width, hint)
    lines += [f"  %o.next = add i64 %o, {step}", "  %more = icmp slt i64 %o.next, %bytes"]
    lines += ["  br i1 %more, label %loop, label %pass.end", "pass.end:", "  %p.next = add i64 %p, 1"]
    lines += ['  call void asm sideeffect "", "~{memory}"()', "  %over = icmp slt i64 %p.next, %times"]
    lines += ["  br i1 %over, label %pass, label %done", "done:"]
    for u in sums:
        lines.append(f"  %keep.{u} = getelementptr {vector}, ptr %numbers, i64 {u + 1}")
        lines.append(f"  store {vector} %total.{u}, ptr %keep.{u}, align 4")
    lines.append("  ret void")
    declarations = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)" if stream.ahead else ""
    return _FRAME.format(name=stream.name, body="\n".join(lines), declarations=declarations)


def _trip(stream: Stream, u: int, offset: int, vector: str, width: int, hint: str) -> list[str]:
    """One vector of each stream: w = a + b / 2, or what of it the kind of loop has; a = -a where it stays in place.

    Ones where it reads nothing: zeros are stored faster than numbers are on some processors (EPYC 9004, two cores, past the
    caches: 90 GB/s instead of 27).
    """
    lines = [f"  %at.{u} = add i64 %o, {offset}"]
    lines += [f"  %p.{u}.{s} = getelementptr i8, ptr %base.{s}, i64 %at.{u}" for s in range(stream.streams)]
    for s in range(stream.reads) if stream.ahead else ():
        lines.append(f"  %ahead.{u}.{s} = getelementptr i8, ptr %p.{u}.{s}, i64 {stream.ahead}")
        lines.append(f"  call void @llvm.prefetch.p0(ptr %ahead.{u}.{s}, i32 0, i32 3, i32 1)")
    lines += [f"  %r.{u}.{s} = load {vector}, ptr %p.{u}.{s}, align {width}" for s in range(stream.reads)]
    if not stream.writes:
        return [*lines, f"  %total.{u} = fadd {vector} %part.{u}, %r.{u}.0"]
    value = _all(1.0, width) if not stream.reads else f"%r.{u}.0"
    if stream.in_place:  # what would be as it was need not be stored
        lines.append(f"  %n.{u} = fneg {vector} {value}")
        value = f"%n.{u}"
    if stream.reads == 2:
        lines.append(f"  %m.{u} = fmul {vector} %r.{u}.1, {_all(0.5, width)}")
        lines.append(f"  %t.{u} = fadd {vector} %r.{u}.0, %m.{u}")
        value = f"%t.{u}"
    return [*lines, f"  store {vector} {value}, ptr %p.{u}.{stream.streams - 1}, align {width}{hint}"]


def visiting_loop(target: Target, pages: int) -> str:
    """IR of @visit: `times` passes that read each line of `bytes` (a multiple of `pages` strides) once, going through so many
    pages, VISIT_STRIDE bytes apart, for their first lines, then for their second, and so on.
    """
    width, line = target.vector_bits // 8, target.caches[0].line
    vector = f"<{width // 4} x float>"
    block = pages * VISIT_STRIDE
    names = ("pass", "block", "line", "page")
    steps = dict(zip(names, (1, block, line, VISIT_STRIDE), strict=True))
    ends = dict(zip(names, ("%times", "%bytes", VISIT_STRIDE, block), strict=True))
    lines = ["  br label %pass"]
    for outer, name, inner in zip(("entry", *names), names, (*names[1:], None), strict=False):
        back = f"{inner}.done" if inner else name
        before = "zeroinitializer" if outer == "entry" else f"%{outer}.sum"
        lines += [f"{name}:", f"  %{name}.at = phi i64 [ 0, %{outer} ], [ %{name}.next, %{back} ]"]
        lines.append(f"  %{name}.sum = phi {vector} [ {before}, %{outer} ], [ %total, %{back} ]")
        lines += [f"  br label %{inner}"] if inner else []
    lines += ["  %within = add i64 %line.at, %page.at", "  %offset = add i64 %block.at, %within"]
    lines += [
        "  %from = getelementptr i8, ptr %buffer, i64 %offset",
        f"  %read = load {vector}, ptr %from, align {width}",
    ]
    lines.append(f"  %total = fadd {vector} %page.sum, %read")
    for name in reversed(names):
        lines.append(f"  %{name}.next = add i64 %{name}.at, {steps[name]}")
        lines.append(f"  %{name}.more = icmp slt i64 %{name}.next, {ends[name]}")
        lines += [f"  br i1 %{name}.more, label %{name}, label %{name}.done", f"{name}.done:"]
    lines += [f"  %keep = getelementptr {vector}, ptr %numbers, i64 1", f"  store {vector} %total, ptr %keep, align 4"]
    return _FRAME.format(name="visit", body="\n".join([*lines, "  ret void"]), declarations="")


def _all(value: float, width: int) -> str:
    """A constant vector of so many bytes."""
    return f"<{', '.join([f'float {value}'] * (width // 4))}>"
