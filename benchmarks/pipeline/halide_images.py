"""The programs of images.py in Halide. By hand they are scheduled after the manner of Halide's own apps, as each says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import halide as hl

from pipeline.halide import C, Pipeline, X, Y, Z
from pipeline.images import (
    BINS,
    CELL,
    COLOURS,
    DECAY,
    DETAIL,
    HEIGHT,
    LEVELS,
    RADIUS,
    RAW_HEIGHT,
    RAW_WIDTH,
    SIGMA,
    WIDTH,
    half_column,
)

F32, I16, I32, U8, U16 = hl.Float(32), hl.Int(16), hl.Int(32), hl.UInt(8), hl.UInt(16)
LANES = 16
ROWS, COLUMNS = hl.Var("rows"), hl.Var("columns")


def _edges(function: Any, width: int, height: int) -> Any:
    return hl.BoundaryConditions.repeat_edge(function, [(0, width), (0, height)])


def _spread(function: Any, rows: int = 32) -> Any:
    """A stage of its own: rows in parallel, in vectors."""
    return function.compute_root().parallel(Y, rows).vectorize(X, LANES, hl.TailStrategy.GuardWithIf)


def bilateral_grid() -> Pipeline:
    """A schedule by hand: each stage of the grid over all of it, the histogram at a row of the first blur; pixels by rows."""
    source = hl.ImageParam(F32, 2)
    edges = _edges(source, WIDTH, HEIGHT)
    cells, along, across, down, mixed, y = (hl.Func(name) for name in ("cells", "bz", "bx", "by", "mixed", "y"))
    r = hl.RDom([(0, CELL), (0, CELL)])
    value = hl.clamp(edges[X * CELL + r.x - CELL // 2, Y * CELL + r.y - CELL // 2], hl.f32(0), hl.f32(1))
    cells[X, Y, Z, C] = hl.f32(0)
    cells[X, Y, hl.cast(I32, value * hl.f32(BINS) + hl.f32(0.5)), C] += hl.select(C == 0, value, hl.f32(1))
    weights = list(enumerate((1, 4, 6, 4, 1), -2))
    along[X, Y, Z, C] = _sum([cells[X, Y, Z + n, C] * hl.f32(w) for n, w in weights])
    across[X, Y, Z, C] = _sum([along[X + n, Y, Z, C] * hl.f32(w) for n, w in weights])
    down[X, Y, Z, C] = _sum([across[X, Y + n, Z, C] * hl.f32(w) for n, w in weights])
    bright = hl.clamp(source[X, Y], hl.f32(0), hl.f32(1)) * hl.f32(BINS)
    k = hl.clamp(hl.cast(I32, bright), 0, BINS)
    xf, yf = (hl.cast(F32, v % CELL) * hl.f32(1 / CELL) for v in (X, Y))

    def corner(dx: int, dy: int, dz: int) -> Any:
        return down[X // CELL + dx, Y // CELL + dy, k + dz, C]

    planes = [
        hl.lerp(
            hl.lerp(corner(0, 0, z), corner(1, 0, z), xf), hl.lerp(corner(0, 1, z), corner(1, 1, z), xf), yf
        )
        for z in (0, 1)
    ]  # fmt: skip
    mixed[X, Y, C] = hl.lerp(planes[0], planes[1], bright - hl.cast(F32, k))
    y[X, Y] = mixed[X, Y, 0] / mixed[X, Y, 1]

    def schedule(target: Any) -> None:
        along.compute_root().reorder(C, Z, X, Y).parallel(Y).vectorize(X, LANES).unroll(C)
        cells.compute_at(along, Y)
        cells.update().reorder(C, r.x, r.y, X, Y).unroll(C)
        for blur in (across, down):
            blur.compute_root().reorder(C, X, Y, Z).parallel(Z).vectorize(X, LANES).unroll(C)
        y.parallel(Y, 8).vectorize(X, LANES)

    return Pipeline(source, y, [], (HEIGHT, WIDTH), schedule)


def _sum(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def interpolate(levels: int = 10) -> Pipeline:
    """A schedule by hand: each level both ways over all of it, rows in parallel."""
    source = hl.ImageParam(F32, 3)
    d = hl.Func("d0")
    d[X, Y, C] = hl.select(C < 3, source[X, Y, C], hl.f32(1)) * source[X, Y, 3]
    width, height = WIDTH, HEIGHT
    down, sizes = [d], [(width, height)]
    for n in range(1, levels):
        edges, a, d = _edges(d, width, height), hl.Func(f"a{n}"), hl.Func(f"d{n}")
        a[X, Y, C] = (edges[2 * X - 1, Y, C] + edges[2 * X, Y, C] * hl.f32(2) + edges[2 * X + 1, Y, C]) * hl.f32(0.25)
        d[X, Y, C] = (a[X, 2 * Y - 1, C] + a[X, 2 * Y, C] * hl.f32(2) + a[X, 2 * Y + 1, C]) * hl.f32(0.25)
        width, height = (width + 1) // 2, (height + 1) // 2
        down.append(d)
        sizes.append((width, height))
    last, up = d, []
    for n in reversed(range(levels - 1)):
        edges, u, v, e = _edges(last, *sizes[n + 1]), *(hl.Func(f"{name}{n}") for name in "uve")
        u[X, Y, C] = (edges[X // 2, Y, C] + edges[(X + 1) // 2, Y, C]) * hl.f32(0.5)
        v[X, Y, C] = (u[X, Y // 2, C] + u[X, (Y + 1) // 2, C]) * hl.f32(0.5)
        e[X, Y, C] = down[n][X, Y, C] + (hl.f32(1) - down[n][X, Y, 3]) * v[X, Y, C]
        up.append(e)
        last = e
    y = hl.Func("y")
    y[X, Y, C] = last[X, Y, C] / last[X, Y, 3]

    def schedule(target: Any) -> None:
        for function in (*down[1:], *up[:-1]):
            _spread(function, 8)
        y.bound(C, 0, 3).reorder(C, X, Y).unroll(C).parallel(Y, 8).vectorize(X, LANES)

    return Pipeline(source, y, [], (3, HEIGHT, WIDTH), schedule)


def local_laplacian(pyramid: int = 8) -> Pipeline:
    """A schedule by hand: the pyramids level by level, the last steps row by row in strips, as Halide's app does."""
    source, top = hl.ImageParam(U16, 3), LEVELS - 1
    m, grey, first, y = hl.Func("m"), hl.Func("g0"), hl.Func("p0"), hl.Func("y")
    share = hl.cast(F32, X) * hl.f32(1 / 256)
    m[X] = share * hl.f32(DETAIL) * hl.exp(share * share * hl.f32(-0.5))

    def colour(c: Any) -> Any:
        return hl.cast(F32, source[X, Y, c]) * hl.f32(1 / 65535)

    grey[X, Y] = colour(0) * hl.f32(0.299) + colour(1) * hl.f32(0.587) + colour(2) * hl.f32(0.114)
    place = hl.clamp(hl.cast(I32, grey[X, Y] * hl.f32(256 * top)), 0, 256 * top)
    first[X, Y, Z] = grey[X, Y] + m[place - 256 * Z]
    sizes = [(WIDTH >> n, HEIGHT >> n) for n in range(pyramid)]
    greys, raised = _pyramid(grey, sizes, []), _pyramid(first, sizes, [Z])
    out, made = None, []
    for n in reversed(range(pyramid)):
        bright = greys[n][X, Y] * hl.f32(top)
        below = hl.clamp(hl.cast(I32, bright), 0, top - 1)
        finer = _doubled(raised[n + 1], sizes[n + 1], [Z], f"q{n}") if n + 1 < pyramid else None

        def detail(k: Any, n: int = n, finer: Any = finer) -> Any:
            return raised[n][X, Y, k] - finer[X, Y, k] if finer is not None else raised[n][X, Y, k]

        part = bright - hl.cast(F32, below)
        value = (hl.f32(1) - part) * detail(below) + part * detail(below + 1)
        if out is not None:
            value = value + _doubled(out, sizes[n + 1], [], f"r{n}")[X, Y]
        out = hl.Func(f"o{n}")
        out[X, Y] = value
        made.append(out)
    assert out is not None
    scaled = out[X, Y] * (colour(C) + hl.f32(0.01)) / (grey[X, Y] + hl.f32(0.01))
    y[X, Y, C] = hl.cast(U16, hl.clamp(scaled, hl.f32(0), hl.f32(1)) * hl.f32(65535))

    def schedule(target: Any) -> None:
        m.compute_root()
        y.reorder(C, X, Y).split(Y, ROWS, Y, 64).parallel(ROWS).vectorize(X, LANES)
        _spread(grey)
        for n, function in enumerate(reversed(made)):
            if n == 0:
                function.compute_at(y, Y).vectorize(X, LANES)
            elif n < 5:
                function.store_at(y, ROWS).compute_at(y, Y).vectorize(X, LANES)
            else:
                function.compute_root()
        for n in range(1, pyramid):
            if n < 5:
                _spread(greys[n])
                raised[n].compute_root().reorder_storage(X, Z, Y).reorder(Z, Y).parallel(Y, 8).vectorize(X, LANES)
            else:
                greys[n].compute_root()
                raised[n].compute_root().parallel(Z)

    return Pipeline(source, y, [], (3, HEIGHT, WIDTH), schedule)


def _pyramid(finest: Any, sizes: Sequence[tuple[int, int]], more: list[Any]) -> list[Any]:
    levels = [finest]
    for n, size in enumerate(sizes[:-1], 1):
        f = _edges(levels[-1], *size)
        a, d = hl.Func(f"{finest.name()}_a{n}"), hl.Func(f"{finest.name()}_d{n}")
        ends = [f[(2 * X + k, Y, *more)] for k in (-1, 0, 1, 2)]
        a[(X, Y, *more)] = (ends[0] + (ends[1] + ends[2]) * hl.f32(3) + ends[3]) * hl.f32(0.125)
        ends = [a[(X, 2 * Y + k, *more)] for k in (-1, 0, 1, 2)]
        d[(X, Y, *more)] = (ends[0] + (ends[1] + ends[2]) * hl.f32(3) + ends[3]) * hl.f32(0.125)
        levels.append(d)
    return levels


def _doubled(coarse: Any, size: tuple[int, int], more: list[Any], name: str) -> Any:
    f, a, b = _edges(coarse, *size), hl.Func(f"{name}h"), hl.Func(name)

    def mixed(near: Any, other: Any) -> Any:
        return near * hl.f32(0.75) + other * hl.f32(0.25)

    a[(X, Y, *more)] = mixed(f[(X // 2, Y, *more)], f[(X // 2 - 1 + 2 * (X % 2), Y, *more)])
    b[(X, Y, *more)] = mixed(a[(X, Y // 2, *more)], a[(X, Y // 2 - 1 + 2 * (Y % 2), *more)])
    return b


def nonlocal_means(patch: int = 7, search: int = 7) -> Pipeline:
    """A schedule by hand: tiles, in which the weights of one offset at a time are made and added."""
    source, y, total = hl.ImageParam(F32, 3), hl.Func("y"), hl.Func("total")
    d, a, b, w = (hl.Func(name) for name in "dabw")
    s, t = hl.Var("s"), hl.Var("t")
    reach, middle = search // 2, patch // 2
    apart = [source[X + reach, Y + reach, c] - source[X + t, Y + s, c] for c in range(3)]
    d[X, Y, t, s] = _sum([one * one for one in apart])
    a[X, Y, t, s] = _sum([d[X, Y + n, t, s] for n in range(patch)])
    b[X, Y, t, s] = _sum([a[X + n, Y, t, s] for n in range(patch)])
    w[X, Y, t, s] = hl.fast_exp(b[X, Y, t, s] * hl.f32(-1 / (SIGMA * patch) ** 2))
    around = hl.RDom([(0, search), (0, search)])
    seen = source[X + around.x + middle, Y + around.y + middle, hl.min(C, 2)]
    total[X, Y, C] = hl.f32(0)
    total[X, Y, C] += w[X, Y, around.x, around.y] * hl.select(C < 3, seen, hl.f32(1))
    y[X, Y, C] = hl.clamp(total[X, Y, C] / total[X, Y, 3], hl.f32(0), hl.f32(1))

    def schedule(target: Any) -> None:
        xi, yi = hl.Var("xi"), hl.Var("yi")
        y.bound(C, 0, 3).reorder(C, X, Y).tile(X, Y, xi, yi, 64, 32).parallel(Y).vectorize(xi, LANES)
        total.compute_at(y, X).vectorize(X, LANES)
        total.update().reorder(X, Y, C, around.x, around.y).unroll(C).vectorize(X, LANES)
        w.compute_at(total, around.x).vectorize(X, LANES)
        a.compute_at(total, around.x).vectorize(X, LANES)

    return Pipeline(source, y, [], (3, HEIGHT - search - patch + 2, WIDTH - search - patch + 2), schedule)


def largest_in_disc(radius: int = RADIUS) -> Pipeline:
    """A schedule by hand: strips, in which the columns' largest of 1, 2, 4, ... points are computed first."""
    source = hl.ImageParam(F32, 3)
    logs: dict[int, Any] = {1: source}
    size = 1
    while 2 * size <= 2 * radius + 1:
        f = hl.Func(f"v{2 * size}")
        f[X, Y, C] = hl.max(logs[size][X, Y, C], logs[size][X, Y + size, C])
        size *= 2
        logs[size] = f
    found = None
    for column in range(-radius, radius + 1):
        reach = half_column(column, radius)
        size = max(s for s in logs if s <= 2 * reach + 1)
        for place in dict.fromkeys((radius - reach, radius + reach + 1 - size)):
            value = logs[size][X + column + radius, Y + place, C]
            found = value if found is None else hl.max(found, value)
    y = hl.Func("y")
    y[X, Y, C] = found

    def schedule(target: Any) -> None:
        y.split(Y, ROWS, Y, 64).parallel(C).parallel(ROWS).vectorize(X, LANES)
        for size, function in logs.items():
            if size > 1:
                function.compute_at(y, ROWS).vectorize(X, LANES)

    return Pipeline(source, y, [], (3, HEIGHT - 2 * radius, WIDTH - 2 * radius), schedule)


def recursive_blur() -> Pipeline:
    """A schedule by hand: down and up the columns of a block of vectors, which is turned over; twice."""
    source = hl.ImageParam(F32, 3)
    f, halves = source, []
    for n, extent in enumerate((HEIGHT, WIDTH)):
        blurred, turned = hl.Func(f"blurred{n}"), hl.Func(f"turned{n}")
        down, up = hl.RDom([(1, extent - 1)]), hl.RDom([(1, extent - 1)])
        back = extent - 1 - up.x
        blurred[X, Y, C] = f[X, Y, C]
        blurred[X, down.x, C] = blurred[X, down.x - 1, C] * hl.f32(1 - DECAY) + blurred[X, down.x, C] * hl.f32(DECAY)
        blurred[X, back, C] = blurred[X, back + 1, C] * hl.f32(1 - DECAY) + blurred[X, back, C] * hl.f32(DECAY)
        turned[X, Y, C] = blurred[Y, X, C]
        halves.append((blurred, turned))
        f = turned

    def schedule(target: Any) -> None:
        for blurred, turned in halves:
            turned.compute_root().split(Y, ROWS, Y, LANES).split(X, COLUMNS, X, LANES).reorder(X, Y, COLUMNS, ROWS, C)
            turned.vectorize(X).parallel(C).parallel(ROWS)
            blurred.compute_at(turned, ROWS).vectorize(X, LANES)
            blurred.update(0).vectorize(X, LANES)
            blurred.update(1).vectorize(X, LANES)

    return Pipeline(source, f, [], (3, HEIGHT, WIDTH), schedule)


def camera() -> Pipeline:
    """A schedule by hand: strips; clean pixels and green as windows that slide along rows, the rest where it is needed."""
    high, wide = RAW_HEIGHT - 24, RAW_WIDTH - 32
    source, clean = hl.ImageParam(U16, 2), hl.Func("clean")
    around = [source[X + dx, Y + dy] for dx, dy in ((-2, 0), (2, 0), (0, -2), (0, 2))]
    most = hl.max(hl.max(around[0], around[1]), hl.max(around[2], around[3]))
    clean[X, Y] = hl.cast(I16, hl.min(source[X, Y], most))
    planes = {name: hl.Func(name) for name in "GRBH"}
    for plane, (dx, dy) in zip(planes.values(), ((0, 0), (1, 0), (0, 1), (1, 1)), strict=True):
        plane[X, Y] = clean[2 * X + dx, 2 * Y + dy]
    g, r, b, h = planes.values()
    green = {"R": hl.Func("GR"), "B": hl.Func("GB")}

    def mean(f: Any, one: tuple[int, int], other: tuple[int, int]) -> Any:
        return (f[X + one[0], Y + one[1]] + f[X + other[0], Y + other[1]] + hl.i16(1)) // hl.i16(2)

    def step(f: Any, one: tuple[int, int], other: tuple[int, int]) -> Any:
        return hl.absd(f[X + one[0], Y + one[1]], f[X + other[0], Y + other[1]])

    def moved(f: Any, of: Any, one: tuple[int, int], other: tuple[int, int]) -> Any:
        return mean(f, one, other) - mean(of, one, other)

    def diagonal(f: Any, of: Any, dx: int, dy: int) -> Any:
        falling, rising = ((dx, dy), (dx + 1, dy + 1)), ((dx + 1, dy), (dx, dy + 1))
        return hl.select(step(f, *falling) < step(f, *rising), moved(f, of, *falling), moved(f, of, *rising))

    gr, gb = green["R"], green["B"]
    across, down = (g, (0, 0), (1, 0)), (h, (0, -1), (0, 0))
    gr[X, Y] = hl.select(step(*across) < step(*down), mean(*across), mean(*down))
    across, down = (h, (-1, 0), (0, 0)), (g, (0, 0), (0, 1))
    gb[X, Y] = hl.select(step(*across) < step(*down), mean(*across), mean(*down))
    quarters = (
        (g[X, Y] + moved(r, gr, (-1, 0), (0, 0)), r[X, Y],
         gb[X, Y] + diagonal(r, gr, -1, 0), h[X, Y] + moved(r, gr, (0, 0), (0, 1))),
        (g[X, Y], gr[X, Y], gb[X, Y], h[X, Y]),
        (g[X, Y] + moved(b, gb, (0, -1), (0, 0)), gr[X, Y] + diagonal(b, gb, 0, -1),
         b[X, Y], h[X, Y] + moved(b, gb, (0, 0), (1, 0))),
    )  # fmt: skip
    colours, between = [], []
    for name, values in zip("rgb", quarters, strict=True):
        parts, whole = [hl.Func(f"{name}{n}") for n in range(4)], hl.Func(name)
        for part, value in zip(parts, values, strict=True):
            part[X, Y] = value
        reads = [part[X // 2, Y // 2] for part in parts]
        rows = [hl.select(X % 2 == 0, *reads[:2]), hl.select(X % 2 == 0, *reads[2:])]
        whole[X, Y] = hl.select(Y % 2 == 0, rows[0], rows[1])
        between += parts
        colours.append(whole)
    curve, y = hl.Func("curve"), hl.Func("y")
    curve[X] = hl.cast(U8, hl.sqrt(hl.cast(F32, X) * hl.f32(255 * 255 / 1023)))
    mixed = [
        _sum([hl.cast(I32, f[X + 6, Y + 6]) * hl.i32(w) for f, w in zip(colours, row, strict=False)]) // 256
        + hl.i32(row[3])
        for row in COLOURS
    ]
    y[X, Y, C] = curve[hl.clamp(hl.mux(C, mixed), 0, 1023)]

    def schedule(target: Any) -> None:
        curve.compute_root()
        xi, yi = hl.Var("xi"), hl.Var("yi")
        y.bound(C, 0, 3).reorder(C, X, Y).split(Y, ROWS, Y, 32).split(Y, Y, yi, 2).split(X, X, xi, 2 * LANES)
        y.reorder(xi, C, X, yi, Y, ROWS).unroll(C).vectorize(xi).parallel(ROWS)
        for function in (clean, *green.values()):
            function.store_at(y, ROWS).compute_at(y, Y).vectorize(X, 2 * LANES)
        for function in planes.values():
            function.store_at(y, ROWS).compute_at(y, Y).vectorize(X, 2 * LANES)
        for function in colours:
            function.compute_at(y, X).vectorize(X, 2 * LANES).unroll(X)

    return Pipeline(source, y, [], (3, high, wide), schedule)


IMAGES: dict[str, Callable[[], Pipeline]] = {
    "bilateral grid": bilateral_grid,
    "local Laplacian": local_laplacian,
    "interpolate": interpolate,
    "non-local means": nonlocal_means,
    "max of a disc": largest_in_disc,
    "recursive blur": recursive_blur,
    "camera": camera,
}
