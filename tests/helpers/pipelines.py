"""Pipelines that a seed draws: DAGs of stencils, filters, reductions of windows, steps of two, with all kinds of borders.

If asked for, also pyramids that go up again, scans along an axis, and reductions of whole rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

BORDERS = ("zero", "clamped")
KINDS = ("points", "points", "window", "two")
MORE_KINDS = (*KINDS, "points", "up", "up", "scan", "rows")
POINTS = 6000  # of a stage of a pyramid that goes up


def drawn_pipeline(
    seed: int, most: int = 6, dtypes: tuple[str, ...] = ("f32", "f64", "i32"), least: int = 2,
    kinds: tuple[str, ...] = KINDS,
) -> Program:  # fmt: skip
    """A program of `least` to `most` stages, each of which reads one or two earlier tensors at shifted places."""
    return parse(_Drawing(Random(seed), range(least, most), dtypes, kinds).text())


class _Drawing:
    def __init__(self, random: Random, counts: range, dtypes: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        self.random, self.counts, self.kinds = random, counts, kinds
        self.dtype = random.choice(dtypes)
        self.rank = random.choice((1, 2, 2, 2, 3))
        self.shapes: dict[str, tuple[int, ...]] = {}

    def text(self) -> str:
        """The program, as text."""
        random = self.random
        shape = tuple(random.randint(5, 40) if d == self.rank - 1 else random.randint(4, 14) for d in range(self.rank))
        self.shapes["x"] = shape
        lines = [f"input x: {self.dtype}[{_listed(shape)}]"]
        read: set[str] = set()
        for number in range(random.randint(self.counts.start, self.counts.stop)):
            line, used = self._stage(f"s{number}")
            lines.append(line)
            read |= used
        ends = [name for name in self.shapes if name != "x" and name not in read]
        if random.random() < 0.15:
            ends = list(dict.fromkeys([*ends, random.choice([name for name in self.shapes if name != "x"])]))
        return "\n".join([*lines, "return " + ", ".join(ends)])

    def _stage(self, name: str) -> tuple[str, set[str]]:
        random = self.random
        first = random.choice(list(self.shapes)[-3:])
        others = [t for t, shape in self.shapes.items() if shape == self.shapes[first] and t != first]
        second = random.choice(others) if others and random.random() < 0.5 else first
        axes = ["i", "j", "k"][3 - self.rank :]
        steps = [2 if random.random() < 0.1 else 1 for _ in axes]
        shape = tuple(max(1, n // step) for n, step in zip(self.shapes[first], steps, strict=True))
        places = [axis if step == 1 else f"{step} * {axis}" for axis, step in zip(axes, steps, strict=True)]
        self.shapes[name] = shape
        declared = _declared(axes, shape)
        kind = random.choice(self.kinds)
        if kind in ("up", "scan", "rows"):
            return {"up": self._up, "scan": self._scan, "rows": self._rows}[kind](name, first, axes), {first}
        if kind == "window":
            width, along = random.randint(2, 3), random.randrange(self.rank)
            shifted = [f"{p} + r - {random.randint(0, width)}" if d == along else p for d, p in enumerate(places)]
            combiner = random.choice(("sum", "max"))
            return f"{name}[{declared}] = {combiner}[r: {width}]({self._read(first, shifted)})", {first}
        if kind == "two":
            self.shapes[f"{name}b"] = shape
            bodies = f"{self._sum(first, first, places)}, {self._sum(second, first, places)}"
            return f"{name}, {name}b[{declared}] = {bodies}", {first, second}
        return f"{name}[{declared}] = {self._sum(first, second, places)}", {first, second}

    def _up(self, name: str, first: str, axes: list[str]) -> str:
        """Twice as many points along an axis, each between two of the coarser ones."""
        shape, d = self.shapes[first], self.random.randrange(self.rank)
        finer = tuple(n * 2 - (self.random.random() < 0.3) if k == d else n for k, n in enumerate(shape))
        if prod(finer) > POINTS:
            return self._rows(name, first, axes)
        self.shapes[name] = finer
        reads = [
            f"{first}[{', '.join(place if k == d else axis for k, axis in enumerate(axes))}]"
            for place in (f"{axes[d]} // 2", f"min(({axes[d]} + 1) // 2, {shape[d] - 1})")
        ]
        return f"{name}[{_declared(axes, finer)}] = {reads[0]} - {reads[1]} * {self._constant(2)}"

    def _scan(self, name: str, first: str, axes: list[str]) -> str:
        """A running sum along an axis, which decays in floats; forwards or backwards."""
        shape, d = self.shapes[first], self.random.randrange(self.rank)
        self.shapes[name] = shape
        place = "n" if self.random.random() < 0.5 else f"{shape[d] - 1} - n"
        others = [axis for axis in axes if axis != axes[d]]
        state = f"{name}t[{_declared(others, [n for k, n in enumerate(shape) if k != d])}]: {self.dtype} = 0"
        here = f"{first}[{', '.join(place if axis == axes[d] else axis for axis in axes)}]"
        kept = "" if self.dtype.startswith("i") else " * 0.5"
        return "\n".join((
            f"fold[n: {shape[d]}] {{", state, f"{name}[{_declared(axes, shape)}]: {self.dtype} = 0",
            f"let new = {name}t[{', '.join(others)}]{kept} + {here}", f"{name}t = new",
            f"{name} = select({axes[d]} == {place}, new, {name}[{', '.join(axes)}])", "}",
        ))  # fmt: skip

    def _rows(self, name: str, first: str, axes: list[str]) -> str:
        """Rows less their largest element, or their sum."""
        shape = self.shapes[first]
        self.shapes[name] = shape
        places, others = ", ".join(axes), axes[:-1]
        line = f"{self.random.choice(('max', 'sum'))}[{axes[-1]}: {shape[-1]}]({first}[{places}])"
        row = f"{name}r[{_declared(others, shape[:-1])}] = {line}"
        value = f"{first}[{places}] - {name}r[{', '.join(others)}] * {self._constant(16)}"
        return f"{row}\n{name}[{_declared(axes, shape)}] = {value}"

    def _constant(self, part: int) -> str:
        return "2" if self.dtype.startswith("i") else str(1 / part)

    def _sum(self, first: str, second: str, places: list[str]) -> str:
        random = self.random
        terms = []
        for source in [first, second] * random.randint(1, 2):
            shifts = [random.choice((-2, -1, 0, 0, 0, 1, 2)) for _ in places]
            shifted = [
                p if s == 0 else f"{p} {'+' if s > 0 else '-'} {abs(s)}" for p, s in zip(places, shifts, strict=True)
            ]
            terms.append(self._read(source, shifted))
        factor = "" if self.dtype.startswith("i") else " * 0.25"
        return f"({' + '.join(terms)}){factor}"

    def _read(self, source: str, places: list[str]) -> str:
        shape = self.shapes[source]
        if self.random.choice(BORDERS) == "clamped":
            return f"{source}[{', '.join(f'min(max({p}, 0), {n - 1})' for p, n in zip(places, shape, strict=True))}]"
        inside = " and ".join(f"{p} >= 0 and {p} < {n}" for p, n in zip(places, shape, strict=True))
        return f"select({inside}, {source}[{', '.join(places)}], 0)"


def _declared(axes: Sequence[str], shape: Sequence[int]) -> str:
    return ", ".join(f"{axis}: {n}" for axis, n in zip(axes, shape, strict=True))


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
