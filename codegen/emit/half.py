"""Conversions between f16 and f32 for x86 processors without F16C, where LLVM calls functions of a compiler's runtime library.

Both follow Fabian Giesen, "float->half variants" (2012): a multiplication or addition of floats does the work for subnormal
numbers, and rounding is to nearest even.
"""

from __future__ import annotations

from ...targets.backend import HALF_CONVERSIONS
from ...targets.target import Target


def needs_half_functions(target: Target) -> bool:
    """Says whether LLVM would call library functions for f16."""
    return not target.has(HALF_CONVERSIONS)


HALF_SYMBOLS = ("__extendhfsf2", "__truncsfhf2")

# 0x46F0000000000000 is 2^112 and 0x3FE0000000000000 is 0.5, whose last place is that of the smallest f16
HALF_FUNCTIONS = """define weak float @__extendhfsf2(half %h) nounwind {
  %bits = bitcast half %h to i16
  %wide = zext i16 %bits to i32
  %magnitude = and i32 %wide, 32767
  %moved = shl i32 %magnitude, 13
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %number = bitcast float %scaled to i32
  %special = icmp uge i32 %magnitude, 31744
  %endless = or i32 %number, 2139095040
  %result = select i1 %special, i32 %endless, i32 %number
  %signbit = and i32 %wide, 32768
  %sign = shl i32 %signbit, 16
  %all = or i32 %result, %sign
  %float = bitcast i32 %all to float
  ret float %float
}
define weak half @__truncsfhf2(float %f) nounwind {
  %bits = bitcast float %f to i32
  %magnitude = and i32 %bits, 2147483647
  %odd = lshr i32 %magnitude, 13
  %last = and i32 %odd, 1
  %based = add i32 %magnitude, -939520001
  %rounded = add i32 %based, %last
  %normal = lshr i32 %rounded, 13
  %float = bitcast i32 %magnitude to float
  %shifted = fadd float %float, 0x3FE0000000000000
  %places = bitcast float %shifted to i32
  %subnormal = sub i32 %places, 1056964608
  %tiny = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %tiny, i32 %subnormal, i32 %normal
  %nan = icmp ugt i32 %magnitude, 2139095040
  %beyond = select i1 %nan, i32 32256, i32 31744
  %huge = icmp uge i32 %magnitude, 1199570944
  %result = select i1 %huge, i32 %beyond, i32 %finite
  %sign = lshr i32 %bits, 16
  %signbit = and i32 %sign, 32768
  %all = or i32 %result, %signbit
  %short = trunc i32 %all to i16
  %half = bitcast i16 %short to half
  ret half %half
}"""
