"""Programs of photography that are raced (pipelines.py): grids, pyramids, neighbourhoods, raw sensors, recursive filters.

Each is written from its definition with the numbers of Halide's apps. Where a stage would read beyond an edge it reads at the
edge, on each level of a pyramid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

HEIGHT, WIDTH = 1536, 2560
RAW_HEIGHT, RAW_WIDTH = 1968, 2592
CELL, BINS = 8, 10  # pixels of a cell of the bilateral grid along each axis; bins of brightness
SIGMA = 0.12  # of non-local means
RADIUS = 26  # of the disc whose largest point is found
DECAY = 0.1  # of the recursive filter
LEVELS = 8  # of brightness in a local Laplacian filter
DETAIL = 1 / (LEVELS - 1)  # how much of it the filter adds
COLOURS = (
    (427, -69, -102, -42),
    (-92, 272, 76, -37),
    (-56, -160, 472, -27),
)  # of a sensor, in 256ths and units of ten bits


def _within(place: str, extent: int, low: bool = True, high: bool = True) -> str:
    """An index moved into its axis. `low`, `high`: the sides on which it may lie outside."""
    at_least = f"max({place}, 0)" if low else place
    return f"min({at_least}, {extent - 1})" if high else at_least


# a bilateral grid


def bilateral_grid(height: int = HEIGHT, width: int = WIDTH) -> str:
    """Brightness is summed over cells and bins of brightness, blurred there, and read at each pixel's own brightness."""
    rows, columns, bins = _cells(height), _cells(width), BINS + 6
    i, j = (_within(f"{CELL} * {axis} + {offset} - {CELL // 2 + 2 * CELL}", extent)
            for axis, offset, extent in (("a", "r", height), ("b", "s", width)))  # fmt: skip
    here = f"z == i64(g[{i}, {j}] * {BINS} + 0.5) + 2"
    lines = [
        f"input x: f32[{height}, {width}]",
        f"g[i: {height}, j: {width}] = min(max(x[i, j], 0), 1)",
    ]
    for name, value in (("v", f"g[{i}, {j}]"), ("w", "f32(1)")):
        lines += [
            f"{name}[a: {rows}, b: {columns}, z: {bins}] = sum[r: {CELL}, s: {CELL}](select({here}, {value}, 0))",
            f"{name}z[a: {rows}, b: {columns}, z: {bins - 4}] = {_five(name, 'a, b, z + {}')}",
            f"{name}b[a: {rows}, b: {columns - 4}, z: {bins - 4}] = {_five(name + 'z', 'a, b + {}, z')}",
            f"{name}a[a: {rows - 4}, b: {columns - 4}, z: {bins - 4}] = {_five(name + 'b', 'a + {}, b, z')}",
            f"{name}y[i: {height}, j: {width}] = {_trilinear(name + 'a')}",
        ]
    lines += [f"y[i: {height}, j: {width}] = vy[i, j] / wy[i, j]", "return y"]
    return "\n".join(lines)


def _cells(extent: int) -> int:
    """Along one axis: those that pixels lie in, one more to interpolate, and two on each side to blur."""
    return (extent - 1) // CELL + 6


def _five(name: str, place: str) -> str:
    return " + ".join(f"{name}[{place.format(n)}] * {weight}" for n, weight in enumerate((1, 4, 6, 4, 1)))


def _trilinear(grid: str) -> str:
    bright = f"g[i, j] * {BINS}"
    low, high = f"min(max(i64({bright}), 0), {BINS})", f"min(max(i64({bright}) + 1, 1), {BINS + 1})"

    def mixed(one: str, other: str, share: str) -> str:
        return f"({one} + ({other} - {one}) * ({share}))"

    def at(z: str) -> str:
        corners = [
            [f"{grid}[i // {CELL} + {m}, j // {CELL} + {n}, {z}]" for n in (0, 1)] for m in (0, 1)
        ]  # fmt: skip
        across = [mixed(*pair, f"f32(j % {CELL}) * {1 / CELL}") for pair in corners]
        return mixed(across[0], across[1], f"f32(i % {CELL}) * {1 / CELL}")

    return mixed(at(low), at(high), f"{bright} - f32({low})")


# pyramids


def _halves(extent: int, levels: int) -> Iterator[tuple[int, int]]:
    """An extent on each level but the last, with the one on the next."""
    for _ in range(levels - 1):
        yield extent, (extent + 1) // 2
        extent = (extent + 1) // 2


def interpolate(height: int = HEIGHT, width: int = WIDTH, levels: int = 10) -> str:
    """Fills what is missing (by its alpha) from coarser and coarser levels. `x`: three colours and alpha."""
    lines = [
        f"input x: f32[4, {height}, {width}]",
        f"d0[c: 4, i: {height}, j: {width}] = select(c < 3, x[c, i, j], 1) * x[3, i, j]",
    ]
    sizes = list(zip(_halves(height, levels), _halves(width, levels), strict=True))
    for n, ((high, half_high), (wide, half_wide)) in enumerate(sizes):
        left, right = _within("2 * j - 1", wide, high=False), _within("2 * j + 1", wide, low=False)
        over, under = _within("2 * i - 1", high, high=False), _within("2 * i + 1", high, low=False)
        lines += [
            f"a{n}[c: 4, i: {high}, j: {half_wide}] ="
            f" (d{n}[c, i, {left}] + d{n}[c, i, 2 * j] * 2 + d{n}[c, i, {right}]) * 0.25",
            f"d{n + 1}[c: 4, i: {half_high}, j: {half_wide}] ="
            f" (a{n}[c, {over}, j] + a{n}[c, 2 * i, j] * 2 + a{n}[c, {under}, j]) * 0.25",
        ]
    last = f"d{levels - 1}"
    for n, ((high, half_high), (wide, half_wide)) in reversed(list(enumerate(sizes))):
        right, under = _within("(j + 1) // 2", half_wide, low=False), _within("(i + 1) // 2", half_high, low=False)
        lines += [
            f"h{n}[c: 4, i: {half_high}, j: {wide}] = ({last}[c, i, j // 2] + {last}[c, i, {right}]) * 0.5",
            f"v{n}[c: 4, i: {high}, j: {wide}] = (h{n}[c, i // 2, j] + h{n}[c, {under}, j]) * 0.5",
            f"e{n}[c: 4, i: {high}, j: {wide}] = d{n}[c, i, j] + (1 - d{n}[3, i, j]) * v{n}[c, i, j]",
        ]
        last = f"e{n}"
    return "\n".join([*lines, f"y[c: 3, i: {height}, j: {width}] = {last}[c, i, j] / {last}[3, i, j]", "return y"])


def local_laplacian(height: int = HEIGHT, width: int = WIDTH, pyramid: int = 8) -> str:
    """Detail is raised: a pyramid for each of some levels of brightness, of which each pixel takes the two around its own."""
    top, steps = LEVELS - 1, 256 * (LEVELS - 1)
    lines = [
        f"input x: u16[3, {height}, {width}]",
        f"m[t: {2 * steps + 1}] = f32(t - {steps}) * {1 / 256} * {DETAIL}"
        f" * exp(f32(t - {steps}) * {1 / 256} * f32(t - {steps}) * {-0.5 / 256})",
        f"g0[i: {height}, j: {width}] ="
        f" (f32(x[0, i, j]) * 0.299 + f32(x[1, i, j]) * 0.587 + f32(x[2, i, j]) * 0.114) * {1 / 65535}",
        f"p0[k: {LEVELS}, i: {height}, j: {width}] = g0[i, j]"
        f" + m[min(max(i64(g0[i, j] * {steps}), 0), {steps}) + {steps} - 256 * k]",
    ]
    sizes = list(zip(_halves(height, pyramid), _halves(width, pyramid), strict=True))
    for n, (highs, wides) in enumerate(sizes):
        for name, axes, first in (("g", "", ""), ("p", f"k: {LEVELS}, ", "k, ")):
            lines += _halved(name, n, axes, first, highs, wides)
    for n, (highs, wides) in enumerate(sizes):
        lines += _doubled(f"p{n + 1}", f"q{n}", f"k: {LEVELS}, ", "k, ", highs, wides)
    *_, (last_high, last_wide) = [(h, w) for (_, h), (_, w) in sizes]
    for n, (high, wide) in enumerate([*((h, w) for (h, _), (w, _) in sizes), (last_high, last_wide)]):
        bright, level = f"g{n}[i, j] * {top}", f"min(max(i64(g{n}[i, j] * {top}), 0), {top - 1})"
        above = f"min(max(i64(g{n}[i, j] * {top}) + 1, 1), {top})"
        less = [f" - q{n}[{k}, i, j]" if n < len(sizes) else "" for k in (level, above)]
        lines += [
            f"f{n}[i: {high}, j: {wide}] = {bright} - f32({level})",
            f"l{n}[i: {high}, j: {wide}] = (1 - f{n}[i, j]) * (p{n}[{level}, i, j]{less[0]})"
            f" + f{n}[i, j] * (p{n}[{above}, i, j]{less[1]})",
        ]
    last = f"l{len(sizes)}"
    for n, (highs, wides) in reversed(list(enumerate(sizes))):
        lines += _doubled(last, f"r{n}", "", "", highs, wides)
        lines.append(f"o{n}[i: {highs[0]}, j: {wides[0]}] = r{n}[i, j] + l{n}[i, j]")
        last = f"o{n}"
    coloured = f"{last}[i, j] * (f32(x[c, i, j]) * {1 / 65535} + 0.01) / (g0[i, j] + 0.01)"
    lines.append(f"y[c: 3, i: {height}, j: {width}] = u16(min(max({coloured}, 0), 1) * 65535)")
    return "\n".join([*lines, "return y"])


def _halved(
    name: str, n: int, axes: str, first: str, highs: tuple[int, int], wides: tuple[int, int]
) -> list[str]:  # fmt: skip
    """The next level: 1 3 3 1 along both axes."""
    columns = [_within(f"2 * j + {m}" if m > 0 else f"2 * j - {-m}", wides[0], m < 0, m > 0) for m in (-1, 0, 1, 2)]
    rows = [_within(f"2 * i + {m}" if m > 0 else f"2 * i - {-m}", highs[0], m < 0, m > 0) for m in (-1, 0, 1, 2)]
    across = _four([f"{name}{n}[{first}i, {place}]" for place in columns])
    down = _four([f"{name}h{n}[{first}{place}, j]" for place in rows])
    return [
        f"{name}h{n}[{axes}i: {highs[0]}, j: {wides[1]}] = {across}",
        f"{name}{n + 1}[{axes}i: {highs[1]}, j: {wides[1]}] = {down}",
    ]


def _four(reads: list[str]) -> str:
    return f"({reads[0]} + ({reads[1]} + {reads[2]}) * 3 + {reads[3]}) * 0.125"


def _doubled(
    source: str, name: str, axes: str, first: str, highs: tuple[int, int], wides: tuple[int, int]
) -> list[str]:  # fmt: skip
    """The level before: three quarters of the nearer point, a quarter of the farther one, along both axes."""

    def mixed(read: str, axis: str, extent: int) -> str:
        near, before, after = (
            read.format(place)
            for place in (
                f"{axis} // 2",
                _within(f"({axis} - 1) // 2", extent, high=False),
                _within(f"({axis} + 1) // 2", extent, low=False),
            )
        )
        return f"{near} * 0.75 + select({axis} % 2 == 0, {before}, {after}) * 0.25"

    return [
        f"{name}h[{axes}i: {highs[1]}, j: {wides[0]}] = {mixed(f'{source}[{first}i, {{}}]', 'j', wides[1])}",
        f"{name}[{axes}i: {highs[0]}, j: {wides[0]}] = {mixed(f'{name}h[{first}{{}}, j]', 'i', highs[1])}",
    ]


# neighbourhoods


def nonlocal_means(height: int = HEIGHT, width: int = WIDTH, patch: int = 7, search: int = 7) -> str:
    """Each pixel becomes the mean of those around it, weighted by how alike their patches are."""
    reach = search // 2
    high, wide = height - search - patch + 2, width - search - patch + 2
    around = f"s: {search}, t: {search}"
    middle = patch // 2
    return f"""
        input x: f32[3, {height}, {width}]
        d[{around}, i: {high + patch - 1}, j: {wide + patch - 1}] = sum[c: 3](
            (x[c, i + {reach}, j + {reach}] - x[c, i + s, j + t]) * (x[c, i + {reach}, j + {reach}] - x[c, i + s, j + t]))
        a[{around}, i: {high}, j: {wide + patch - 1}] = sum[r: {patch}](d[s, t, i + r, j])
        b[{around}, i: {high}, j: {wide}] = sum[q: {patch}](a[s, t, i, j + q])
        w[{around}, i: {high}, j: {wide}] = exp(b[s, t, i, j] * {-1 / (SIGMA * patch) ** 2})
        n[c: 3, i: {high}, j: {wide}] = sum[{around}](w[s, t, i, j] * x[c, i + s + {middle}, j + t + {middle}])
        m[i: {high}, j: {wide}] = sum[{around}](w[s, t, i, j])
        y[c: 3, i: {high}, j: {wide}] = min(max(n[c, i, j] / m[i, j], 0), 1)
        return y
        """


def largest_in_disc(height: int = HEIGHT, width: int = WIDTH, radius: int = RADIUS) -> str:
    """The largest of a disc: of columns, the largest of 1, 2, 4, ... points; of each column of the disc two of these."""
    high, wide = height - 2 * radius, width - 2 * radius
    lines, rows, size = [f"input x: f32[3, {height}, {width}]"], height, 1
    names = {1: "x"}
    while 2 * size <= 2 * radius + 1:
        rows -= size
        names[2 * size] = f"v{2 * size}"
        last = names[size]
        lines.append(f"v{2 * size}[c: 3, i: {rows}, j: {width}] = max({last}[c, i, j], {last}[c, i + {size}, j])")
        size *= 2
    terms = []
    for column in range(-radius, radius + 1):
        reach = half_column(column, radius)
        size = max(s for s in names if s <= 2 * reach + 1)
        places = dict.fromkeys((radius - reach, radius + reach + 1 - size))
        terms += [f"{names[size]}[c, i + {place}, j + {column + radius}]" for place in places]
    largest = terms[0]
    for term in terms[1:]:
        largest = f"max({largest}, {term})"
    return "\n".join([*lines, f"y[c: 3, i: {high}, j: {wide}] = {largest}", "return y"])


def half_column(column: int, radius: int) -> int:
    """Returns how far a disc reaches up and down in a column, counted from the middle."""
    return int(((radius + 0.25) ** 2 - column**2) ** 0.5)


def recursive_blur(height: int = HEIGHT, width: int = WIDTH) -> str:
    """A decaying mean down and up the columns, then there and back along the rows."""
    axes, shape = f"i: {height}, j: {width}", f"f32[3, {height}, {width}]"
    lines, last = [f"input x: {shape}"], "x"
    for name, along, extent, back in (
        ("a", "i", height, False), ("b", "i", height, True), ("c", "j", width, False), ("y", "j", width, True)
    ):  # fmt: skip
        place = f"{extent - 1} - k" if back else "k"
        here = f"{last}[n, {place}, j]" if along == "i" else f"{last}[n, i, {place}]"
        kept, state = ("j", f"j: {width}") if along == "i" else ("i", f"i: {height}")
        lines += [
            f"fold[k: {extent}] {{",
            f"{name}s[n: 3, {state}]: f32 = 0",
            f"{name}[n: 3, {axes}]: f32 = 0",
            f"let new = select(k == 0, {here}, {name}s[n, {kept}] * {1 - DECAY} + {here} * {DECAY})",
            f"{name}s = new",
            f"{name} = select({along} == {place}, new, {name}[n, i, j])",
            "}",
        ]
        last = name
    return "\n".join([*lines, "return y"])


# a raw sensor


def camera(height: int = RAW_HEIGHT, width: int = RAW_WIDTH) -> str:
    """Makes of a sensor's colour for each pixel (green, red; blue, green), ten bits, three colours of eight bits.

    Hot pixels become as their neighbours; what a pixel lacks comes from the neighbours that differ least, moved by what green
    says there; a matrix and a curve make colours of it.
    """
    high, wide = (height - 24) // 2, (width - 32) // 2  # of the result, in pairs of pixels
    around = [f"x[i + {m}, j + {n}]" for m, n in ((0, 2), (4, 2), (2, 0), (2, 4))]
    most = f"max(max({around[0]}, {around[1]}), max({around[2]}, {around[3]}))"
    pairs, rims, frames = (f"[i: {high + n}, j: {wide + n}]" for n in (0, 2, 4))
    lines = [
        f"input x: u16[{height}, {width}]",
        f"table m: i32[3, 4] = [{', '.join(str(value) for row in COLOURS for value in row)}]",
        f"n[i: {2 * high + 8}, j: {2 * wide + 8}] = i16(min(x[i + 2, j + 2], {most}))",
    ]
    for name, down, across in (("G", 0, 0), ("R", 0, 1), ("B", 1, 0), ("H", 1, 1)):
        lines.append(f"{name}{frames} = n[2 * i + {down}, 2 * j + {across}]")
    lines += [
        f"GR{rims} = {_nearer(('H', (0, 1), (1, 1)), ('G', (1, 1), (1, 2)))}",
        f"GB{rims} = {_nearer(('G', (1, 1), (2, 1)), ('H', (1, 0), (1, 1)))}",
        f"RG{pairs} = G[i + 2, j + 2] + {_moved('R', 'GR', (0, -1), (0, 0))}",
        f"RH{pairs} = H[i + 2, j + 2] + {_moved('R', 'GR', (0, 0), (1, 0))}",
        f"RB{pairs} = GB[i + 1, j + 1] + {_diagonal('R', 'GR', 0, -1)}",
        f"BG{pairs} = G[i + 2, j + 2] + {_moved('B', 'GB', (-1, 0), (0, 0))}",
        f"BH{pairs} = H[i + 2, j + 2] + {_moved('B', 'GB', (0, 0), (0, 1))}",
        f"BR{pairs} = GR[i + 1, j + 1] + {_diagonal('B', 'GB', -1, 0)}",
    ]
    for colour, names in (("r", "RG R RB RH"), ("g", "G GR GB H"), ("b", "BG BR B BH")):
        reads = [f"{name}[{_half('i', name)}, {_half('j', name)}]" for name in names.split()]
        rows = [f"select(j % 2 == 0, {left}, {right})" for left, right in (reads[:2], reads[2:])]
        lines.append(f"{colour}[i: {2 * high}, j: {2 * wide}] = select(i % 2 == 0, {rows[0]}, {rows[1]})")
    mixed = " + ".join(f"m[c, {n}] * i32({colour}[i, j])" for n, colour in enumerate("rgb"))
    lines += [
        f"t[k: 1024] = u8(sqrt(f32(k) * {255 * 255 / 1023}))",
        f"z[c: 3, i: {2 * high}, j: {2 * wide}] = min(max(({mixed}) // 256 + m[c, 3], 0), 1023)",
        f"y[c: 3, i: {2 * high}, j: {2 * wide}] = t[min(max(i64(z[c, i, j]), 0), 1023)]",
    ]
    return "\n".join([*lines, "return y"])


Place = tuple[int, int]


def _half(axis: str, name: str) -> str:
    """The place of a pair of pixels in a plane, which has a rim of two where it was read, of one where green was found."""
    rim = {"G": 2, "R": 2, "B": 2, "H": 2, "GR": 1, "GB": 1}.get(name, 0)
    return f"{axis} // 2" + (f" + {rim}" if rim else "")


def _at(plane: str, place: Place) -> str:
    down, across = place
    return f"{plane}[i + {down}, j + {across}]"


def _mean(plane: str, one: Place, other: Place) -> str:
    return f"({_at(plane, one)} + {_at(plane, other)} + 1) // 2"


def _step(plane: str, one: Place, other: Place) -> str:
    return f"abs({_at(plane, one)} - {_at(plane, other)})"


def _nearer(down: tuple[str, Place, Place], across: tuple[str, Place, Place]) -> str:
    """The mean of the two of a pair of neighbours that differ less."""
    return f"select({_step(*across)} < {_step(*down)}, {_mean(*across)}, {_mean(*down)})"


def _moved(plane: str, green: str, one: Place, other: Place) -> str:
    """A mean of two neighbours less what green is there. The plane has a rim of two, green one of one."""
    (a, b), (c, d) = one, other
    return f"({_mean(plane, (a + 2, b + 2), (c + 2, d + 2))} - {_mean(green, (a + 1, b + 1), (c + 1, d + 1))})"


def _diagonal(plane: str, green: str, down: int, across: int) -> str:
    """The same of the two diagonals, whichever differs less. `down`, `across`: the first of the four neighbours."""
    falling, rising = (((down, across), (down + 1, across + 1)), ((down, across + 1), (down + 1, across)))
    steps = [_step(plane, (a + 2, b + 2), (c + 2, d + 2)) for (a, b), (c, d) in (falling, rising)]
    return f"select({steps[0]} < {steps[1]}, {_moved(plane, green, *falling)}, {_moved(plane, green, *rising)})"


IMAGES: dict[str, Callable[..., str]] = {
    "bilateral grid": bilateral_grid,
    "local Laplacian": local_laplacian,
    "interpolate": interpolate,
    "non-local means": nonlocal_means,
    "max of a disc": largest_in_disc,
    "recursive blur": recursive_blur,
    "camera": camera,
}
