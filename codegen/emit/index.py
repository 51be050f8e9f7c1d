"""Indices at emission time: a sum of constants, SSA names and the lane number.

Loop variables that are unrolled are constants here, so the copies of an unrolled body differ in the constant part alone: they
share one pointer, and the constant becomes the displacement of the instruction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...tensor.dtype import boolean, i64
from .text import FunctionText
from .types import FALSE, TRUE, Value, vector
from .values import Arithmetic

_HOLDS = {
    "lt": lambda n: n < 0, "le": lambda n: n <= 0, "gt": lambda n: n > 0,
    "ge": lambda n: n >= 0, "eq": lambda n: n == 0, "ne": lambda n: n != 0,
}  # fmt: skip
_LARGEST = 1 << 63
_SIGNED = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


class Index(NamedTuple):
    """constant + sum of coefficient * name + lane * (number of the lane) + a vector of i64, "" for none."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    lane: int = 0
    vector: str = ""

    @property
    def is_constant(self) -> bool:
        """A number known now, the same in all lanes."""
        return not (self.terms or self.lane or self.vector)

    @property
    def is_scalar(self) -> bool:
        """The same in all lanes."""
        return not (self.lane or self.vector)

    def shifted(self, amount: int) -> Index:
        """self + amount."""
        return Index(self.constant + amount, self.terms, self.lane, self.vector)


class IndexArithmetic:
    """Sums, quotients and comparisons of indices in one function. `lanes` is the number of lanes now, 0 outside of vectors."""

    def __init__(self, text: FunctionText, arithmetic: Arithmetic) -> None:
        self.text = text
        self.arithmetic = arithmetic
        self.lanes = 0
        self.kind = "i64"  # of the names and literals of indices
        self.natural: set[str] = set()  # names that are known not to be negative
        self.multiples: dict[str, int] = {}  # names that are multiples of a number
        self.tables: dict[str, tuple[int, ...]] = {}  # vectors of which the number of each lane is known now
        self.ranges: dict[str, tuple[int, int]] = {}  # vectors of which the least and the greatest number are known now

    def total(self, parts: Iterable[tuple[Index, int]], constant: int = 0) -> Index:
        """constant + sum of coefficient * part."""
        terms: dict[str, int] = {}
        lane = 0
        vectors: list[Value] = []
        for part, coefficient in parts:
            constant += coefficient * part.constant
            lane += coefficient * part.lane
            for name, times in part.terms:
                terms[name] = terms.get(name, 0) + coefficient * times
            if part.vector:
                whole = Value(part.vector, i64, self.lanes)
                factor = Value(str(coefficient), i64)
                scaled = whole if coefficient == 1 else self.arithmetic.apply("mul", [whole, factor], i64)
                if whole.text in self.tables:
                    self.tables[scaled.text] = tuple(coefficient * n for n in self.tables[whole.text])
                elif whole.text in self.ranges:
                    low, high = sorted(coefficient * end for end in self.ranges[whole.text])
                    self.ranges[scaled.text] = low, high
                vectors.append(scaled)
        if not terms:
            kept: tuple[tuple[str, int], ...] = ()
        elif len(terms) == 1:
            kept = tuple([item for item in terms.items() if item[1]])
        else:
            level = self.text.levels.get
            order = sorted([(level(name, 0), name) for name, times in terms.items() if times])
            kept = tuple([(name, terms[name]) for _, name in order])
        summed = vectors[0] if vectors else None
        for other in vectors[1:]:
            assert summed is not None
            before, summed = summed, self.arithmetic.apply("add", [summed, other], i64)
            if before.text in self.tables and other.text in self.tables:
                pairs = zip(self.tables[before.text], self.tables[other.text], strict=True)
                self.tables[summed.text] = tuple(one + more for one, more in pairs)
            elif (one := self._range(before.text)) and (more := self._range(other.text)):
                self.ranges[summed.text] = one[0] + more[0], one[1] + more[1]
        return Index(constant, kept, lane, summed.text if summed else "")

    def minus(self, left: Index, right: Index) -> Index:
        """left - right."""
        return self.total(((left, 1), (right, -1)))

    def from_value(self, value: Value) -> Index:
        """An i64 value as an index."""
        if value.lanes:
            return Index(vector=value.text)
        if value.is_literal:
            return Index(int(value.text))
        name = value.text
        if self.kind != "i64":
            name = self.text.pure(f"trunc i64 {name} to {self.kind}", name)
        return Index(0, ((name, 1),))

    def _wide(self, name: str) -> str:
        """A scalar of the kind of indices as an i64."""
        return name if self.kind == "i64" or name[0] != "%" else self.text.pure(f"sext {self.kind} {name} to i64", name)

    def _resized(self, name: str, bits: int) -> str:
        """A scalar that is small enough, in another number of bits."""
        own = int(self.kind[1:])
        if bits == own or name[0] != "%":
            return name
        return self.text.pure(f"{'trunc' if bits < own else 'sext'} {self.kind} {name} to i{bits}", name)

    # To code

    def scalar(self, index: Index) -> str:
        """The value in lane 0 without the vector part, as an i64 name or literal; summed from the outermost loop inward."""
        total = ""
        for name, times in index.terms:
            term = name if times == 1 else self.text.pure(f"mul {self.kind} {name}, {times}", name)
            total = self.text.pure(f"add {self.kind} {total}, {term}", total, term) if total else term
        if not total:
            return str(index.constant)
        return self.text.pure(f"add {self.kind} {total}, {index.constant}", total) if index.constant else total

    def value(self, index: Index) -> Value:
        """The index as an i64 value, in lanes if they differ."""
        scalar = Value(self._wide(self.scalar(index)), i64)
        if index.is_scalar:
            return scalar
        total = self.arithmetic.spread(scalar, self.lanes)
        if index.vector:
            total = self.arithmetic.apply("add", [total, Value(index.vector, i64, self.lanes)], i64)
        if index.lane:
            steps = Value(lane_numbers(self.lanes, index.lane, 64), i64, self.lanes)
            total = self.arithmetic.apply("add", [total, steps], i64)
        return total

    def numbers(self, index: Index) -> tuple[int, ...] | None:
        """Returns what each lane adds to the names of an index, where that is known now."""
        known = self.tables.get(index.vector) if index.vector else (0,) * self.lanes
        return None if known is None else tuple(index.constant + index.lane * n + one for n, one in enumerate(known))

    def span(self, index: Index) -> tuple[int, int] | None:
        """The least and the greatest number that a lane adds to the names and the constant of an index, where it is known."""
        found = self._range(index.vector)
        last = index.lane * (self.lanes - 1)
        return None if found is None else (found[0] + min(0, last), found[1] + max(0, last))

    def _range(self, vector: str) -> tuple[int, int] | None:
        numbers = self.tables.get(vector)
        return self.ranges.get(vector) if numbers is None else (min(numbers), max(numbers))

    # Comparison

    def compare(self, name: str, left: Index, right: Index, far: bool = False) -> Value:
        """left < right and the like, as a bool. `far`: they may be so far apart that their difference wraps."""
        difference = self.minus(left, right)
        if difference.is_constant:
            return TRUE if _HOLDS[name](difference.constant) else FALSE
        if name == "ge" and difference.is_scalar and self.is_natural(difference):
            return TRUE
        if difference.vector:
            found = self.arithmetic.apply(name, [self.value(left), self.value(right)], boolean)
            if (numbers := self.numbers(difference)) is not None and not difference.terms:
                self.arithmetic.known.masks[found.text] = tuple(_HOLDS[name](number) for number in numbers)
            return found
        known = self.text.scope_of([symbol for symbol, _ in difference.terms]).conditions
        key = (name, difference, self.lanes if difference.lane else 0)
        if key not in known:
            known[key] = self._compare(name, difference, left, right, far)
        return known[key]

    def _compare(self, name: str, difference: Index, left: Index, right: Index, far: bool) -> Value:
        if difference.lane:
            return self._compare_lanes(name, difference, self._saturated(left, right) if far else "")
        if len(difference.terms) == 1 and abs(difference.terms[0][1]) == 1 and abs(difference.constant) < _LARGEST:
            # compare the name itself with a number
            (symbol, sign), limit = difference.terms[0], difference.constant
            flipped = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name) if sign < 0 else name
            text = f"icmp {_SIGNED[flipped]} {self.kind} {symbol}, {-limit * sign}"
            return Value(self.text.pure(text, symbol), boolean)
        a, b = self.scalar(left), self.scalar(right)
        return Value(self.text.pure(f"icmp {_SIGNED[name]} {self.kind} {a}, {b}", a, b), boolean)

    def _saturated(self, left: Index, right: Index) -> str:
        """left - right in lane 0, or what comes next to it in an i64."""
        a, b = (self.scalar(Index(side.constant, side.terms)) for side in (left, right))
        call = self.arithmetic.module.intrinsic(f"llvm.ssub.sat.{self.kind}", self.kind, self.kind, self.kind)
        return self.text.pure(f"{call}({self.kind} {a}, {self.kind} {b})", a, b)

    def _compare_lanes(self, name: str, difference: Index, first: str) -> Value:
        """base + c * lane against 0, in the narrowest lanes that hold it: base is clamped to what can change the answer.
        `first`: its name, if it is more than a sum."""
        base = Index(difference.constant, difference.terms)
        if base.is_constant:
            held = {_HOLDS[name](base.constant + difference.lane * lane) for lane in range(self.lanes)}
            if len(held) == 1:
                return TRUE if held == {True} else FALSE
        reach = abs(difference.lane) * self.lanes + 1
        bits = max(8, min(64, self.arithmetic.target.vector_bits // self.lanes))
        while reach >= 1 << (bits - 1):
            bits *= 2
        numbers = lane_numbers(self.lanes, -difference.lane, bits)
        if base.is_constant:
            start = str(max(-reach, min(reach, base.constant)))
        else:
            start = self.extremum("min", first or self.scalar(base), str(reach))
            start = self.extremum("max", start, str(-reach))
            start = self._resized(start, bits)
        kind = vector(f"i{bits}", self.lanes)
        if base.is_constant:
            text = f"icmp {_SIGNED[name]} {kind} splat (i{bits} {start}), {numbers}"
            found = Value(self.text.pure(text), boolean, self.lanes)
            places = (base.constant + difference.lane * lane for lane in range(self.lanes))
            self.arithmetic.known.masks[found.text] = tuple(map(_HOLDS[name], places))
            return found
        one = self.text.pure(f"insertelement {kind} poison, i{bits} {start}, i64 0", start)
        every = f"shufflevector {kind} {one}, {kind} poison, <{self.lanes} x i32> zeroinitializer"
        spread = self.text.pure(every, one)
        return Value(self.text.pure(f"icmp {_SIGNED[name]} {kind} {spread}, {numbers}", spread), boolean, self.lanes)

    def extremum(self, name: str, left: str, right: str) -> str:
        """min or max of two scalars."""
        kind = self.kind
        call = self.arithmetic.module.intrinsic(f"llvm.s{name}.{kind}", kind, kind, kind)
        return self.text.pure(f"{call}({kind} {left}, {kind} {right})", left, right)

    def bound(self, name: str, left: Index, right: Index) -> Index:
        """min or max of two indices."""
        difference = self.minus(left, right)
        if difference.is_constant:
            return left if (difference.constant <= 0) == (name == "min") else right
        if left.is_scalar and right.is_scalar:
            return Index(0, ((self.extremum(name, self.scalar(left), self.scalar(right)), 1),))
        return self.from_value(self.arithmetic.apply(name, [self.value(left), self.value(right)], i64))

    # Quotients

    def divide(self, name: str, index: Index, divisor: int) -> Index:
        """floordiv or mod by a positive constant; exact parts are divided without an instruction."""
        if divisor == 1:
            return index if name == "floordiv" else Index()
        if name == "mod":
            kept = tuple(t for t in index.terms if self._step(t) % divisor)
            index = Index(index.constant, kept, index.lane, index.vector)
        elif near := tuple(t for t in index.terms if t[1] % divisor and not self._step(t) % divisor):
            steps_of_near = Index(0, ((self._quotient(name, Index(0, near), divisor), 1),))
            apart = self.divide(name, self.minus(index, Index(0, near)), divisor)
            return self.total(((steps_of_near, 1), (apart, 1)))
        whole = Index(0, tuple(term for term in index.terms if term[1] % divisor == 0))
        rest = self.minus(index, whole)
        quotient = Index(0, tuple((symbol, times // divisor) for symbol, times in whole.terms))
        steps = self._constant_quotient(rest, divisor)
        if steps is not None:
            if name == "floordiv":
                return quotient.shifted(steps)
            return rest.shifted(-steps * divisor)
        if rest.is_scalar:
            part = Index(0, ((self._quotient(name, rest, divisor), 1),))
        else:
            operands = [self.value(rest), Value(str(divisor), i64)]
            part = self.from_value(self._vector_quotient(name, *operands))
            if (numbers := self.numbers(rest)) is not None and not rest.terms and self.kind == "i64":
                found = (divmod(number, divisor) for number in numbers)
                self.tables[part.vector] = tuple(q if name == "floordiv" else left for q, left in found)
        return self.total(((quotient, 1), (part, 1))) if name == "floordiv" else part

    def _step(self, term: tuple[str, int]) -> int:
        """A number that a term is surely a multiple of."""
        return term[1] * self.multiples.get(term[0], 1)

    def _constant_quotient(self, rest: Index, divisor: int) -> int | None:
        """rest // divisor, if it is one number in all lanes."""
        if rest.terms or rest.vector:
            return None
        last = rest.constant + rest.lane * max(0, self.lanes - 1)
        steps = rest.constant // divisor
        return steps if last // divisor == steps else None

    def is_natural(self, index: Index) -> bool:
        """Says whether a scalar is known not to be negative."""
        return index.constant >= 0 and all(n in self.natural and times > 0 for n, times in index.terms)

    def _quotient(self, name: str, index: Index, divisor: int) -> str:
        """The quotient or remainder of a scalar."""
        scalar = self.scalar(index)
        natural = self.is_natural(index)
        if not natural or divisor & (divisor - 1) == 0:
            found = self._scalar_quotient(name, scalar, divisor)
        else:
            what = "udiv" if name == "floordiv" else "urem"
            found = self.text.pure(f"{what} {self.kind} {scalar}, {divisor}", scalar)
        if natural:
            self.natural.add(found)
        return found

    def _scalar_quotient(self, name: str, scalar: str, divisor: int) -> str:
        if divisor & (divisor - 1) == 0:
            shift = divisor.bit_length() - 1
            return self.text.pure(
                f"ashr {self.kind} {scalar}, {shift}"
                if name == "floordiv"
                else f"and {self.kind} {scalar}, {divisor - 1}",
                scalar,
            )
        quotient = self.text.pure(f"sdiv {self.kind} {scalar}, {divisor}", scalar)
        back = self.text.pure(f"mul {self.kind} {quotient}, {divisor}", quotient)
        rest = self.text.pure(f"sub {self.kind} {scalar}, {back}", scalar, back)
        negative = self.text.pure(f"icmp slt {self.kind} {rest}, 0", rest)
        if name == "floordiv":
            lower = self.text.pure(f"sext i1 {negative} to {self.kind}", negative)
            return self.text.pure(f"add {self.kind} {quotient}, {lower}", quotient, lower)
        up = self.text.pure(f"add {self.kind} {rest}, {divisor}", rest)
        return self.text.pure(f"select i1 {negative}, {self.kind} {up}, {self.kind} {rest}", negative, up, rest)

    def _vector_quotient(self, name: str, value: Value, divisor: Value) -> Value:
        number = int(divisor.text)
        if number & (number - 1) == 0:
            amount = number.bit_length() - 1 if name == "floordiv" else number - 1
            what = "ashr" if name == "floordiv" else "and"
            text = f"{what} {value.typed}, splat (i64 {amount})"
            return Value(self.text.pure(text, value.text), i64, value.lanes)
        return self.arithmetic.apply(name, [value, divisor], i64)


def lane_numbers(lanes: int, step: int, bits: int) -> str:
    """The constant vector 0, step, 2 step, ..."""
    return "<" + ", ".join(f"i{bits} {step * lane}" for lane in range(lanes)) + ">"
