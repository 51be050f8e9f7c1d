"""The pipelines of programs.py in Halide; halide_schedules.py schedules them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import halide as hl

from pipeline.programs import BINOMIAL, COLOUR, GAUSS, HEIGHT, WIDTH

X, Y, Z, C = (hl.Var(name) for name in ("x", "y", "z", "c"))


@dataclass
class Pipeline:
    """A pipeline in Halide: input, output, the stages between in order, the shape of the output (outermost first)."""

    source: Any
    output: Any
    stages: list[Any]
    shape: tuple[int, ...]
    schedule: Callable[[Any], None] | None = None  # by hand, for a target, where it is none of the usual ones
    more: tuple[Any, ...] = ()  # inputs behind the first one


def _total(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _f32(value: float) -> Any:
    return hl.f32(value)


def _image(kind: Any = None, dimensions: int = 2) -> Any:
    return hl.ImageParam(kind or hl.Float(32), dimensions)


def blur3() -> Pipeline:
    """A box of 3x3, separable."""
    source, a, b = _image(), hl.Func("a"), hl.Func("b")
    a[X, Y] = (source[X, Y] + source[X + 1, Y] + source[X + 2, Y]) * _f32(0.3333)
    b[X, Y] = (a[X, Y] + a[X, Y + 1] + a[X, Y + 2]) * _f32(0.3333)
    return Pipeline(source, b, [a], (HEIGHT - 2, WIDTH - 2))


def blur3_bytes() -> Pipeline:
    """The same of bytes, with sums of 16 bits."""
    source, a, b = _image(hl.UInt(8)), hl.Func("a"), hl.Func("b")

    def wide(dx: int) -> Any:
        return hl.cast(hl.Int(16), source[X + dx, Y])

    a[X, Y] = wide(0) + wide(1) * hl.i16(2) + wide(2)
    b[X, Y] = hl.cast(hl.UInt(8), (a[X, Y] + a[X, Y + 1] * hl.i16(2) + a[X, Y + 2]) / hl.i16(16))
    return Pipeline(source, b, [a], (HEIGHT - 2, WIDTH - 2))


def blur3_words() -> Pipeline:
    """Thirds of sums of 16 bits."""
    source, a, b = _image(hl.UInt(16)), hl.Func("a"), hl.Func("b")
    a[X, Y] = (source[X, Y] + source[X + 1, Y] + source[X + 2, Y]) / hl.u16(3)
    b[X, Y] = (a[X, Y] + a[X, Y + 1] + a[X, Y + 2]) / hl.u16(3)
    return Pipeline(source, b, [a], (HEIGHT - 2, WIDTH - 2))


def blur9_integers(bits: int) -> Pipeline:
    """Nine binomial weights of integers, rounded after each axis."""
    narrow, wide = hl.UInt(bits), hl.UInt(2 * bits)
    source, a, b = _image(narrow), hl.Func("a"), hl.Func("b")

    def rounded(values: Sequence[Any]) -> Any:
        terms = [hl.cast(wide, value) * hl.cast(wide, weight) for value, weight in zip(values, BINOMIAL, strict=True)]
        return hl.cast(narrow, (_total(terms) + hl.cast(wide, 128)) / hl.cast(wide, 256))

    a[X, Y] = rounded([source[X + n, Y] for n in range(9)])
    b[X, Y] = rounded([a[X, Y + n] for n in range(9)])
    return Pipeline(source, b, [a], (HEIGHT - 8, WIDTH - 8))


def blur9() -> Pipeline:
    """Nine binomial weights along each axis."""
    source, a, b = _image(), hl.Func("a"), hl.Func("b")
    a[X, Y] = _total([source[X + n, Y] * _f32(weight / 256) for n, weight in enumerate(BINOMIAL)])
    b[X, Y] = _total([a[X, Y + n] * _f32(weight / 256) for n, weight in enumerate(BINOMIAL)])
    return Pipeline(source, b, [a], (HEIGHT - 8, WIDTH - 8))


def unsharp() -> Pipeline:
    """Unsharp masking of three colours."""
    source, g, a, b, r, y = _image(dimensions=3), *(hl.Func(name) for name in "gabry")
    g[X, Y] = _total([source[X, Y, n] * _f32(weight) for n, weight in enumerate(COLOUR)])
    a[X, Y] = _total([g[X, Y + n] * _f32(weight) for n, weight in enumerate(GAUSS)])
    b[X, Y] = _total([a[X + n, Y] * _f32(weight) for n, weight in enumerate(GAUSS)])
    r[X, Y] = (_f32(2) * g[X + 3, Y + 3] - b[X, Y]) / g[X + 3, Y + 3]
    y[X, Y, C] = r[X, Y] * source[X + 3, Y + 3, C]
    return Pipeline(source, y, [g, a, b, r], (3, HEIGHT - 6, WIDTH - 6))


def _gradients(source: Any) -> tuple[Any, Any]:
    p, q = hl.Func("p"), hl.Func("q")

    def at(dx: int, dy: int) -> Any:
        return source[X + dx, Y + dy]

    p[X, Y] = at(2, 0) - at(0, 0) + _f32(2) * (at(2, 1) - at(0, 1)) + at(2, 2) - at(0, 2)
    q[X, Y] = at(0, 2) - at(0, 0) + _f32(2) * (at(1, 2) - at(1, 0)) + at(2, 2) - at(2, 0)
    return p, q


def harris() -> Pipeline:
    """Corners."""
    source, y = _image(), hl.Func("y")
    p, q = _gradients(source)
    sums = []
    for name, one, other in (("a", p, p), ("b", q, q), ("c", p, q)):
        f = hl.Func(name)
        f[X, Y] = _total([one[X + s, Y + r] * other[X + s, Y + r] for r in range(3) for s in range(3)])
        sums.append(f)
    a, b, c = (f[X, Y] for f in sums)
    y[X, Y] = a * b - c * c - _f32(0.04) * (a + b) * (a + b)
    return Pipeline(source, y, [p, q], (HEIGHT - 4, WIDTH - 4))


def sobel() -> Pipeline:
    """The length of the gradient."""
    source, y = _image(), hl.Func("y")
    p, q = _gradients(source)
    y[X, Y] = hl.sqrt(p[X, Y] * p[X, Y] + q[X, Y] * q[X, Y])
    return Pipeline(source, y, [], (HEIGHT - 2, WIDTH - 2))


def largest() -> Pipeline:
    """The largest of 9x9, separable."""
    source, a, b = _image(), hl.Func("a"), hl.Func("b")

    def most(values: Sequence[Any]) -> Any:
        found = values[0]
        for value in values[1:]:
            found = hl.max(found, value)
        return found

    a[X, Y] = most([source[X + s, Y] for s in range(9)])
    b[X, Y] = most([a[X, Y + r] for r in range(9)])
    return Pipeline(source, b, [a], (HEIGHT - 8, WIDTH - 8))


def equalised() -> Pipeline:
    """A histogram, its running sums, each byte by the one of its value. By hand as Halide's app `hist`: histograms of rows
    in parallel, added up; a table of results, and rows in parallel."""
    source = _image(hl.UInt(8))
    of_row, counts, sums, table, y = (hl.Func(name) for name in ("of_row", "counts", "sums", "table", "y"))
    column, row, place = hl.RDom([(0, WIDTH)]), hl.RDom([(0, HEIGHT)]), hl.RDom([(1, 255)])
    of_row[X, Y] = hl.i32(0)
    of_row[hl.cast(hl.Int(32), source[column.x, Y]), Y] += hl.i32(1)
    counts[X] = hl.i32(0)
    counts[X] += of_row[X, row.x]
    sums[X] = hl.i32(0)
    sums[0] = counts[0]
    sums[place.x] = sums[place.x - 1] + counts[place.x]
    table[X] = hl.cast(hl.UInt(8), sums[X] * 255 / (HEIGHT * WIDTH))
    y[X, Y] = table[hl.cast(hl.Int(32), source[X, Y])]

    def schedule(target: Any) -> None:
        lanes = target.natural_vector_size(hl.Int(32))
        of_row.compute_root().vectorize(X, lanes).parallel(Y, 32)
        of_row.update().parallel(Y, 32)
        counts.compute_root().vectorize(X, lanes)
        counts.update().reorder(X, row.x).vectorize(X, lanes)
        sums.compute_root()
        table.compute_root().vectorize(X, lanes)
        y.vectorize(X, target.natural_vector_size(hl.UInt(8))).parallel(Y, 32)

    return Pipeline(source, y, [of_row, counts, sums, table], (HEIGHT, WIDTH), schedule)


def chain(stages: int) -> Pipeline:
    """Stencils of five points, one after another."""
    source = _image()
    last, made = source, []
    for n in range(stages):
        f = hl.Func(f"s{n}")
        terms = [last[X, Y], last[X + 2, Y], last[X + 1, Y + 1] * _f32(4), last[X, Y + 2], last[X + 2, Y + 2]]
        f[X, Y] = _total(terms) * _f32(0.125)
        made.append(f)
        last = f
    return Pipeline(source, made[-1], made[:-1], (HEIGHT - 2 * stages, WIDTH - 2 * stages))


def jacobi(sweeps: int, size: int = 2048) -> Pipeline:
    """Sweeps over a plane; zero outside."""
    source = _image(hl.Float(64))
    last, made = source, []
    for n in range(sweeps):
        around = hl.BoundaryConditions.constant_exterior(last, hl.f64(0), [(0, size), (0, size)])
        f = hl.Func(f"s{n}")
        f[X, Y] = (around[X, Y - 1] + around[X, Y + 1] + around[X - 1, Y] + around[X + 1, Y]) * hl.f64(0.25)
        made.append(f)
        last = f
    return Pipeline(source, made[-1], made[:-1], (size, size))


def jacobi3(sweeps: int, size: int = 200) -> Pipeline:
    """Sweeps over a volume, which loses its surface."""
    source = _image(dimensions=3)
    last, made = source, []
    moves = [(1, 1, 0), (1, 1, 2), (1, 0, 1), (1, 2, 1), (0, 1, 1), (2, 1, 1)]
    for n in range(sweeps):
        f = hl.Func(f"s{n}")
        f[X, Y, Z] = _total([last[X + dx, Y + dy, Z + dz] for dx, dy, dz in moves]) * _f32(0.166667)
        made.append(f)
        last = f
    return Pipeline(source, made[-1], made[:-1], (size - 2 * sweeps,) * 3)


PIPELINES: dict[str, Callable[[], Pipeline]] = {
    "blur 3x3": blur3,
    "blur 3x3 u8": blur3_bytes,
    "blur 3x3 u16": blur3_words,
    "blur 9x9": blur9,
    "blur 9x9 u8": lambda: blur9_integers(8),
    "blur 9x9 u16": lambda: blur9_integers(16),
    "unsharp": unsharp,
    "harris": harris,
    "sobel": sobel,
    "max 9x9": largest,
    "equalised": equalised,
    "chain of 8": lambda: chain(8),
    "chain of 32": lambda: chain(32),
    "jacobi 1": lambda: jacobi(1),
    "jacobi 4": lambda: jacobi(4),
    "jacobi 16": lambda: jacobi(16),
    "jacobi 3-D 1": lambda: jacobi3(1),
    "jacobi 3-D 4": lambda: jacobi3(4),
    "jacobi 3-D 16": lambda: jacobi3(16),
}
