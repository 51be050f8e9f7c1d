"""Writes the body of one math function as LLVM IR text, for scalars and vectors alike.

Only target-independent instructions are used. A product and a sum go through `llvm.fmuladd`: fused where the target has fused
multiply-add, two roundings elsewhere; every recipe is right either way, and never calls the C library.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable

from ...tensor.dtype import DType, f32, f64

_SCALED = {4: ("i8", 0), 8: ("i8", 0), 16: ("i16", 4)}  # lanes -> type of the mask, rounding mode (4: the current one)
_WIDEST = max(_SCALED)
_ELEMENT = {"f16": "half", "f32": "float", "f64": "double"}


def element_type(dtype: DType) -> str:
    """The LLVM type of one element: half, float or double."""
    return _ELEMENT[dtype.name]


def value_type(element: str, lanes: int) -> str:
    """`<lanes x element>`, or the element itself for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix(dtype: DType, lanes: int) -> str:
    """Says how names of overloaded intrinsics end: f32, v16f32."""
    return dtype.name if lanes == 1 else f"v{lanes}{dtype.name}"


def shuffle_mask(lanes: Iterable[int]) -> str:
    """The mask of a shuffle that takes these lanes."""
    numbers = [f"i32 {lane}" for lane in lanes]
    return f"<{len(numbers)} x i32> <{', '.join(numbers)}>"


Function = Callable[..., str]  # (body, an SSA name for each argument) -> the SSA name of the result


class Body:
    """Code under construction. Values are strings: SSA names or constants, all of `type` or `int_type`.

    `dtype` is f32 or f64; integers have as many bits as it has. `scales`: whether there is an instruction for x 2^n, which
    AVX-512 has for its vectors of f32.
    """

    def __init__(self, dtype: DType, lanes: int, scales: bool = False) -> None:
        self.dtype = dtype
        self.lanes = lanes
        self.single = dtype == f32
        self.scales = scales and self.single and (lanes in _SCALED or lanes in (2 * _WIDEST, 4 * _WIDEST))
        self.mantissa_bits = 23 if self.single else 52
        self.scalar_type = element_type(dtype)
        self.type = value_type(self.scalar_type, lanes)
        self.int_type = value_type(f"i{dtype.bits}", lanes)
        self.bool_type = value_type("i1", lanes)
        self.lines: list[str] = ["entry:"]
        self.declares: dict[str, None] = {}  # in order of first use

    def widened(self) -> Body:
        """Gives a body that continues this code in f64."""
        return self._continued(f64, self.lanes)

    def _continued(self, dtype: DType, lanes: int, scales: bool = False) -> Body:
        other = Body(dtype, lanes, scales)
        other.lines, other.declares = self.lines, self.declares
        return other

    def needs(self, item: str) -> None:
        """Asks for a declaration or a definition outside of the function."""
        self.declares[item] = None

    # constants

    def constant(self, value: float) -> str:
        """A floating-point literal, exact: f32 literals are written as the double of the same value."""
        rounded = struct.unpack("f", struct.pack("f", value))[0] if self.single else value
        if rounded != value and not math.isnan(value):
            raise ValueError(f"{value!r} is no {self.dtype} number")
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        literal = f"0x{bits:016X}"
        return literal if self.lanes == 1 else f"splat ({element_type(self.dtype)} {literal})"

    def integer(self, value: int) -> str:
        """An integer literal of the width of the dtype."""
        return str(value) if self.lanes == 1 else f"splat (i{self.dtype.bits} {value})"

    # instructions

    def emit(self, text: str) -> str:
        """Appends `%n = text`; returns the new name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def call(self, intrinsic: str, *args: str) -> str:
        """A call of an overloaded intrinsic on floating-point values."""
        name = f"@llvm.{intrinsic}.{suffix(self.dtype, self.lanes)}"
        self.needs(f"declare {self.type} {name}({', '.join([self.type] * len(args))})")
        return self.emit(f"call {self.type} {name}({', '.join(f'{self.type} {a}' for a in args)})")

    def add(self, a: str, b: str) -> str:
        """a + b"""
        return self.emit(f"fadd {self.type} {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        """a - b"""
        return self.emit(f"fsub {self.type} {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        """a * b"""
        return self.emit(f"fmul {self.type} {a}, {b}")

    def div(self, a: str, b: str) -> str:
        """a / b"""
        return self.emit(f"fdiv {self.type} {a}, {b}")

    def muladd(self, a: str, b: str, c: str) -> str:
        """a * b + c, fused or not"""
        return self.call("fmuladd", a, b, c)

    def scale(self, a: str, n: str, where: str = "") -> str:
        """a * 2^n for whole n, rounded once, through the denormals; 0 where the mask `where` does not hold. Where `scales`."""
        if self.lanes > _WIDEST:
            return self._scaled_in_parts(a, n, where)
        if where and self.lanes < 8:  # a mask would have more bits than there are lanes
            zero = self.constant(0.0)
            return self.select(where, self.scale(a, self.select(where, n, zero)), zero)
        kind, rounding = _SCALED[self.lanes]
        name = f"@llvm.x86.avx512.mask.scalef.ps.{32 * self.lanes}"
        more = ", i32" if rounding else ""
        self.needs(f"declare {self.type} {name}({self.type}, {self.type}, {self.type}, {kind}{more})")
        more = f", i32 {rounding}" if rounding else ""
        other, mask = a, "-1"
        if where:
            other, bits = "zeroinitializer", f"i{max(8, self.lanes)}"
            assert kind == bits, "a mask has as many bits as there are lanes"
            mask = self.emit(f"bitcast {self.bool_type} {where} to {bits}")
        return self.emit(
            f"call {self.type} {name}({self.type} {a}, {self.type} {n}, {self.type} {other}, {kind} {mask}{more})"
        )

    def _scaled_in_parts(self, a: str, n: str, where: str) -> str:
        """`scale` of more lanes than an instruction has: of each register by itself."""
        half = self._continued(self.dtype, self.lanes // 2, self.scales)
        parts: list[str] = []
        for first in (0, half.lanes):
            picked = shuffle_mask(range(first, first + half.lanes))
            low, power, mask = (
                self.emit(f"shufflevector {kind} {value}, {kind} poison, {picked}") if value else ""
                for kind, value in ((self.type, a), (self.type, n), (self.bool_type, where))
            )
            parts.append(half.scale(low, power, mask))
        return self.emit(
            f"shufflevector {half.type} {parts[0]}, {half.type} {parts[1]}, {shuffle_mask(range(self.lanes))}"
        )

    def integer_op(self, opcode: str, a: str, b: str) -> str:
        """An integer instruction: add, sub, and, or, xor, shl, lshr, ashr."""
        return self.emit(f"{opcode} {self.int_type} {a}, {b}")

    def bits(self, a: str) -> str:
        """The bits of a float as an integer."""
        return self.emit(f"bitcast {self.type} {a} to {self.int_type}")

    def float_of_bits(self, a: str) -> str:
        """The float that has these bits."""
        return self.emit(f"bitcast {self.int_type} {a} to {self.type}")

    def compare(self, condition: str, a: str, b: str) -> str:
        """A mask; condition as in fcmp (olt, oeq, uno, ...)."""
        return self.emit(f"fcmp {condition} {self.type} {a}, {b}")

    def select(self, mask: str, a: str, b: str) -> str:
        """a where the mask holds, else b"""
        return self.emit(f"select {self.bool_type} {mask}, {self.type} {a}, {self.type} {b}")

    def both(self, *masks: str) -> str:
        """The mask that holds where all of them do."""
        first, *rest = masks
        for mask in rest:
            first = self.emit(f"and {self.bool_type} {first}, {mask}")
        return first

    def negate(self, mask: str) -> str:
        """The opposite mask."""
        return self.emit(f"xor {self.bool_type} {mask}, {'true' if self.lanes == 1 else 'splat (i1 true)'}")

    # lanes and blocks

    def lane(self, kind: str, a: str, lane: int) -> str:
        """One lane of a value of the vector type `kind`."""
        return a if self.lanes == 1 else self.emit(f"extractelement {kind} {a}, i32 {lane}")

    def with_lane(self, kind: str, a: str, element: str, value: str, lane: int) -> str:
        """A value of the vector type `kind` with one lane replaced."""
        return value if self.lanes == 1 else self.emit(f"insertelement {kind} {a}, {element} {value}, i32 {lane}")

    @property
    def current_block(self) -> str:
        """The name of the block that code goes to."""
        return next(line[:-1] for line in reversed(self.lines) if line.endswith(":"))

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Ends the block: on to block `yes` where the scalar condition holds, else to `no`; opens `yes`."""
        self.lines += [f"  br i1 {condition}, label %{yes}, label %{no}", f"{yes}:"]

    def join(self, block: str) -> None:
        """Ends the block: on to `block`, which is opened."""
        self.lines += [f"  br label %{block}", f"{block}:"]

    # idioms

    def at_least(self, a: str, low: float) -> str:
        """max(a, low); NaN stays NaN (the operand order of x86 maxps)."""
        bound = self.constant(low)
        return self.select(self.compare("ogt", bound, a), bound, a)

    def at_most(self, a: str, high: float) -> str:
        """min(a, high); NaN stays NaN (the operand order of x86 minps)."""
        bound = self.constant(high)
        return self.select(self.compare("olt", bound, a), bound, a)

    def two_sum(self, a: str, b: str) -> tuple[str, str]:
        """a + b and its rounding error, exactly (Knuth, TAOCP volume 2, 4.2.2)."""
        total = self.add(a, b)
        part = self.sub(total, a)
        return total, self.add(self.sub(a, self.sub(total, part)), self.sub(b, part))

    def horner(self, coefficients: tuple[float, ...], x: str) -> str:
        """c0 + c1 x + c2 x^2 + ..., one multiply-add for each step; a sum for the first where the last coefficient is 1."""
        *rest, last = coefficients
        total = self.constant(last)
        if last == 1:
            total = self.add(x, self.constant(rest.pop()))
        for c in reversed(rest):
            total = self.muladd(total, x, self.constant(c))
        return total
