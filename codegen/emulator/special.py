"""Special registers and approximate functions of GPUs for the emulator, as LLVM IR: `@llvm.nvvm.X` is `@emu.nvvm.X` here."""

from __future__ import annotations

from .layout import expand

_REGISTERS = {
    **{f"tid.{axis}": f"thread.{axis}" for axis in "xyz"},
    **{f"ctaid.{axis}": f"launch.ctaid_{axis}" for axis in "xyz"},
    **{f"ntid.{axis}": f"launch.block_{axis}" for axis in "xyz"},
    **{f"nctaid.{axis}": f"launch.grid_{axis}" for axis in "xyz"},
}


def _register(name: str, field: str) -> str:
    body = "" if field.startswith("thread") else "  %l = get thread.launch %thread\n"
    struct = "%thread" if field.startswith("thread") else "%l"
    return (
        f"define internal i32 @emu.nvvm.read.ptx.sreg.{name}(ptr %thread) alwaysinline {{\n"
        f"{body}  %value = get {field} {struct}\n  ret i32 %value\n}}\n"
    )


_LANES = """
define internal i32 @emu.nvvm.read.ptx.sreg.laneid(ptr %thread) alwaysinline {
  %tid = get thread.tid %thread
  %lane = and i32 %tid, 31
  ret i32 %lane
}
define internal i32 @emu.nvvm.read.ptx.sreg.warpid(ptr %thread) alwaysinline {
  %tid = get thread.tid %thread
  %warp = lshr i32 %tid, 5
  ret i32 %warp
}
define internal i32 @emu.nvvm.read.ptx.sreg.warpsize(ptr %thread) alwaysinline {
  ret i32 32
}
"""

_MATH = """
declare float @llvm.exp2.f32(float)
declare float @llvm.log2.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.tanh.f32(float)
define internal float @emu.nvvm.ex2.approx.f(float %x) {
  %r = call float @llvm.exp2.f32(float %x)
  ret float %r
}
define internal float @emu.nvvm.ex2.approx.ftz.f(float %x) {
  %r = call float @llvm.exp2.f32(float %x)
  ret float %r
}
define internal float @emu.nvvm.lg2.approx.f(float %x) {
  %r = call float @llvm.log2.f32(float %x)
  ret float %r
}
define internal float @emu.nvvm.lg2.approx.ftz.f(float %x) {
  %r = call float @llvm.log2.f32(float %x)
  ret float %r
}
define internal float @emu.nvvm.rcp.approx.ftz.f(float %x) {
  %r = fdiv float 1.0, %x
  ret float %r
}
define internal float @emu.nvvm.rsqrt.approx.f(float %x) {
  %s = call float @llvm.sqrt.f32(float %x)
  %r = fdiv float 1.0, %s
  ret float %r
}
define internal float @emu.nvvm.rsqrt.approx.ftz.f(float %x) {
  %s = call float @llvm.sqrt.f32(float %x)
  %r = fdiv float 1.0, %s
  ret float %r
}
define internal float @emu.nvvm.tanh.approx.f(float %x) {
  %r = call float @llvm.tanh.f32(float %x)
  ret float %r
}
"""

SPECIAL = expand("".join(_register(name, field) for name, field in _REGISTERS.items()) + _LANES) + _MATH
OF_THREAD = "read.ptx.sreg."  # these take the thread as an argument
