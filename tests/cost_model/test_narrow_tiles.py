"""Tiles of many rows and few columns: each of their rows begins in a page of its own, whose next lines nobody has asked for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tilesmith.cost_model.analytic import predict
from tilesmith.schedules.auto import derive
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx2")
CEILINGS = replace(default_ceilings(TARGET, 1), visits=((16, 2.6e-9), (256, 12.6e-9)))  # 10 ns where nobody has asked


@cache
def filters(height: int, width: int) -> Program:
    """Two filters of nine points, one along each axis."""
    along, down = (
        " + ".join(f"{place.format(n)} * {n + 1}" for n in range(9)) for place in ("x[i, j + {}]", "a[i + {}, j]")
    )
    return canonical(
        parse(f"""input x: f32[{height}, {width}]
        a[i: {height}, j: {width - 8}] = {along}
        b[i: {height - 8}, j: {width - 8}] = {down}
        return b""")
    )


def seconds(program: Program, blocks: int, columns: int, streaming: int = 0, kind: str = "tiles") -> float:
    """What the model says of tiles of so many blocks of 8 rows, and so many pairs of vectors."""
    sketch = next(one for one in derive(program) if kind in one.title)
    names = {"rows": 8, "vectors": 2, "tile": blocks, "columns": columns, "streaming": streaming}
    config = {t.name: names[t.name.split(".")[-1]] for t in sketch.tunables}
    return float(predict(sketch.apply(program, TARGET, config), TARGET, 1, CEILINGS, 1)[0])


def test_rows_of_a_tile_are_long_or_few() -> None:
    image = filters(1536, 2560)
    assert seconds(image, 8, 1) > 1.5 * seconds(image, 8, 16)
    assert seconds(image, 1, 1) < 1.1 * seconds(image, 1, 16)


def test_many_rows_in_one_page_are_no_visits() -> None:
    small = filters(19661, 200)  # as many points, in rows of a fifth of a page
    assert seconds(small, 8, 1) < 1.1 * seconds(small, 8, 12)


@cache
def blur(width: int) -> Program:
    """A blur of 3x3 of bytes."""
    return canonical(
        parse(f"""input x: u8[1536, {width}]
        a[i: 1536, j: {width - 2}] = i16(x[i, j]) + i16(x[i, j + 1]) * 2 + i16(x[i, j + 2])
        b[i: 1534, j: {width - 2}] = u8((a[i, j] + a[i + 1, j] * 2 + a[i + 2, j]) // 16)
        return b""")
    )


def test_two_rows_in_a_page_do_not_show_where_pieces_are_going() -> None:
    """An EPYC of Zen 3: 0.70 ms where a window slides down 64 bytes of each row, 0.46 down 1280 bytes."""
    image = blur(2560)
    assert seconds(image, 12, 1, kind="sliding") > 1.4 * seconds(image, 12, 20, kind="sliding")


@cache
def cross(width: int) -> Program:
    """Sums of four points, 32 MB of them."""
    return canonical(
        parse(f"""input x: f32[{8000000 // width}, {width}]
        y[i: {8000000 // width - 2}, j: {width - 2}] = x[i, j + 1] + x[i + 1, j] + x[i + 2, j + 1] + x[i + 1, j + 2]
        return y""")
    )


def in_blocks(program: Program, rows: int) -> float:
    (sketch,) = (one for one in derive(program) if one.steps)
    names = {"rows": rows, "ahead": 0, "streaming": 0}
    config = {t.name: names[t.name.split(".")[-1]] for t in sketch.tunables}
    return float(predict(sketch.apply(program, TARGET, config), TARGET, 1, CEILINGS, 1)[0])


def test_rows_of_one_page_do_not_go_side_by_side() -> None:
    """An EPYC of Zen 3: 2.9 ms for rows of 800 bytes one by one, 4.7 by fours; of 10,240 bytes 3.0 either way."""
    assert in_blocks(cross(200), 4) > 1.3 * in_blocks(cross(200), 1)
    assert in_blocks(cross(2560), 4) < 1.05 * in_blocks(cross(2560), 1)


def test_rows_that_cannot_be_streamed_are_not() -> None:
    """Rows of 2,558 bytes begin anywhere in a vector, and in tiles none of their vectors is moved to where one does."""
    image = blur(2560)
    assert seconds(image, 8, 16, 1) == seconds(image, 8, 16, 0)
    assert seconds(blur(2562), 8, 16, 1) < seconds(blur(2562), 8, 16, 0)


def test_short_rows_are_no_good_to_stream() -> None:
    """Each row of a tile ends in the midst of a line, which is then stored in two parts."""
    image = filters(1536, 2560)
    assert seconds(image, 8, 16, 1) < seconds(image, 8, 16)
    assert seconds(image, 8, 1, 1) > 1.2 * seconds(image, 8, 4, 1) > 1.2 * seconds(image, 8, 16, 1)
