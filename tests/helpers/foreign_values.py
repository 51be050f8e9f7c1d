"""Values and indices of the programs that strangers write (foreign_programs.py): expressions as text, of any dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

T = TypeVar("T")
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 20, 31, 33, 40, 64, 65, 100)
FLOATS = ("f32", "f32", "f64", "f16", "bf16")
INTEGERS = ("i8", "u8", "i16", "i32", "i32", "i64")
TYPES = (*FLOATS, *FLOATS, *INTEGERS, "bool")
POINTS = 5000  # of a stage, its reduction included
LARGEST = 64.0  # of a float in a tensor
FLOAT_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}


@dataclass(frozen=True)
class Drawn:
    """A tensor that can be read."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    most: float  # of a float: no element is larger
    exact: bool  # of a float: held without rounding in every type on the way, so that it may decide


@dataclass(frozen=True)
class Value:
    """An expression of one dtype."""

    text: str
    most: float = 0.0
    exact: bool = True


class Values:
    """What can be read, and the axes that are there. Expressions read it, or declare what they need."""

    def __init__(self, pick: Callable[[int, int], int], types: Sequence[str]) -> None:
        self.pick, self.types = pick, types
        self.declared: list[str] = []
        self.lines: list[str] = []
        self.tensors: list[Drawn] = []
        self.computed: list[Drawn] = []
        self.axes: dict[str, int] = {}

    def choose(self, options: Sequence[T]) -> T:
        return options[self.pick(0, len(options) - 1)]

    def one_in(self, n: int) -> bool:
        return self.pick(1, n) == n

    # ---- values

    def _bounded(self, value: Value, dtype: str) -> Value:
        if dtype in FLOATS and value.most > LARGEST:
            return Value(f"min(max({value.text}, -2), 2)", 2.0, value.exact)
        return value

    def _value(self, dtype: str, depth: int) -> Value:
        """An expression of a dtype; a number alone never stands where a dtype is needed."""
        if depth <= 0:
            return self._leaf(dtype)
        if self.one_in(4):
            return self._choice(dtype, depth)
        if dtype == "bool":
            return Value(self._condition(depth - 1))
        if self.one_in(4):
            return self._converted(dtype, depth)
        return self._float(dtype, depth) if dtype in FLOATS else self._integer(dtype, depth)

    def _leaf(self, dtype: str) -> Value:
        if self.axes and dtype != "bool" and self.one_in(6):
            index = self._index(self.choose((5, 9, 16)))
            return Value(f"{dtype}({index})", 16.0, True)
        same = [t for t in self.tensors if t.dtype == dtype]
        newest = [t for t in self.tensors[-1:] if t.dtype == dtype]
        if newest and not self.one_in(3):
            tensor = newest[0]
        elif same and self.pick(0, 1):
            tensor = self.choose(same)
        elif self.computed and self.one_in(2):
            return self._converted(dtype, 1)
        else:
            tensor = self._declare(dtype)
        return self._read(tensor)

    def _declare(self, dtype: str) -> Drawn:
        """An input, a constant or a table; often of the extents of the axes that are there."""
        kind = self.choose(("input", "input", "input", "constant", "table"))
        extents = [self.choose(list(self.axes.values())) for _ in range(self.pick(0, min(3, len(self.axes))))]
        extents = [self.choose(SIZES) if self.one_in(4) else extent for extent in extents]
        while prod(extents) > (12 if kind == "table" else 2000):
            extents.pop()
        name = f"{'w' if kind == 'table' else 'x'}{len(self.declared)}"
        shape = f"[{', '.join(map(str, extents))}]" if extents or kind == "table" else ""
        if kind == "table":
            values = ", ".join(self._literal(dtype) for _ in range(prod(extents)))
            self.declared.append(f"table {name}: {dtype}{shape} = [{values}]")
        else:
            self.declared.append(f"{kind} {name}: {dtype}{shape}")
        made = Drawn(name, dtype, tuple(extents), 3.0, True)
        self.tensors.append(made)
        return made

    def _literal(self, dtype: str) -> str:
        if dtype == "bool":
            return self.choose(("false", "true"))
        if dtype in FLOATS:
            return self.choose(("1", "0", "-1", "0.5", "-0.25", "2", "3"))
        return self.choose(
            ("1", "0", "2", "3", "7", "100") if dtype == "u8" else ("1", "0", "2", "-1", "-3", "7", "-100")
        )

    def _read(self, tensor: Drawn) -> Value:
        if tensor.shape and self.axes and self.one_in(4):
            return self._guarded(tensor)
        indices = ", ".join(self._index(extent) for extent in tensor.shape)
        return Value(f"{tensor.name}[{indices}]", tensor.most, tensor.exact)

    def _guarded(self, tensor: Drawn) -> Value:
        """A read that leaves its tensor along one dimension, behind a guard."""
        place = self.pick(0, len(tensor.shape) - 1)
        own = [self._index(extent) for extent in tensor.shape]
        own[place] = index = self._sum()
        condition = f"{index} >= 0 and {index} < {tensor.shape[place]}"
        read, other = f"{tensor.name}[{', '.join(own)}]", self._literal(tensor.dtype)
        if self.one_in(4):
            text = f"select({index} < 0 or {index} >= {tensor.shape[place]}, {tensor.dtype}({other}), {read})"
        else:
            text = f"select({condition}, {read}, {other})"
        return Value(text, max(3.0, tensor.most), tensor.exact)

    def _choice(self, dtype: str, depth: int) -> Value:
        yes, no = self._value(dtype, depth - 1), self._value(dtype, depth - 2)
        condition = self._condition(depth - 2)
        return Value(f"select({condition}, {yes.text}, {no.text})", max(yes.most, no.most), yes.exact and no.exact)

    def _condition(self, depth: int) -> str:
        """A bool whose truth no rounding changes."""
        kind = self.pick(0, 5)
        if kind <= 1 and self.axes:
            return f"{self._sum()} {self.choose(('<', '<=', '>', '>=', '==', '!='))} {self.pick(0, 9)}"
        if kind == 2 and depth > 0:
            return f"({self._condition(depth - 1)} {self.choose(('and', 'or'))} {self._condition(depth - 1)})"
        if kind == 3:
            return f"(not {self._condition(depth - 1)})"
        if kind == 4:
            return self._leaf("bool").text
        dtype = self.choose([t for t in self.types if t != "bool"] or ["i32"])
        left = self._leaf(dtype)
        if not left.exact:
            left = self._read(self._declare(dtype))
        return f"({left.text} {self.choose(('<', '<=', '>', '>=', '==', '!='))} {self._literal(dtype)})"

    def _converted(self, dtype: str, depth: int) -> Value:
        """A value of another dtype, converted; integers and floats keep to what both hold."""
        others = [t for t in (*self.types, *(t.dtype for t in self.computed[-1:] * 8)) if t != dtype]
        if not others:
            return self._leaf(dtype) if depth > 1 else self._read(self._declare(dtype))
        source = self.choose(others)
        value = self._value(source, depth - 1)
        if source in FLOATS and dtype == "bool":
            return Value(f"bool({self._decisive(value, source).text})")
        if source in FLOATS and dtype in INTEGERS:
            low = 0 if dtype == "u8" else -100
            value = self._decisive(value, source)
            return Value(f"{dtype}(min(max({value.text}, {low}), 100))")
        if source in FLOATS:
            narrower = FLOAT_BITS[dtype] < FLOAT_BITS[source]
            return Value(f"{dtype}({value.text})", value.most, value.exact and not narrower)
        if dtype in FLOATS and source != "bool":
            return Value(f"{dtype}({value.text} % {source}({self.choose((7, 16, 100))}))", 100.0, True)
        return Value(f"{dtype}({value.text})", 1.0, True)

    def _decisive(self, value: Value, dtype: str) -> Value:
        return value if value.exact else self._read(self._declare(dtype))

    def _float(self, dtype: str, depth: int) -> Value:
        a = self._value(dtype, depth - 1)
        if self.pick(0, 1):
            b = self._value(dtype, depth - 2)
            text, most, exact = self.choose(
                (
                    (f"({a.text} + {b.text})", a.most + b.most, False),
                    (f"({a.text} - {b.text})", a.most + b.most, False),
                    (f"({a.text} * {b.text})", a.most * b.most, False),
                    (f"max({a.text}, {b.text})", max(a.most, b.most), a.exact and b.exact),
                    (f"min({a.text}, {b.text})", max(a.most, b.most), a.exact and b.exact),
                    (f"({a.text} / (abs({b.text}) + 1))", a.most, False),
                )
            )
            return self._tamed(Value(text, most, exact), dtype)
        if a.exact and self.one_in(4):
            return Value(f"{self.choose(('floor', 'ceil', 'round'))}({a.text})", a.most + 1, True)
        text, most, exact = self.choose(
            (
                (f"-{a.text}", a.most, a.exact),
                (f"abs({a.text})", a.most, a.exact),
                (f"({a.text} * {self.choose(('0.5', '3', '-2'))})", 3 * a.most, False),
                (f"(1 - {a.text})", a.most + 1, False),
                (f"tanh({a.text})", 1.0, False),
                (f"sigmoid({a.text})", 1.0, False),
                (f"erf({a.text})", 1.0, False),
                (f"exp(min({a.text}, 1))", 3.0, False),
                (f"log(abs({a.text}) + 1)", max(1.0, a.most), False),
                (f"sqrt(abs({a.text}) + 0.5)", max(1.0, a.most), False),
                (f"rsqrt(abs({a.text}) + 0.5)", 2.0, False),
                (f"sin({a.text})", 1.0, False),
                (f"cos({a.text})", 1.0, False),
            )
        )
        return self._tamed(Value(text, most, exact), dtype)

    def _tamed(self, value: Value, dtype: str) -> Value:
        if value.most > 16 * LARGEST:
            return Value(f"min(max({value.text}, -2), 2)", 2.0, False)
        return value

    def _integer(self, dtype: str, depth: int) -> Value:
        a = self._value(dtype, depth - 1)
        if self.pick(0, 1):
            b = self._value(dtype, depth - 2)
            form = self.choose(("({a} + {b})", "({a} - {b})", "({a} * {b})", "max({a}, {b})", "min({a}, {b})",
                                "({a} // {b})", "({a} % {b})"))  # fmt: skip
            return Value(form.format(a=a.text, b=b.text))
        numbers_ = ("2", "3", "5", "8", "100") if dtype == "u8" else ("2", "3", "-3", "8", "5", "-2", "100")
        form = self.choose(("({a} // {c})", "({a} % {c})", "({a} * {c})", "({a} + {c})", "-{a}", "abs({a})"))
        return Value(form.format(a=a.text, c=f"{dtype}({self.choose(numbers_)})"))

    # ---- indices

    def _axis(self) -> tuple[str, int]:
        return self.choose(list(self.axes.items()))

    def _sum(self) -> str:
        """A sum of multiples of axes, with no bounds in mind."""
        if not self.axes:
            return str(self.pick(0, 3))
        (a, _), form = self._axis(), self.pick(0, 4)
        if form == 0:
            return a
        if form == 1:
            return f"{a} - {self.pick(1, 3)}"
        if form == 2:
            return f"{self.pick(2, 3)} * {a} - {self.pick(0, 4)}"
        (b, _) = self._axis()
        if form == 3:
            return f"{a} + {b} - {self.pick(0, 2)}"
        return f"{a} - {self.pick(1, 2)} * {b} + {self.pick(0, 2)}"

    def _index(self, extent: int) -> str:
        """An index inside of an extent."""
        if not self.axes:
            return str(self.pick(0, extent - 1))
        fitting = [name for name, size in self.axes.items() if size <= extent]
        same = [name for name, size in self.axes.items() if size == extent]
        if same and not self.one_in(3):
            return self.choose(same)
        form = self.pick(0, 8)
        if form == 0 and fitting:
            name = self.choose(fitting)
            return self._plus(name, self.pick(0, extent - self.axes[name]))
        if form == 1 and fitting:  # reversed
            return f"{self.pick(self.axes[name := self.choose(fitting)], extent) - 1} - {name}"
        if form == 2:  # strided
            strides = [(n, s) for n, size in self.axes.items() for s in (2, 3) if s * (size - 1) < extent]
            if strides:
                name, stride = self.choose(strides)
                return self._plus(f"{stride} * {name}", self.pick(0, extent - 1 - stride * (self.axes[name] - 1)))
        if form == 3:  # a window
            pairs = [
                (a, b) for a, m in self.axes.items() for b, n in self.axes.items() if a != b and m + n - 1 <= extent
            ]
            if pairs:
                return " + ".join(self.choose(pairs))
        if form == 4:  # a quotient
            name, size = self._axis()
            divisor = self.choose([d for d in (2, 3, 4, 5, 8, 16, 40) if (size - 1) // d < extent] or [128])
            return f"{name} // {divisor}"
        if form == 5:
            return f"min(max({self._sum()}, 0), {extent - 1})"
        if form == 6:
            return self._found(extent)
        if form == 7:
            return f"({self._sum()}) // {self.pick(2, 5)} % {extent}"
        return (
            f"({self._sum()}) % {extent}" if self.one_in(2) else f"({self.pick(2, 9)} * {self._axis()[0]}) % {extent}"
        )

    def _plus(self, text: str, amount: int) -> str:
        return f"{text} + {amount}" if amount else text

    def _found(self, extent: int) -> str:
        """What an integer tensor says, clamped."""
        known = [t for t in self.tensors if t.dtype in INTEGERS and len(t.shape) <= 2]
        tensor = self.choose(known) if known and self.pick(0, 1) else None
        if tensor is None:
            size = self._axis()[1]
            name = f"x{len(self.declared)}"
            dtype = self.choose([t for t in self.types if t in INTEGERS] or ["i32"])
            self.declared.append(f"input {name}: {dtype}[{size}]")
            tensor = Drawn(name, dtype, (size,), 0.0, True)
            self.tensors.append(tensor)
        fitting = [[a for a, size in self.axes.items() if size <= extent_] for extent_ in tensor.shape]
        own = ", ".join(self.choose(names) if names else "0" for names in fitting)
        found = f"{tensor.name}[{own}]"
        found = found if tensor.dtype == "i64" else f"i64({found})"
        return f"min(max({found}, 0), {extent - 1})"
