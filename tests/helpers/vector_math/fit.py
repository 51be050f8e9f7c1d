"""Where the coefficients of codegen/math_*.py come from: weighted minimax fits, in decimal arithmetic, no libraries.

Polynomials: the exchange algorithm of Remez (1934; Powell, "Approximation Theory and Methods", chapter 8) on a dense grid of
Chebyshev points. Each coefficient is rounded to the working precision, lowest order first, and the others are fitted again
around it, so that rounding does not undo the fit. Rationals: see `rational`, which is more robust than an exchange.

`python tests/helpers/vector_math/fit.py` prints every table and the error of each fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, getcontext, localcontext
from functools import partial

getcontext().prec = 60
D = Decimal
Function = Callable[[Decimal], Decimal]

PI = D("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
LN2 = D(2).ln()
TINY = D("1e-12")


def single(value: Decimal) -> Decimal:
    """The nearest binary32 number."""
    return D(struct.unpack("f", struct.pack("f", float(value)))[0])


def double(value: Decimal) -> Decimal:
    """The nearest binary64 number."""
    return D(float(value))


def series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """Sum of terms t0 = first, t(k+1) = t(k) * ratio(k), until they no longer count."""
    total, term, k = D(0), first, 0
    while abs(term) > D(10) ** -58:
        total += term
        term *= ratio(k)
        k += 1
    return total


def tanh(x: Decimal) -> Decimal:
    """Hyperbolic tangent."""
    e = (-2 * x).exp()
    return (1 - e) / (1 + e)


def erf(x: Decimal) -> Decimal:
    """Error function: 2/sqrt(pi) exp(-x^2) sum (2 x^2)^k x / (1 3 5 .. 2k+1), all terms positive."""
    return 2 / PI.sqrt() * (-x * x).exp() * series(x, lambda k: 2 * x * x / (2 * k + 3))


def sin(x: Decimal) -> Decimal:
    """Sine of a small argument."""
    return series(x, lambda k: -x * x / ((2 * k + 2) * (2 * k + 3)))


def cos(x: Decimal) -> Decimal:
    """Cosine of a small argument."""
    return series(D(1), lambda k: -x * x / ((2 * k + 1) * (2 * k + 2)))


def chebyshev_grid(low: Decimal, high: Decimal, count: int) -> list[Decimal]:
    """`count` points of [low, high], ends included, denser toward the ends."""
    return [(low + high) / 2 - (high - low) / 2 * cos(PI * i / (count - 1)) for i in range(count)]


def solve(matrix: list[list[Decimal]], right: list[Decimal]) -> list[Decimal]:
    """Gaussian elimination with row pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(i + 1, n):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i], strict=True)]
    result = [D(0)] * n
    for i in reversed(range(n)):
        result[i] = (rows[i][n] - sum((rows[i][j] * result[j] for j in range(i + 1, n)), D(0))) / rows[i][i]
    return result


Fit = tuple[list[Decimal], Decimal, list[Decimal]]  # coefficients, level on the reference, weighted errors on the grid


def exchange(fit_on: Callable[[list[int]], Fit], unknowns: int, count: int) -> list[Decimal]:
    """Coefficients with the smallest largest error over a grid of `count` points.

    `fit_on` levels the error on a reference of unknowns + 1 points; the reference then moves to the extrema of that error.
    """
    reference = [round(i * (count - 1) / unknowns) for i in range(unknowns + 1)]
    for _ in range(60):
        found, level, errors = fit_on(reference)
        if max(map(abs, errors)) <= abs(level) * D("1.0001"):
            break
        reference = alternating(errors, unknowns + 1)
    return found


def alternating(errors: list[Decimal], count: int) -> list[int]:
    """`count` grid points of alternating error sign: the extremum of each run of one sign, the smallest ends dropped."""
    runs: list[int] = []
    for p, error in enumerate(errors):
        if not runs or (error > 0) != (errors[runs[-1]] > 0):
            runs.append(p)
        elif abs(error) > abs(errors[runs[-1]]):
            runs[-1] = p
    while len(runs) > count:
        if len(runs) - count > 1:  # an inner one leaves with a neighbour, so that the signs still alternate
            gap = min(range(len(runs) - 1), key=lambda i: abs(errors[runs[i]]) + abs(errors[runs[i + 1]]))
            del runs[gap : gap + 2]
        else:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    if len(runs) < count:
        raise ArithmeticError(f"{len(runs)} extrema where {count} are needed: raise the precision or lower the degree")
    return runs


def polynomial(
    f: Function,
    weight: Function,
    span: tuple[Decimal, Decimal],
    degree: int,
    rounding: Function,
    fixed: Sequence[Decimal] = (),
    points: int = 240,
    together: bool = False,
) -> tuple[list[Decimal], Decimal]:
    """Coefficients in the working precision, lowest order first, and max |w (f - p)|. `fixed`: the first ones. `together`: all
    are rounded after one fit, which loses less where the first cannot be fixed (a span around 0 without a constant term)."""
    grid = chebyshev_grid(*span, points)
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    done = list(fixed)
    while True:
        rest = [v - value_at(done, x) for x, v in zip(grid, values, strict=True)]
        if len(done) > degree:
            return done, max(abs(w * r) for w, r in zip(weights, rest, strict=True))
        orders = range(len(done), degree + 1)

        def fit_on(reference: list[int], rest: list[Decimal] = rest, orders: range = orders) -> Fit:
            signs = [(-1) ** s / weights[p] for s, p in enumerate(reference)]
            rows = [
                [grid[p] ** k if k else D(1) for k in orders] + [sign] for p, sign in zip(reference, signs, strict=True)
            ]
            *found, level = solve(rows, [rest[p] for p in reference])
            fitted = [D(0)] * orders.start + found
            return found, level, [w * (r - value_at(fitted, x)) for x, r, w in zip(grid, rest, weights, strict=True)]

        found = exchange(fit_on, len(orders), points)
        done += map(rounding, found if together else found[:1])


def rational(
    f: Function, weight: Function, limit: Decimal, degrees: tuple[int, int], points: int = 120, rounds: int = 150
) -> tuple[list[Decimal], list[Decimal]]:
    """P and Q, coefficients not rounded, of P(u)/Q(u) on [0, limit^2], with Q(0) = 1 and P(0) = f(0); near minimax.

    Each round solves a least-squares problem in which the denominator of the round before makes the error linear, and points
    with a large error gain weight (Lawson 1961; Nakatsukasa, Sete & Trefethen, SISC 40, 2018).
    """
    grid = [x * x for x in chebyshev_grid(D(0), limit, points)]
    values, weights = [f(u) for u in grid], [weight(u) for u in grid]
    above, below = degrees
    unknowns = range(above + below)
    rows = [
        [u**k for k in range(1, above + 1)] + [-v * u**k for k in range(1, below + 1)]
        for u, v in zip(grid, values, strict=True)
    ]
    target = [v - values[0] for v in values]
    share, bottoms = [D(1) / points] * points, [D(1)] * points
    for _ in range(rounds):
        squares = [s * (w / q) ** 2 for s, w, q in zip(share, weights, bottoms, strict=True)]
        scaled = [[c * s for c in row] for row, s in zip(rows, squares, strict=True)]
        normal = [[dot((row[i] for row in scaled), (row[j] for row in rows)) for j in unknowns] for i in unknowns]
        found = solve(normal, [dot((row[i] for row in scaled), target) for i in unknowns])
        top, bottom = [values[0], *found[:above]], [D(1), *found[above:]]
        bottoms = [value_at(bottom, u) for u in grid]
        errors = [
            abs(w * (v - value_at(top, u) / q)) for u, v, w, q in zip(grid, values, weights, bottoms, strict=True)
        ]
        total = dot(share, errors)
        share = [s * e / total for s, e in zip(share, errors, strict=True)]
    return top, bottom


def dot(a: Iterable[Decimal], b: Iterable[Decimal]) -> Decimal:
    """Sum of products."""
    return sum((x * y for x, y in zip(a, b, strict=True)), D(0))


def rational_error(f: Function, weight: Function, limit: Decimal, top: list[Decimal], bottom: list[Decimal]) -> Decimal:
    """max |w (f - P/Q)| of rounded coefficients."""
    grid = [x * x for x in chebyshev_grid(D(0), limit, 500)]
    return max(abs(weight(u) * (f(u) - value_at(top, u) / value_at(bottom, u))) for u in grid)


def machin_pi(digits: int) -> Decimal:
    """pi = 16 atan(1/5) - 4 atan(1/239)."""
    with localcontext() as context:
        context.prec = digits + 10

        def atan_of_inverse(n: int) -> Decimal:
            total, power, k = D(0), D(1) / n, 0
            while power > D(10) ** -(digits + 5):
                total += (-1) ** k * power / (2 * k + 1)
                power /= n * n
                k += 1
            return total

        return 16 * atan_of_inverse(5) - 4 * atan_of_inverse(239)


def value_at(coefficients: Sequence[Decimal], x: Decimal) -> Decimal:
    """Horner's rule."""
    total = D(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def square_root_of(f: Function, limit: Decimal) -> Function:
    """f(x)/x as a function of u = x^2; `limit` is its value at 0."""
    return lambda u: f(u.sqrt()) / u.sqrt() if u else limit


def inverse(f: Function) -> Function:
    """1/f: the weight that makes errors relative."""
    return lambda x: 1 / f(x)


def log_tail(f: Decimal) -> Decimal:
    """(log(1 + f) - f + f^2/2) / f^3"""
    return ((1 + f).ln() - f + f * f / 2) / f**3 if abs(f) > D(10) ** -12 else D(1) / 3


def log_tail_weight(f: Decimal) -> Decimal:
    """|f^3 / log(1 + f)|: errors relative to the logarithm."""
    return abs(f**3 / (1 + f).ln()) + D(10) ** -9 if f else D(10) ** -9


def ratio_tail(f: Function) -> Function:
    """(f(x)/x - 1) / x^2 as a function of u = x^2, for tanh and sin; its limits at 0 are their Taylor coefficients."""
    limit = {tanh: -D(1) / 3, sin: -D(1) / 6}[f]
    return lambda u: (f(u.sqrt()) / u.sqrt() - 1) / u if u > TINY else limit


def cos_tail(u: Decimal) -> Decimal:
    """(cos(x) - 1 + x^2/2) / x^4 as a function of u = x^2."""
    return (cos(u.sqrt()) - 1 + u / 2) / u**2 if u > TINY else D(1) / 24


def atanh_tail(first: int) -> Function:
    """2 (atanh(s)/s - 1 - s^2/3 ...) / s^(first - 1), from the term s^first/first on, as a function of s^2."""
    return lambda z: series(D(2) / first, lambda k: z * (2 * k + first) / (2 * k + first + 2))


def erfcx(x: Decimal) -> Decimal:
    """exp(x^2) (1 - erf(x)) of x >= 0; of large x by a continued fraction (Abramowitz and Stegun 7.1.14)."""
    if x < 3:
        return (x * x).exp() * (1 - (erf(x) if x else D(0)))
    below = x
    for n in range(300, 0, -1):
        below = x + D(n) / 2 / below
    return 1 / (PI.sqrt() * below)


def normal_tail(z: Decimal) -> Decimal:
    """exp(z^2 / 2) (1 - normal distribution function of z) of z >= 0."""
    return erfcx(z / D(2).sqrt()) / 2


def normal_tolerance(z: Decimal) -> Decimal:
    """The weight of errors of `normal_tail`: relative, and of less account where z^2 is rounded as well."""
    return 1 / (normal_tail(z) * (1 + z * z / 8))


def normal() -> dict[str, tuple[list[Decimal], Decimal]]:
    """The tables of gelu, as `polynomials`. What the leading coefficients are divided by goes into those of the power."""
    limit = D("14.5").sqrt()
    top, bottom = rational(normal_tail, normal_tolerance, limit, (3, 4), rounds=60)
    factor = top[-1] / bottom[-1]
    power, error = polynomial(
        lambda r: factor * (r * LN2).exp(),
        lambda r: (-r * LN2).exp() / factor,
        (D("-0.5"), D("0.5")),
        5,
        single,
        together=True,
    )
    top, bottom = [single(c / top[-1]) for c in top], [single(c / bottom[-1]) for c in bottom]
    scaled = [c * power[0] for c in top]
    worst = rational_error(normal_tail, normal_tolerance, limit, scaled, bottom)
    return {"EXP2_SCALED_F32": (power, error), "NORMAL_P_F32": (top, worst), "NORMAL_Q_F32": (bottom, worst)}


def polynomials(wanted: str = "") -> dict[str, tuple[list[Decimal], Decimal]]:
    """Name in codegen/math_*.py -> (coefficients, largest relative error); of the tables whose name has `wanted` in it."""
    wide = (-LN2 * D("1.001"), LN2 * D("1.001"))
    half = (-LN2 / 2 * D("1.001"), LN2 / 2 * D("1.001"))
    log_span = (D("0.5").sqrt() - 1, D(2).sqrt() - 1)
    log_squares = (D(0), (3 - D(8).sqrt()) ** 2)
    eighth = (D(0), (PI / 4 * D("1.001")) ** 2)
    exp, unexp = (lambda x: x.exp()), (lambda x: (-x).exp())
    tables = {
        "EXP_F32": partial(polynomial, exp, unexp, wide, 7, single, (D(1), D(1))),
        "EXP_HALF_F32": partial(polynomial, exp, unexp, half, 6, single, (D(1), D(1))),
        "EXP_F64": partial(polynomial, exp, unexp, wide, 13, double, (D(1), D(1))),
        "LOG_F32": partial(polynomial, log_tail, log_tail_weight, log_span, 7, single),
        "LOG_F64": partial(polynomial, atanh_tail(3), lambda z: z / 2 + TINY, log_squares, 6, double),
        "LOG_TAIL": partial(polynomial, atanh_tail(5), lambda z: z * z / 2 + TINY, log_squares, 6, double),
    }
    for kind, degree, rounding in (("F32", 2, single), ("F64", 5, double)):
        of_sine = lambda u: u * u.sqrt() / sin(u.sqrt()) if u else TINY  # noqa: E731
        of_cosine = lambda u: u * u / cos(u.sqrt()) + TINY  # noqa: E731
        tables[f"SIN_{kind}"] = partial(polynomial, ratio_tail(sin), of_sine, eighth, degree, rounding)
        tables[f"COS_{kind}"] = partial(polynomial, cos_tail, of_cosine, eighth, degree, rounding)
    return {name: fit() for name, fit in tables.items() if wanted in name}


def rationals(wanted: str = "") -> dict[str, tuple[list[Decimal], Decimal]]:
    """As `polynomials`: NAME_P_... and NAME_Q_... of each rational whose NAME_{}_... has `wanted` in it."""
    at_zero = 2 / PI.sqrt()
    tanh_ratio, erf_ratio = square_root_of(tanh, D(1)), square_root_of(erf, at_zero)
    cases: dict[str, tuple[Function, Function, Decimal, tuple[int, int], Function]] = {
        "TANH_{}_F32": (tanh_ratio, inverse(tanh_ratio), D("9.015625"), (4, 4), single),
        "ERF_{}_F32": (erf_ratio, inverse(erf_ratio), D("3.9296875"), (5, 5), lambda c: single(c * ERF_SCALE)),
        "TANH_{}_F64": (ratio_tail(tanh), lambda u: u / tanh_ratio(u) + TINY, D("0.625"), (2, 3), double),
        "ERF_{}_F64": (lambda u: erf_ratio(u) - 1, inverse(erf_ratio), D(1), (5, 5), double),
        "ERFC_{}_F64": (
            lambda v: erfcx(1 + v),
            lambda v: (-((1 + v) ** 2)).exp() / erf(1 + v),
            D(5).sqrt(),
            (5, 6),
            double,
        ),
        "ERFCX_{}_F32": (erfcx, inverse(erfcx), D("10.25").sqrt(), (4, 5), single),
        "ERFCX_{}_F64": (erfcx, inverse(erfcx), D("27.25").sqrt(), (10, 11), double),
    }
    tables = {}
    for name, (f, weight, limit, degrees, rounding) in cases.items():
        if wanted not in name:
            continue
        rounds = {"ERFCX_{}_F32": 60, "ERFCX_{}_F64": 20}.get(name, 150)
        top, bottom = ([rounding(c) for c in part] for part in rational(f, weight, limit, degrees, rounds=rounds))
        error = rational_error(f, weight, limit, top, bottom)
        tables[name.format("P")], tables[name.format("Q")] = (top, error), (bottom, error)
    return tables


# 2/sqrt(pi) itself lies badly between two binary32 numbers; this multiple of it does not
ERF_SCALE = D("1.46240234375")


if __name__ == "__main__":
    for table, (coefficients, worst) in (polynomials() | rationals() | normal()).items():
        print(f"# {float(worst):.3g}")
        print(f"{table} = (", *(f"    {float(c)!r}," for c in coefficients), ")", sep="\n")
