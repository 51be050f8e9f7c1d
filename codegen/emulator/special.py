"""Numbers of threads and approximate functions of GPUs for the emulator, as LLVM IR, by what they mean."""

from __future__ import annotations

from ...targets.emission import BLOCK, BLOCKS, LANE, THREAD, THREADS, WARP_LANES, WARP_NUMBER
from .layout import expand

_REGISTERS = {
    **{f"{THREAD}{axis}": f"thread.{axis}" for axis in "xyz"},
    **{f"{BLOCK}{axis}": f"launch.ctaid_{axis}" for axis in "xyz"},
    **{f"{THREADS}{axis}": f"launch.block_{axis}" for axis in "xyz"},
    **{f"{BLOCKS}{axis}": f"launch.grid_{axis}" for axis in "xyz"},
    WARP_LANES: "launch.lanes",
}


def _register(name: str, field: str) -> str:
    body = "" if field.startswith("thread") else "  %l = get thread.launch %thread\n"
    struct = "%thread" if field.startswith("thread") else "%l"
    return (
        f"define internal i32 @emu.number.{name}(ptr %thread) alwaysinline {{\n"
        f"{body}  %value = get {field} {struct}\n  ret i32 %value\n}}\n"
    )


_LANES = f"""
define internal i32 @emu.number.{LANE}(ptr %thread) alwaysinline {{
  %l = get thread.launch %thread
  %lanes = get launch.lanes %l
  %tid = get thread.tid %thread
  %lane = urem i32 %tid, %lanes
  ret i32 %lane
}}
define internal i32 @emu.number.{WARP_NUMBER}(ptr %thread) alwaysinline {{
  %l = get thread.launch %thread
  %lanes = get launch.lanes %l
  %tid = get thread.tid %thread
  %warp = udiv i32 %tid, %lanes
  ret i32 %warp
}}
"""

_MATH = """
declare float @llvm.exp2.f32(float)
declare float @llvm.log2.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.tanh.f32(float)
define internal float @emu.function.exp2(float %x) {
  %r = call float @llvm.exp2.f32(float %x)
  ret float %r
}
define internal float @emu.function.log2(float %x) {
  %r = call float @llvm.log2.f32(float %x)
  ret float %r
}
define internal float @emu.function.reciprocal(float %x) {
  %r = fdiv float 1.0, %x
  ret float %r
}
define internal float @emu.function.rsqrt(float %x) {
  %s = call float @llvm.sqrt.f32(float %x)
  %r = fdiv float 1.0, %s
  ret float %r
}
define internal float @emu.function.tanh(float %x) {
  %r = call float @llvm.tanh.f32(float %x)
  ret float %r
}
"""

SPECIAL = expand("".join(_register(name, field) for name, field in _REGISTERS.items()) + _LANES) + _MATH
NUMBERS = frozenset((*_REGISTERS, LANE, WARP_NUMBER))  # meanings that are a number of the thread
