"""Pipelines that a seed draws: DAGs of stencils, filters, reductions of windows, steps of two, with all kinds of borders."""

from __future__ import annotations

from random import Random

from tilesmith.tensor.program import Program
from tilesmith.tensor.text.parse import parse

BORDERS = ("zero", "clamped")


def drawn_pipeline(seed: int, most: int = 6, dtypes: tuple[str, ...] = ("f32", "f64", "i32")) -> Program:
    """A program of 2 to `most` stages, each of which reads one or two earlier tensors at shifted places."""
    return parse(_Drawing(Random(seed), most, dtypes).text())


class _Drawing:
    def __init__(self, random: Random, most: int, dtypes: tuple[str, ...]) -> None:
        self.random, self.most = random, most
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
        for number in range(random.randint(2, self.most)):
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
        declared = ", ".join(f"{axis}: {n}" for axis, n in zip(axes, shape, strict=True))
        kind = random.choice(("points", "points", "window", "two"))
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


def _listed(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
