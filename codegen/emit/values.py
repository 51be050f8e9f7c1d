"""Arithmetic on values: every operator of tensor.expr on every dtype, scalar or in lanes.

Operands may be scalars and vectors mixed; a scalar is spread over the lanes only where a vector meets it, so that the processor
can broadcast it from memory inside of the instruction that uses it. Literals that decide a condition are folded. f16 and bf16
compute in f32 and round after each operator, which is what their definition asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...common.errors import InternalError
from ...targets.backend import FUSED, MERGED_EXTREMA
from ...targets.backend import ROUNDING as CAN_ROUND
from ...targets.target import Target
from ...tensor.dtype import DType, Kind, bf16, boolean, f16, f32, f64, i32, i64, u64
from ...tensor.language import COMPARISONS, LOGIC, WORDS
from ..math import functions as math
from ..math.body import shuffle_mask
from ..math.intrinsics import INTRINSICS
from .bf16_words import round_bf16
from .division import QUOTIENTS, divided
from .known_lanes import KnownLanes
from .module_text import ModuleText
from .rounding import ROUNDING, rounded
from .text import FunctionText
from .types import FALSE, TRUE, Value, literal, suffix, value_type, vector
from .words import words

_FLOAT_TESTS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_SIGNED_TESTS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}
_UNSIGNED_TESTS = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "eq": "eq", "ne": "ne"}
_FLOAT_BINARY = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv"}


class Arithmetic:
    """Writes operators into one function."""

    def __init__(self, text: FunctionText, module: ModuleText, target: Target) -> None:
        self.text = text
        self.module = module
        self.target = target
        self.rounds = target.has(CAN_ROUND)
        self.fused = target.has(FUSED)
        self.merges = target.has(MERGED_EXTREMA)
        self.abreast: dict[
            tuple[str, tuple[Value, ...]], Value
        ] = {}  # what functions of copies give, computed together
        self.known = KnownLanes()

    # Lanes

    def spread(self, value: Value, lanes: int) -> Value:
        """The value in all lanes (0: as it is)."""
        if value.lanes == lanes or not lanes:
            return value
        if value.lanes:
            raise InternalError(f"a value of {value.lanes} lanes meets one of {lanes}")
        if value.text[0] != "%":
            return Value(f"splat ({value.typed})", value.dtype, lanes)
        kind = value_type(value.dtype, lanes)
        one = self.text.pure(f"insertelement {kind} poison, {value.typed}, i64 0", value.text)
        every = self.text.pure(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer", one)
        return Value(every, value.dtype, lanes)

    def together(self, *values: Value) -> tuple[int, list[Value]]:
        """The values with the same number of lanes."""
        lanes = max(value.lanes for value in values)
        return lanes, [self.spread(value, lanes) for value in values]

    def lane(self, value: Value, number: int) -> Value:
        """One lane as a scalar; a scalar is all of its lanes."""
        if not value.lanes:
            return value
        return Value(self._instruct(f"extractelement {value.typed}, i64 {number}", value), value.dtype)

    def _instruct(self, text: str, *operands: Value) -> str:
        return self.text.compute(text, *[operand.text for operand in operands])

    def _call(self, name: str, operands: list[Value], result: DType, extra: str = "", flags: str = "") -> Value:
        lanes = operands[0].lanes
        types = [operand.type for operand in operands]
        call = self.module.intrinsic(
            name, value_type(result, lanes), *types, *([extra.split(maxsplit=1)[0]] if extra else [])
        )
        arguments = ", ".join([operand.typed for operand in operands] + ([extra] if extra else []))
        text = f"{call.replace('call ', f'call {flags}', 1)}({arguments})"
        return Value(self._instruct(text, *operands), result, lanes)

    def last_lane(self, value: Value, mask: Value) -> tuple[Value, Value]:
        """The value in the last lane whose mask holds, and whether there is one."""
        lanes, kind = mask.lanes, f"i{mask.lanes}"
        bits = self._instruct(f"bitcast {mask.typed} to {kind}", mask)
        some = Value(self.text.compute(f"icmp ne {kind} {bits}, 0", bits), boolean)
        if not value.lanes:
            return value, some
        call = self.module.intrinsic(f"llvm.ctlz.{kind}", kind, kind, "i1")
        zeros = self.text.compute(f"{call}({kind} {bits}, i1 true)", bits)
        number = self.text.compute(f"xor {kind} {zeros}, {lanes - 1}", zeros)  # lanes - 1 - zeros, lanes a power of two
        number = self.text.compute(f"and {kind} {number}, {lanes - 1}", number)
        return Value(self._instruct(f"extractelement {value.typed}, {kind} {number}", value, mask), value.dtype), some

    def reduce(self, combiner: str, value: Value) -> Value:
        """All lanes combined, as a tree (the only place where a sum is reassociated)."""
        dtype = value.dtype
        if dtype.is_float and dtype.bits == 16:
            return self.cast(self.reduce(combiner, self.cast(value, f32)), dtype)
        kind, name = value_type(dtype), f"{suffix(dtype, value.lanes)}"
        if dtype.is_float and combiner in ("sum", "prod"):
            what = "fadd" if combiner == "sum" else "fmul"
            call = self.module.intrinsic(f"llvm.vector.reduce.{what}.{name}", kind, kind, value.type)
            call = call.replace("call", "call reassoc", 1)
            start = literal(-0.0 if combiner == "sum" else 1.0, dtype)
            return Value(self._instruct(f"{call}({kind} {start}, {value.typed})", value), dtype)
        sign = "f" if dtype.is_float else "u" if dtype.kind is not Kind.SIGNED else "s"
        ends = {"sum": "add", "prod": "mul", "max": f"{sign}max", "min": f"{sign}min"}
        what = ends[combiner] + ("imum" if dtype.is_float else "")
        call = self.module.intrinsic(f"llvm.vector.reduce.{what}.{name}", kind, value.type)
        call = call.replace("call", "call nsz", 1) if dtype.is_float else call  # any zero of two, as in `extremum`
        return Value(self._instruct(f"{call}({value.typed})", value), dtype)

    # Operators

    def apply(self, name: str, args: list[Value], dtype: DType) -> Value:
        """The operator `name` on operands of one dtype (the first of select apart)."""
        if name == "select":
            return self.select(*args)
        if name in COMPARISONS:
            return self._compare(name, *args)
        if name == "is_negative":
            return self._is_negative(*args)
        if name in LOGIC:
            return self._logic(name, args)
        if name in WORDS:
            return words(self, name, args)
        if dtype.is_float and dtype.bits == 16:
            wide = self.apply(name, [self.cast(arg, f32) for arg in args], f32)
            return self.cast(wide, dtype)
        if name in QUOTIENTS:
            return divided(self, name, *args)
        _, args = self.together(*args)
        if name in ("min", "max"):
            return self.extremum(name, *args)
        if dtype.is_float:
            return self._float(name, args, dtype)
        return self._integer(name, args, dtype)

    def combine(self, combiner: str, old: Value, new: Value) -> Value:
        """One step of a reduction."""
        name = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}[combiner]
        # of a maximum the first operand is asked for NaN: the new one, so that the chain of old ones need not wait for it
        return self.apply(name, [new, old] if name in ("max", "min") else [old, new], old.dtype)

    def multiply_add(self, left: Value, right: Value, addend: Value) -> Value:
        """left * right + addend in the addend's dtype, rounded once where the processor can."""
        dtype = addend.dtype
        if dtype.bits == 16:
            return self.cast(self.multiply_add(left, right, self.cast(addend, f32)), dtype)
        left, right = self.cast(left, dtype), self.cast(right, dtype)
        if not self.fused:
            return self.apply("add", [addend, self.apply("mul", [left, right], dtype)], dtype)
        lanes, args = self.together(left, right, addend)
        return self._call(f"llvm.fma.{suffix(dtype, lanes)}", args, dtype)

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """yes where the condition holds, else no."""
        if condition.is_literal:
            return yes if condition == TRUE else no
        if yes == no:
            return yes
        lanes, (yes, no) = self.together(yes, no)
        if condition.lanes and not lanes:
            lanes = condition.lanes
            yes, no = self.spread(yes, lanes), self.spread(no, lanes)
        text = f"select {condition.typed}, {yes.typed}, {no.typed}"
        return Value(self._instruct(text, condition, yes, no), yes.dtype, lanes)

    def extremum(self, name: str, left: Value, right: Value) -> Value:
        """min or max; of floats, NaN if one operand is NaN, and any zero of two.

        x86's max(a, b) is "a > b ? a : b" and so gives b where one is NaN: with a number that is not NaN as a, nothing more
        is needed; else one operand is asked for NaN. Where it is none the instruction takes the result into its register,
        under a mask, which LLVM's own maximum does by an instruction more.
        """
        dtype = left.dtype
        if dtype == boolean:
            return self._logic("and" if name == "min" else "or", [left, right])
        if not dtype.is_float:
            sign = "u" if dtype.kind is Kind.UNSIGNED else "s"
            return self._call(f"llvm.{sign}{name}.{suffix(dtype, left.lanes)}", [left, right], dtype)
        if right.is_literal:
            left, right = right, left
        if left.is_literal and "0x7FF8" not in left.text:
            return self.forgetful_extremum(name, left, right)
        if self.merges and left.lanes:
            found = self.forgetful_extremum(name, left, right)
            return self.select(self.ordered(left, left), found, left)
        return self._call(f"llvm.{name}imum.{suffix(dtype, left.lanes)}", [left, right], dtype, flags="nsz ")

    def forgetful_extremum(self, name: str, left: Value, right: Value) -> Value:
        """min or max of floats by one instruction: the second one where either is NaN."""
        return self.select(self._compare("gt" if name == "max" else "lt", left, right), left, right)

    def ordered(self, left: Value, right: Value) -> Value:
        """Tells of two floats that neither is NaN."""
        return self._compare_text("fcmp ord", left, right)

    def _compare_text(self, test: str, left: Value, right: Value) -> Value:
        return Value(self._instruct(f"{test} {left.typed}, {right.text}", left, right), boolean, left.lanes)

    def _compare(self, name: str, left: Value, right: Value) -> Value:
        if left.dtype == f16:
            left, right = self.cast(left, f32), self.cast(right, f32)
        _, (left, right) = self.together(left, right)
        if left.dtype.is_float:
            return self._compare_text(f"fcmp {_FLOAT_TESTS[name]}", left, right)
        tests = _SIGNED_TESTS if left.dtype.kind is Kind.SIGNED else _UNSIGNED_TESTS
        return self._compare_text(f"icmp {tests[name]}", left, right)

    def _is_negative(self, value: Value) -> Value:
        """The sign of a float that is not NaN: as integers, numbers with a sign are at most -inf, and NaN with one above it."""
        if value.dtype.bits == 16:
            return self._is_negative(self.cast(value, f32))
        whole = i32 if value.dtype == f32 else i64
        bits = Value(
            self._instruct(f"bitcast {value.typed} to {value_type(whole, value.lanes)}", value), whole, value.lanes
        )
        infinite = -(1 << 23) if value.dtype == f32 else -(1 << 52)
        return self._compare("le", bits, Value(literal(infinite, whole), whole))

    def _logic(self, name: str, args: list[Value]) -> Value:
        if name == "not":
            (arg,) = args
            if arg.is_literal and not arg.lanes:
                return FALSE if arg == TRUE else TRUE
            true = self.spread(TRUE, arg.lanes)
            found = Value(self._instruct(f"xor {arg.typed}, {true.text}", arg), boolean, arg.lanes)
            self.known.negated(found, arg)
            return found
        for this, other in (args, args[::-1]):
            if this in (TRUE, FALSE):
                return other if (this == TRUE) == (name == "and") else this
        if args[0] == args[1]:
            return args[0]
        lanes, (left, right) = self.together(*args)
        found = Value(self._instruct(f"{name} {left.typed}, {right.text}", left, right), boolean, lanes)
        if name == "and" and lanes:
            self.known.conjoined(found, args, self.both)
        return found

    def flipped(self, word: Value, bits: int) -> Value:
        """An integer with some bits the other way round."""
        other = self.spread(Value(literal(bits, word.dtype), word.dtype), word.lanes)
        return Value(self._instruct(f"xor {word.typed}, {other.text}", word), word.dtype, word.lanes)

    def both(self, left: Value | None, right: Value | None) -> Value | None:
        """The conjunction of two conditions; None holds always."""
        if left is None or right is None:
            return left or right
        return self._logic("and", [left, right])

    def negation(self, condition: Value) -> Value:
        """Returns a mask or bool that holds where the condition does not."""
        return self._logic("not", [condition])

    def apply_abreast(self, name: str, copies: Sequence[tuple[Value, ...]]) -> None:
        """Computes a function of floats for several copies at once; from then on `apply` knows what it gives in each."""
        lanes = max(arg.lanes for args in copies for arg in args)
        distinct = list(dict.fromkeys(args for args in copies if all(arg.lanes == lanes for arg in args)))
        if len(distinct) < 2:
            return
        distinct = distinct[: 1 << len(distinct).bit_length() - 1]  # a power of two
        args = [self._joined(values) for values in zip(*distinct, strict=True)]
        every = self._float(name, args, args[0].dtype)
        for number, given in enumerate(distinct):
            self.abreast[name, given] = self._part(every, number * lanes, lanes)

    def _joined(self, values: Sequence[Value]) -> Value:
        """Vectors one after another as one; as many as a power of two."""
        while len(values) > 1:
            values = [self._shuffled(a, b, range(2 * a.lanes)) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    def _part(self, value: Value, first: int, lanes: int) -> Value:
        """`lanes` lanes of a vector."""
        return self._shuffled(value, Value("poison", value.dtype, value.lanes), range(first, first + lanes))

    def _shuffled(self, left: Value, right: Value, lanes: range) -> Value:
        text = f"shufflevector {left.typed}, {right.typed}, {shuffle_mask(lanes)}"
        return Value(self._instruct(text, left, right), left.dtype, len(lanes))

    def _float(self, name: str, args: list[Value], dtype: DType) -> Value:
        lanes = args[0].lanes
        if self.abreast and (known := self.abreast.get((name, tuple(args)))) is not None:
            return known
        if name in _FLOAT_BINARY:
            text = f"{_FLOAT_BINARY[name]} {args[0].typed}, {args[1].text}"
            return Value(self._instruct(text, *args), dtype, lanes)
        if name == "neg":
            return Value(self._instruct(f"fneg {args[0].typed}", *args), dtype, lanes)
        if name == "abs":
            return self._call(f"llvm.fabs.{suffix(dtype, lanes)}", args, dtype)
        if name in ROUNDING and not self.rounds:
            return rounded(self, name, args[0])
        if name in INTRINSICS:
            return self._call(f"llvm.{INTRINSICS[name]}.{suffix(dtype, lanes)}", args, dtype)
        if name in math.FUNCTIONS:
            symbol = math.symbol(name, dtype, max(1, lanes))
            if symbol not in self.module.definitions:
                shape = (name, dtype, max(1, lanes), "avx512vl" in self.target.features)
                self.module.definitions[symbol] = math.definition(*shape)
                for line in math.declares(*shape):
                    self.module.declarations.setdefault(line.split("@")[1].split("(")[0], line)
            arguments = ", ".join(arg.typed for arg in args)
            text = f"call {value_type(dtype, lanes)} @{symbol}({arguments})"
            return Value(self._instruct(text, *args), dtype, lanes)
        raise InternalError(f"no code for the operator {name!r} on {dtype}")

    def _integer(self, name: str, args: list[Value], dtype: DType) -> Value:
        lanes = args[0].lanes
        if name in ("add", "sub", "mul"):
            return Value(self._instruct(f"{name} {args[0].typed}, {args[1].text}", *args), dtype, lanes)
        if name == "neg":
            zero = "zeroinitializer" if lanes else "0"
            return Value(self._instruct(f"sub {args[0].type} {zero}, {args[0].text}", *args), dtype, lanes)
        if name == "abs":
            if dtype.kind is Kind.UNSIGNED:
                return args[0]
            return self._call(f"llvm.abs.{suffix(dtype, lanes)}", args, dtype, "i1 false")
        raise InternalError(f"no code for the operator {name!r} on {dtype}")

    # Conversions

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value as `dtype`: to integers toward zero, to floats to the nearest."""
        source, lanes = value.dtype, value.lanes
        if source == dtype:
            return value
        if value in (TRUE, FALSE):
            return Value(literal(value == TRUE, dtype), dtype)
        if source == f64 and dtype.is_float and dtype.bits == 16:
            return self.cast(self._round_to_odd(value), dtype)
        if dtype == bf16:
            return round_bf16(self, self.cast(value, f32))
        if source == bf16:
            return self.cast(Value(value.text, f32, lanes), dtype)
        if dtype == boolean:
            zero = self.spread(Value(literal(0, source), source), lanes)
            return self._compare("ne", value, zero)
        if source.is_float and dtype.is_float:
            return self._convert("fpext" if dtype.bits > source.bits else "fptrunc", value, dtype)
        if source.is_float:
            return self._to_integer(value, dtype)
        signed = source.kind is Kind.SIGNED
        if dtype == f16:
            return self.cast(self.cast(value, f32), f16)  # exact below the largest f16
        if dtype.is_float:
            return self._convert("sitofp" if signed else "uitofp", value, dtype)
        if dtype.bits == source.bits:
            return Value(value.text, dtype, lanes)
        if dtype.bits < source.bits:
            return self._convert("trunc", value, dtype)
        return self._convert("sext" if signed else "zext", value, dtype)

    def _convert(self, name: str, value: Value, dtype: DType) -> Value:
        text = f"{name} {value.typed} to {value_type(dtype, value.lanes)}"
        return Value(self._instruct(text, value), dtype, value.lanes)

    def _to_integer(self, value: Value, dtype: DType) -> Value:
        """Out-of-range values become some integer (never LLVM's poison, which would undo the clamp of an index)."""
        middle = i32 if dtype.bits < 32 or dtype == i32 else dtype if dtype == u64 else i64
        raw = self._convert("fptoui" if middle == u64 else "fptosi", value, middle)
        return self.cast(Value(self._instruct(f"freeze {raw.typed}", raw), middle, value.lanes), dtype)

    def _round_to_odd(self, value: Value) -> Value:
        """f64 to f32 so that rounding the result again to 16 bits is as if it were done once: what is not exact is cut off and
        gets an odd last bit (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008)."""
        lanes, kind = value.lanes, vector("i32", value.lanes)
        near = self._convert("fptrunc", value, f32)
        back = self._convert("fpext", near, f64)
        inexact = self._compare_text("fcmp one", back, value)
        above = self._compare("gt", self._float("abs", [back], f64), self._float("abs", [value], f64))
        bits = self._instruct(f"bitcast {near.typed} to {kind}", near)
        step = self._instruct(f"sext {above.typed} to {kind}", above)
        cut = self.text.compute(f"add {kind} {bits}, {step}", bits, step)
        odd = self.text.compute(f"or {kind} {cut}, {'splat (i32 1)' if lanes else '1'}", cut)
        chosen = f"select {inexact.typed}, {kind} {odd}, {kind} {bits}"
        result = self.text.compute(chosen, inexact.text, odd, bits)
        return Value(self.text.compute(f"bitcast {kind} {result} to {near.type}", result), f32, lanes)
