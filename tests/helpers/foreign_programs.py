"""Programs as strangers write them: every type, odd indices, tables, folds, guards, several outputs. Written as text.

    program = foreign_program(17)                 of a seed, the same in every process
    @given(foreign_programs()) ...                of hypothesis, which makes them smaller

Values are kept so that results can be compared: floats stay moderate, functions are kept from their poles, and what decides
(comparisons, roundings, casts to integers) is exact in every type, so that rounding never tips it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from random import Random

from hypothesis import strategies as st

from helpers.foreign_values import FLOATS, LARGEST, POINTS, SIZES, TYPES, Drawn, Value, Values
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse


def foreign_program(seed: int, types: Sequence[str] = TYPES) -> Program:
    """The program of a seed."""
    return parse(foreign_text(Random(f"foreign {seed}").randint, types))


@st.composite
def foreign_programs(draw: st.DrawFn, types: Sequence[str] = TYPES) -> Program:
    """The same for hypothesis. What stands first in each choice is the simplest, so that programs shrink."""
    return parse(foreign_text(lambda low, high: draw(st.integers(low, high)), types))


def foreign_text(pick: Callable[[int, int], int], types: Sequence[str] = TYPES) -> str:
    """A program as text. `pick(low, high)` draws a whole number, both ends included."""
    return _Writer(pick, types).program()


class _Writer(Values):
    """Stages one after the other; each reads what is there, or declares what it needs."""

    def program(self) -> str:
        for _ in range(self.pick(1, 4)):
            self.choose(_KINDS)(self)
        outputs = [self.computed[-1].name]
        outputs += [tensor.name for tensor in self.computed[:-1] if self.one_in(4)]
        if self.one_in(4):
            outputs.reverse()
        if self.one_in(8):
            self._declare(self.choose(self.types))  # which nothing reads
        return "\n".join([*self.declared, *self.lines, f"return {', '.join(outputs)}"])

    # ---- stages

    def _extents(self, least: int, most: int, points: int) -> list[int]:
        found: list[int] = []
        for _ in range(self.pick(least, most)):
            found.append(self.choose([size for size in SIZES if size * prod(found) <= points]))
        return found

    def _spatial(self, points: int = POINTS) -> str:
        """Sets the spatial axes; gives their text. They are often those of a tensor that is there."""
        shapes = [t.shape for t in self.tensors if prod(t.shape) <= points and len(t.shape) < 4]
        extents = list(self.choose(shapes)) if shapes and not self.one_in(3) else self._extents(0, 3, points)
        self.axes = dict(zip("ijkl", extents, strict=False))
        return ", ".join(f"{name}: {extent}" for name, extent in self.axes.items())

    def _name(self) -> str:
        return f"t{len(self.computed)}"

    def _made(self, dtype: str, shape: Sequence[int], value: Value, name: str = "") -> None:
        made = Drawn(name or self._name(), dtype, tuple(shape), value.most, value.exact)
        self.tensors.append(made)
        self.computed.append(made)

    def _pointwise(self) -> None:
        dtype, axes = self.choose(self.types), self._spatial()
        value = self._bounded(self._value(dtype, self.pick(1, 3)), dtype)
        self.lines.append(f"{self._name()}[{axes}] = {value.text}")
        self._made(dtype, list(self.axes.values()), value)

    def _pair(self) -> None:
        axes = self._spatial()
        shape, first = list(self.axes.values()), len(self.computed)
        dtypes = [self.choose(self.types), self.choose(self.types)]
        values = [self._bounded(self._value(dtype, self.pick(0, 2)), dtype) for dtype in dtypes]
        names = [f"t{first}", f"t{first + 1}"]
        self.lines.append(f"{', '.join(names)}[{axes}] = {', '.join(value.text for value in values)}")
        for name, dtype, value in zip(names, dtypes, values, strict=True):
            self._made(dtype, shape, value, name)

    def _reduction(self) -> None:
        dtype, axes = self.choose(self.types), self._spatial(POINTS // 4)
        shape = list(self.axes.values())
        extents = self._extents(1, 2, max(1, POINTS // prod(shape)))
        over = dict(zip("rs", extents, strict=False))
        self.axes |= over
        terms = prod(extents)
        combiners = ("max", "min") if dtype == "bool" else ("sum", "sum", "max", "min", "prod")
        combiner = self.choose(combiners)
        if dtype in FLOATS and combiner == "prod" and terms > 8:
            combiner = "sum"
        value = self._value(dtype, self.pick(0, 3))
        most, exact = value.most, value.exact and combiner in ("max", "min")
        if dtype in FLOATS and combiner in ("sum", "prod"):
            limit = 1.0 if combiner == "prod" else max(0.25, min(2.0, 4 * LARGEST / terms))
            if value.most > limit:
                value = Value(f"min(max({value.text}, -{limit}), {limit})")
            most = 1.0 if combiner == "prod" else min(value.most, limit) * terms if value.most else limit * terms
        around = ", ".join(f"{name}: {extent}" for name, extent in over.items())
        self.lines.append(f"{self._name()}[{axes}] = {combiner}[{around}]({value.text})")
        self._made(dtype, shape, Value("", most, exact))

    def _product(self) -> None:
        """A sum of products of operands that each move with some of the axes: what is tiled."""
        dtype = self.choose([t for t in self.types if t != "bool"] or ["f32"])
        self.axes = dict(zip("ijr", [self.choose(SIZES[4:]) for _ in range(3)], strict=True))
        if self.one_in(3):
            self.axes = {"k": self.pick(1, 3), **self.axes}
        if self.one_in(4):
            self.axes["s"] = self.pick(1, 4)
        axes, terms = self.axes, prod(e for a, e in self.axes.items() if a in "rs")
        summed = [a for a in axes if a in "rs"]
        rows, columns = [a for a in axes if a != "j"], [a for a in axes if a not in "ik"]
        operands = [self._operand(dtype, rows), self._operand(dtype, columns)]
        if self.one_in(4):
            operands.append(self._operand(dtype, [self.choose(list(axes))]))
        body = " * ".join(f"min(max({v.text}, -1), 1)" if v.most > 3 else v.text for v in operands)
        if self.one_in(5):
            body = f"select({self._condition(1)}, {body}, 0)"
        spatial = {a: e for a, e in axes.items() if a not in summed}
        head, around = (
            ", ".join(f"{a}: {e}" for a, e in some.items()) for some in (spatial, {a: axes[a] for a in summed})
        )
        combiner = "sum" if dtype in FLOATS or not self.one_in(5) else "max"
        self.lines.append(f"{self._name()}[{head}] = {combiner}[{around}]({body})")
        self._made(dtype, list(spatial.values()), Value("", 27.0 * terms, False))

    def _operand(self, dtype: str, names: Sequence[str]) -> Value:
        """A read that moves with these axes, in some order: plain, shifted together as in a window, or behind a guard."""
        order = [names[n] for n in self._order(len(names))]
        same = [t for t in self.tensors if t.dtype == dtype and t.shape == tuple(self.axes[a] for a in order)]
        if same and not self.one_in(3):
            return Value(f"{same[-1].name}[{', '.join(order)}]", same[-1].most, same[-1].exact)
        indices, shape, guard = list(order), [self.axes[a] for a in order], ""
        form = self.pick(0, 5)
        if form == 1 and len(order) > 1:  # a window
            a, b = order[0], order[-1]
            stride = self.pick(1, 2)
            indices, shape = indices[:-1], shape[:-1]
            indices[0], shape[0] = f"{stride} * {a} + {b}", stride * (self.axes[a] - 1) + self.axes[b]
            if self.one_in(2):
                shift = self.pick(1, 2)
                indices[0], shape[0] = f"{indices[0]} - {shift}", max(1, shape[0] - 2 * shift)
                guard = f"{indices[0]} >= 0 and {indices[0]} < {shape[0]}"
        elif form == 2:
            place = self.pick(0, len(order) - 1)
            extent = self.choose(SIZES)
            indices[place], shape[place] = self._index(extent), extent
        if prod(shape) > 4000:
            indices, shape, guard = [order[0]], [self.axes[order[0]]], ""
        name, kind = f"x{len(self.declared)}", self.choose(("input", "input", "constant"))
        self.declared.append(f"{kind} {name}: {dtype}[{', '.join(map(str, shape))}]")
        self.tensors.append(Drawn(name, dtype, tuple(shape), 3.0, True))
        read = f"{name}[{', '.join(indices)}]"
        return Value(f"select({guard}, {read}, 0)" if guard else read, 3.0, True)

    def _order(self, count: int) -> list[int]:
        left = list(range(count))
        if not self.one_in(3):
            return left
        return [left.pop(self.pick(0, len(left) - 1)) for _ in range(count)]

    def _rows(self) -> None:
        """A row and what is computed of it, such as a softmax: a reduction whose result its row reads again."""
        dtype = self.choose([t for t in self.types if t != "bool"] or ["f32"])
        source = [t for t in self.tensors if t.dtype == dtype and 1 < len(t.shape) < 4]
        if not source or self.one_in(3):
            self.axes = dict(zip("ij", [self.choose(SIZES), self.choose(SIZES)], strict=True))
            shape = list(self.axes.values())
            name = f"x{len(self.declared)}"
            self.declared.append(f"input {name}: {dtype}[{', '.join(map(str, shape))}]")
            source = [Drawn(name, dtype, tuple(shape), 3.0, True)]
            self.tensors += source
        tensor, combiner = source[-1], self.choose(("max", "sum", "min"))
        *rows, last = tensor.shape
        names = list("ijkl"[: len(rows)])
        outer = ", ".join(f"{n}: {e}" for n, e in zip(names, rows, strict=True))
        total = self._name()
        self.lines.append(f"{total}[{outer}] = {combiner}[r: {last}]({tensor.name}[{', '.join([*names, 'r'])}])")
        most = tensor.most * (last if combiner == "sum" else 1)
        self._made(dtype, rows, Value("", most, tensor.exact and combiner != "sum"))
        self.axes = {**dict(zip(names, rows, strict=True)), "c": last}
        own = f"{tensor.name}[{', '.join([*names, 'c'])}]"
        if dtype in FLOATS:
            form = self.choose(
                (f"exp(min({own} - {total}[{', '.join(names)}], 1))", f"{own} / (abs({total}[{', '.join(names)}]) + 1)")
            )
        else:
            form = f"{own} - {total}[{', '.join(names)}]"
        if self.one_in(3):
            other = self._value(dtype, 1)
            form = f"{form} + min(max({other.text}, {'0' if dtype == 'u8' else '-2'}), 2)"
        self.lines.append(f"{self._name()}[{outer}, c: {last}] = {form}")
        self._made(dtype, [*rows, last], Value("", 2 * most + 5.0, False))

    def _fold(self) -> None:
        self._spatial(POINTS // 8)
        shape = list(self.axes.values())
        steps = self.choose([size for size in SIZES if size * prod(shape) <= POINTS])
        spatial = dict(self.axes)
        ranks = [len(shape)] + ([self.pick(0, len(shape))] if self.pick(0, 1) else [])
        head, body, made = [], [], []
        for n, rank in enumerate(ranks):
            dtype, name = self.choose(self.types), f"t{len(self.computed) + n}"
            kept = dict(list(spatial.items())[:rank])
            own = f"{name}[{', '.join(kept)}]"
            self.axes = {**kept, "q": steps}
            value = self._value(dtype, self.pick(0, 2))
            initial, new, most = self._step(dtype, own, value, steps, n)
            around = ", ".join(f"{a}: {e}" for a, e in kept.items())
            head.append(f"    {name}[{around}]: {dtype} = {initial}")
            body += new
            body.append(f"    {name} = n{n}" if new else f"    {name} = {own}")
            made.append((dtype, list(kept.values()), Value("", most, False), name))
        self.lines += [f"fold[q: {steps}] {{", *head, *body, "}"]
        for dtype, kept_shape, result, name in made:
            self._made(dtype, kept_shape, result, name)

    def _step(self, dtype: str, own: str, value: Value, steps: int, n: int) -> tuple[str, list[str], float]:
        """(first value, lines, largest value) of a tensor of a fold."""
        if dtype == "bool":
            return "false", [f"    let n{n} = {own} {self.choose(('and', 'or'))} {value.text}"], 1.0
        if dtype in FLOATS:
            limit = max(0.25, min(2.0, 4 * LARGEST / steps))
            small = value.text if value.most <= limit else f"min(max({value.text}, -{limit}), {limit})"
            form, most = self.choose(
                (
                    (f"{own} * 0.5 + {small}", 3 * limit),
                    (f"{own} + {small}", steps * limit + 1),
                    (f"max({own}, {small})", limit),
                )
            )
            return self.choose(("0", "1")), [f"    let n{n} = {form}"], most + 1
        form = self.choose((f"{own} + {value.text}", f"{own} // 2 + {value.text}", f"max({own}, {value.text})"))
        return self.choose(("0", "1")), [f"    let n{n} = {form}"], 0.0


_KINDS: tuple[Callable[[_Writer], None], ...] = (
    _Writer._pointwise,
    _Writer._reduction,
    _Writer._fold,
    _Writer._pair,
    _Writer._product,
    _Writer._rows,
    _Writer._pointwise,
    _Writer._reduction,
    _Writer._product,
)
