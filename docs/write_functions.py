"""Writes docs/functions.md: python docs/write_functions.py.

What the page says of functions comes from the table of the expression language.
"""

from __future__ import annotations

from pathlib import Path

from tilesmith.tensor import mathematics
from tilesmith.tensor.language import MATHEMATICS, Operator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "functions.md"
HEAD = """\
# Functions of floats

The text form ([text-form.md](text-form.md)) and programs in Python know these functions. A kernel calls no library for
them: their code is written into it, for scalars and for vectors of any width, on every target.

*error* is the farthest that code may be from the true value, in units of the last place of the result (ulp), where it
computes in `f32` and in `f64`; 0.5 is the nearest number. `f16` and `bf16` are computed in `f32` and rounded once. Tests
hold these bounds over all binades, and measurements refuse a kernel that leaves them, or 4 units where they are smaller.
*cost* is what one vector takes next to a sum or a product of vectors, as the cost model counts it. Infinities, NaN, zeros
of both signs and subnormal numbers give what NumPy says, but for two: with AVX-512 `exp` of `f32` is 0 where the true value
is less than the least normal number (1.2e-38), and so is `erfc`: subnormal numbers slow what follows by a hundred times
there.

| function | in Python | gives | error in f32 | in f64 | cost |
|---|---|---|---|---|---|
"""
FOOT = """
This page is written by `python docs/write_functions.py` from the table in `tensor/mathematics.py`.
"""


def page() -> str:
    """The whole page."""
    faces = {"pow": "power"}
    assert set(mathematics.__all__) == {faces.get(name, name) for name in MATHEMATICS}
    rows = "".join(_row(entry, faces.get(name, name)) for name, entry in MATHEMATICS.items())
    return HEAD + rows + FOOT


def _row(entry: Operator, face: str) -> str:
    arguments = ", ".join("xy"[: entry.arity])
    errors = entry.rounding.ulp if entry.rounding else (0.0, 0.0)
    meaning = entry.meaning[0].lower() + entry.meaning[1:]
    cells = (
        f"`{entry.name}({arguments})`",
        f"`{face}`",
        meaning,
        *(f"{bound:g}" for bound in errors),
        f"{entry.slots:g}",
    )
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(MATHEMATICS)} functions")
