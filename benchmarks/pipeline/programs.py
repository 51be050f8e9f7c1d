"""The pipelines that are raced (pipelines.py), as programs. The same definitions stand in Halide in halide.py.

Each is written from its definition, at sizes of Halide's own apps; a stage is as large as its inputs leave it (no borders), so
that nobody gains by another treatment of them. The one of the stencils that keeps the size reads zeros outside.
"""

from __future__ import annotations

from collections.abc import Callable

from .images import HEIGHT, IMAGES, WIDTH
from .layers import LAYERS

COLOUR = (0.299, 0.587, 0.114)
BINOMIAL = (1, 8, 28, 56, 70, 56, 28, 8, 1)
GAUSS = (0.0702, 0.1311, 0.1907, 0.2161, 0.1907, 0.1311, 0.0702)

GRADIENTS = f"""\
        p[i: {HEIGHT - 2}, j: {WIDTH - 2}] = (x[i, j + 2] - x[i, j] + 2 * (x[i + 1, j + 2] - x[i + 1, j])
            + x[i + 2, j + 2] - x[i + 2, j])
        q[i: {HEIGHT - 2}, j: {WIDTH - 2}] = (x[i + 2, j] - x[i, j] + 2 * (x[i + 2, j + 1] - x[i, j + 1])
            + x[i + 2, j + 2] - x[i, j + 2])
"""


def blur3() -> str:
    """A box of 3x3, separable."""
    return f"""
        input x: f32[{HEIGHT}, {WIDTH}]
        a[i: {HEIGHT}, j: {WIDTH - 2}] = (x[i, j] + x[i, j + 1] + x[i, j + 2]) * 0.3333
        b[i: {HEIGHT - 2}, j: {WIDTH - 2}] = (a[i, j] + a[i + 1, j] + a[i + 2, j]) * 0.3333
        return b
        """


def blur3_bytes() -> str:
    """The same of bytes: sums of 16 bits, rounded down."""
    return f"""
        input x: u8[{HEIGHT}, {WIDTH}]
        a[i: {HEIGHT}, j: {WIDTH - 2}] = i16(x[i, j]) + i16(x[i, j + 1]) * 2 + i16(x[i, j + 2])
        b[i: {HEIGHT - 2}, j: {WIDTH - 2}] = u8((a[i, j] + a[i + 1, j] * 2 + a[i + 2, j]) // 16)
        return b
        """


def blur3_words(height: int = HEIGHT, width: int = WIDTH) -> str:
    """Thirds of sums of 16 bits, which wrap: Halide's app `blur`."""
    return f"""
        input x: u16[{height}, {width}]
        a[i: {height}, j: {width - 2}] = (x[i, j] + x[i, j + 1] + x[i, j + 2]) // 3
        b[i: {height - 2}, j: {width - 2}] = (a[i, j] + a[i + 1, j] + a[i + 2, j]) // 3
        return b
        """


def blur9_integers(bits: int, height: int = HEIGHT, width: int = WIDTH) -> str:
    """Nine binomial weights of bytes or of 16 bits: sums of twice the bits, rounded after each axis."""
    wide, narrow = f"u{2 * bits}", f"u{bits}"
    along, down = (
        " + ".join(f"{wide}({place.format(n)}) * {weight}" for n, weight in enumerate(BINOMIAL))
        for place in ("x[i, j + {}]", "a[i + {}, j]")
    )
    return f"""
        input x: {narrow}[{height}, {width}]
        a[i: {height}, j: {width - 8}] = {narrow}(({along} + 128) // 256)
        b[i: {height - 8}, j: {width - 8}] = {narrow}(({down} + 128) // 256)
        return b
        """


def blur9() -> str:
    """Nine binomial weights along each axis."""
    along, down = (_weighted(BINOMIAL, place, 256) for place in ("x[i, j + {}]", "a[i + {}, j]"))
    return f"""
        input x: f32[{HEIGHT}, {WIDTH}]
        a[i: {HEIGHT}, j: {WIDTH - 8}] = {along}
        b[i: {HEIGHT - 8}, j: {WIDTH - 8}] = {down}
        return b
        """


def _weighted(weights: tuple[float, ...], place: str, of: float = 1) -> str:
    return " + ".join(f"{place.format(n)} * {weight / of}" for n, weight in enumerate(weights))


def unsharp() -> str:
    """Grey, blurred along both axes, taken from itself; each colour is scaled by what that changes."""
    height, width = HEIGHT - 6, WIDTH - 6
    grey = " + ".join(f"x[{n}, i, j] * {weight}" for n, weight in enumerate(COLOUR))
    return f"""
        input x: f32[3, {HEIGHT}, {WIDTH}]
        g[i: {HEIGHT}, j: {WIDTH}] = {grey}
        a[i: {height}, j: {WIDTH}] = {_weighted(GAUSS, "g[i + {}, j]")}
        b[i: {height}, j: {width}] = {_weighted(GAUSS, "a[i, j + {}]")}
        r[i: {height}, j: {width}] = (2 * g[i + 3, j + 3] - b[i, j]) / g[i + 3, j + 3]
        y[c: 3, i: {height}, j: {width}] = r[i, j] * x[c, i + 3, j + 3]
        return y
        """


def harris() -> str:
    """Corners: products of gradients, summed over 3x3."""
    sums = "\n".join(
        f"        {name}[i: {HEIGHT - 4}, j: {WIDTH - 4}] = sum[r: 3, s: 3]({one}[i + r, j + s] * {other}[i + r, j + s])"
        for name, one, other in (("a", "p", "p"), ("b", "q", "q"), ("c", "p", "q"))
    )
    return f"""
        input x: f32[{HEIGHT}, {WIDTH}]
{GRADIENTS}{sums}
        y[i: {HEIGHT - 4}, j: {WIDTH - 4}] = (a[i, j] * b[i, j] - c[i, j] * c[i, j]
            - 0.04 * (a[i, j] + b[i, j]) * (a[i, j] + b[i, j]))
        return y
        """


def sobel() -> str:
    """The length of the gradient."""
    return f"""
        input x: f32[{HEIGHT}, {WIDTH}]
{GRADIENTS}        y[i: {HEIGHT - 2}, j: {WIDTH - 2}] = sqrt(p[i, j] * p[i, j] + q[i, j] * q[i, j])
        return y
        """


def largest() -> str:
    """The largest of 9x9, separable."""
    return f"""
        input x: f32[{HEIGHT}, {WIDTH}]
        a[i: {HEIGHT}, j: {WIDTH - 8}] = max[s: 9](x[i, j + s])
        b[i: {HEIGHT - 8}, j: {WIDTH - 8}] = max[r: 9](a[i + r, j])
        return b
        """


def equalised() -> str:
    """A histogram, its running sums, and each byte by the one of its value."""
    return f"""
        input x: u8[{HEIGHT}, {WIDTH}]
        h[b: 256] = sum[i: {HEIGHT}, j: {WIDTH}](select(b == i64(x[i, j]), i32(1), 0))
        fold[k: 256] {{
            total[]: i32 = 0
            sums[b: 256]: i32 = 0
            let new = total[] + h[k]
            total = new
            sums = select(b == k, new, sums[b])
        }}
        t[b: 256] = u8(sums[b] * 255 // {HEIGHT * WIDTH})
        y[i: {HEIGHT}, j: {WIDTH}] = t[i64(x[i, j])]
        return y
        """


def _in_a_row(given: str, stages: int, stage: Callable[[int, str], str]) -> str:
    """Stages each of which reads the one before it. `stage`: the axes and the body, from its number and what it reads."""
    names = ["x", *(f"s{n}" for n in range(stages))]
    lines = [f"{name}{stage(n, names[n])}" for n, name in enumerate(names[1:])]
    return "\n".join([f"input x: {given}", *lines, f"return {names[-1]}"])


def chain(stages: int) -> str:
    """Stencils of five points, one after another."""

    def stage(n: int, last: str) -> str:
        body = f"({last}[i, j] + {last}[i, j + 2] + {last}[i + 1, j + 1] * 4 + {last}[i + 2, j] + {last}[i + 2, j + 2]) * 0.125"
        return f"[i: {HEIGHT - 2 * n - 2}, j: {WIDTH - 2 * n - 2}] = {body}"

    return _in_a_row(f"f32[{HEIGHT}, {WIDTH}]", stages, stage)


def jacobi(sweeps: int, size: int = 2048) -> str:
    """Sweeps of Jacobi's method over a plane; zero outside."""

    def stage(n: int, last: str) -> str:
        reads = [
            f"select(i - 1 >= 0, {last}[i - 1, j], 0)",
            f"select(i + 1 < {size}, {last}[i + 1, j], 0)",
            f"select(j - 1 >= 0, {last}[i, j - 1], 0)",
            f"select(j + 1 < {size}, {last}[i, j + 1], 0)",
        ]
        return f"[i: {size}, j: {size}] = ({' + '.join(reads)}) * 0.25"

    return _in_a_row(f"f64[{size}, {size}]", sweeps, stage)


def jacobi3(sweeps: int, size: int = 200) -> str:
    """The same over a volume, which loses its surface in each sweep."""
    places = ("i, j + 1, k + 1", "i + 2, j + 1, k + 1", "i + 1, j, k + 1", "i + 1, j + 2, k + 1",
              "i + 1, j + 1, k", "i + 1, j + 1, k + 2")  # fmt: skip

    def stage(n: int, last: str) -> str:
        left = size - 2 * n - 2
        return f"[i: {left}, j: {left}, k: {left}] = ({' + '.join(f'{last}[{place}]' for place in places)}) * 0.166667"

    return _in_a_row(f"f32[{size}, {size}, {size}]", sweeps, stage)


PROGRAMS: dict[str, Callable[[], str]] = {
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
    **IMAGES,
    **LAYERS,
}
