"""Programs of all the shapes that schedules must cope with, at sizes drawn at random: mostly ragged, always small."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

Maker = Callable[[Random], str]
MAKERS: dict[str, Maker] = {}


def _maker(function: Maker) -> Maker:
    MAKERS[function.__name__] = function
    return function


def random_program(random: Random, name: str) -> Program:
    """The program of this family, in canonical form, at sizes drawn from `random`."""
    return canonical(parse(MAKERS[name](random)))


@_maker
def matmul(r: Random) -> str:
    m, n, k = r.randint(1, 14), r.randint(1, 19), r.randint(1, 13)
    return f"""
    input A: f32[{m}, {k}]
    input B: f32[{k}, {n}]
    C[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
    return C"""


@_maker
def matmul_epilogue(r: Random) -> str:
    m, n, k = r.randint(1, 12), r.randint(1, 19), r.randint(1, 11)
    return f"""
    input A: f32[{k}, {m}]
    constant B: f32[{n}, {k}]
    input bias: f32[{n}]
    C[i: {m}, j: {n}] = sum[k: {k}](A[k, i] * B[j, k])
    D[i: {m}, j: {n}] = max(C[i, j] + bias[j], 0)
    return D"""


@_maker
def batch_matmul(r: Random) -> str:
    b, m, n, k = r.randint(1, 3), r.randint(1, 7), r.randint(1, 9), r.randint(1, 7)
    return f"""
    input A: i32[{b}, {m}, {k}]
    input B: i32[{b}, {k}, {n}]
    C[b: {b}, i: {m}, j: {n}] = sum[k: {k}](A[b, i, k] * B[b, k, j])
    return C"""


@_maker
def chain(r: Random) -> str:
    m, n = r.randint(1, 9), r.randint(1, 23)
    return f"""
    input x: f32[{m}, {n}]
    input y: f32[{n}]
    a[i: {m}, j: {n}] = x[i, j] * 2 + y[j]
    b[i: {m}, j: {n}] = a[i, j] - x[i, j]
    c[i: {m}, j: {n}] = max(b[i, j], a[i, j])
    return c"""


@_maker
def transposes(r: Random) -> str:
    m, n = r.randint(1, 11), r.randint(1, 17)
    return f"""
    input x: f32[{m}, {n}]
    a[j: {n}, i: {m}] = x[i, j] + 1
    b[i: {m}, j: {n}] = a[j, i] * x[i, j]
    return b"""


@_maker
def guarded_stencils(r: Random) -> str:
    n = r.randint(3, 40)
    return f"""
    input x: f32[{n}]
    a[i: {n}] = select(i >= 1, x[i - 1], 0) + 2 * x[i] + select(i < {n - 1}, x[i + 1], 0)
    b[i: {n}] = select(i >= 2, a[i - 2], 0) - a[i] + select(i + 1 < {n}, a[i + 1], 0)
    return b"""


@_maker
def stencils_2d(r: Random) -> str:
    h, w = r.randint(3, 11), r.randint(4, 14)
    return f"""
    input x: f32[{h}, {w}]
    a[i: {h}, j: {w - 2}] = x[i, j] + x[i, j + 1] + x[i, j + 2]
    b[i: {h - 2}, j: {w - 2}] = a[i, j] + a[i + 1, j] - a[i + 2, j]
    return b"""


@_maker
def row_reduction(r: Random) -> str:
    m, n = r.randint(1, 11), r.randint(1, 23)
    return f"""
    input x: f32[{m}, {n}]
    s[i: {m}] = sum[k: {n}](x[i, k])
    y[i: {m}, j: {n}] = x[i, j] * s[i]
    return y"""


@_maker
def column_reduction(r: Random) -> str:
    m, n = r.randint(1, 19), r.randint(1, 17)
    return f"""
    input x: f32[{m}, {n}]
    s[j: {n}] = max[k: {m}](x[k, j])
    return s"""


@_maker
def softmax(r: Random) -> str:
    m, n = r.randint(1, 7), r.randint(1, 19)
    return f"""
    input x: f32[{m}, {n}]
    m[i: {m}] = max[k: {n}](x[i, k])
    e[i: {m}, j: {n}] = exp(x[i, j] - m[i])
    s[i: {m}] = sum[k: {n}](e[i, k])
    y[i: {m}, j: {n}] = e[i, j] / s[i]
    return y"""


@_maker
def matmul_softmax(r: Random) -> str:
    m, n, k = r.randint(1, 7), r.randint(1, 11), r.randint(1, 6)
    return f"""
    input A: f32[{m}, {k}]
    input B: f32[{k}, {n}]
    c[i: {m}, j: {n}] = sum[k: {k}](A[i, k] * B[k, j])
    m[i: {m}] = max[k: {n}](c[i, k])
    e[i: {m}, j: {n}] = exp(c[i, j] - m[i])
    s[i: {m}] = sum[k: {n}](e[i, k])
    y[i: {m}, j: {n}] = e[i, j] / s[i]
    return y"""


@_maker
def convolution(r: Random) -> str:
    c, o, h, w = r.randint(1, 3), r.randint(1, 4), r.randint(2, 6), r.randint(2, 7)
    return f"""
    input x: f32[{c}, {h}, {w}]
    constant f: f32[{o}, {c}, 3, 3]
    p[c: {c}, i: {h + 2}, j: {w + 2}] = select(i >= 1 and i < {h + 1} and j >= 1 and j < {w + 1}, x[c, i - 1, j - 1], 0)
    y[o: {o}, i: {h}, j: {w}] = sum[c: {c}, r: 3, s: 3](p[c, i + r, j + s] * f[o, c, r, s])
    return y"""


@_maker
def strided_convolution(r: Random) -> str:
    c, o, n = r.randint(1, 3), r.randint(1, 4), r.randint(3, 12)
    return f"""
    input x: f32[{c}, {2 * n + 1}]
    input f: f32[{o}, {c}, 3]
    q[c: {c}, i: {2 * n + 1}] = x[c, i] + 1
    y[o: {o}, i: {n}] = sum[c: {c}, r: 3](q[c, 2 * i + r] * f[o, c, r])
    return y"""


@_maker
def pooling(r: Random) -> str:
    h, w = r.randint(1, 6), r.randint(1, 8)
    return f"""
    input x: f32[{2 * h}, {2 * w}]
    a[i: {2 * h}, j: {2 * w}] = max(x[i, j], 0)
    y[i: {h}, j: {w}] = max[r: 2, s: 2](a[2 * i + r, 2 * j + s])
    return y"""


@_maker
def two_outputs(r: Random) -> str:
    m, n = r.randint(1, 9), r.randint(1, 21)
    return f"""
    input x: f32[{m}, {n}]
    t[i: {m}, j: {n}] = x[i, j] * x[i, j]
    a[i: {m}, j: {n}] = t[i, j] + 1
    b[i: {m}] = sum[k: {n}](t[i, k])
    return a, b"""


@_maker
def output_that_is_read(r: Random) -> str:
    m, n = r.randint(1, 9), r.randint(1, 21)
    return f"""
    input x: i32[{m}, {n}]
    a[i: {m}, j: {n}] = x[i, j] * 3
    b[j: {n}] = min[k: {m}](a[k, j] + 1)
    return a, b"""


@_maker
def whole_reduction(r: Random) -> str:
    n = r.randint(1, 50)
    return f"""
    input x: f32[{n}]
    m[] = max[k: {n}](x[k])
    y[i: {n}] = x[i] - m[]
    return y"""


@_maker
def reversal(r: Random) -> str:
    n = r.randint(1, 33)
    return f"""
    input x: f32[{n}]
    a[i: {n}] = x[i] * 2
    y[i: {n}] = a[{n - 1} - i] + x[i]
    return y"""


@_maker
def flattening(r: Random) -> str:
    m, n = r.randint(1, 7), r.randint(1, 9)
    return f"""
    input x: f32[{m}, {n}]
    a[i: {m}, j: {n}] = x[i, j] + 1
    y[i: {m * n}] = a[i // {n}, i % {n}] * 2
    return y"""


@_maker
def several_tensors(r: Random) -> str:
    n = r.randint(1, 30)
    return f"""
    input x: f32[{n}]
    p, q[i: {n}] = x[i] + 1, x[i] * 2
    y[i: {n}] = p[i] * q[i]
    return y"""


@_maker
def diagonal(r: Random) -> str:
    n = r.randint(1, 12)
    return f"""
    input x: f32[{n}, {n}]
    a[i: {n}, j: {n}] = x[i, j] + x[j, i]
    d[i: {n}] = a[i, i]
    return d"""


@_maker
def diagonals_that_are_summed(r: Random) -> str:
    m, n, k = r.randint(1, 6), r.randint(1, 6), r.randint(1, 7)
    return f"""
    input x: f32[{m + n + 1}, {m + k}, {n}]
    input w: f32[{k}, {k + n}]
    a[i: {m + n + 1}, j: {m + k}, l: {n}] = x[i, j, l] + 1
    y[i: {m}, j: {n}] = sum[q: {k}](a[i + j + 1, i + q, j] * w[q, q + j])
    return y"""


@_maker
def mixed_dtypes(r: Random) -> str:
    m, k = r.randint(1, 13), r.randint(1, 17)
    return f"""
    input x: u8[{m}, {k}]
    input w: i8[{k}]
    a[i: {m}] = sum[k: {k}](i32(x[i, k]) * i32(w[k]))
    y[i: {m}] = f32(a[i]) * 0.5
    return y"""


@_maker
def folds(r: Random) -> str:
    m, n, d = r.randint(1, 5), r.randint(1, 9), r.randint(1, 6)
    return f"""
    input x: f32[{m}, {n}]
    input v: f32[{n}, {d}]
    a[i: {m}, j: {n}] = x[i, j] * 2
    fold[j: {n}] {{
        top[i: {m}]: f32 = -inf
        best[i: {m}, d: {d}]: f32 = 0
        let better = a[i, j] > top[i]
        top = max(top[i], a[i, j])
        best = select(better, v[j, d], best[i, d])
    }}
    y[i: {m}, d: {d}] = best[i, d] + top[i]
    return y"""


@_maker
def running_sums(r: Random) -> str:
    n = r.randint(1, 9)
    return f"""
    input x: f32[{n}, 4]
    fold[j: {n}] {{
        total[c: 4]: f32 = 0
        largest[c: 4]: f32 = 0
        total = total[c] + x[j, c]
        largest = max(largest[c], total[c] + x[j, c])
    }}
    return total, largest"""


@_maker
def joined_sums(r: Random) -> str:
    m, n, k = r.randint(1, 6), r.randint(2, 3), r.randint(1, 19)
    axes, first, second = r.choice(((f"c: {n}, i: {m}", "0, i", "1, i"), (f"i: {m}, c: {n}", "i, 0", "i, 1")))
    others = "select(c == 1, x[i, k] * 2, y[i, k])" if n == 3 else "x[i, k] * y[i, k]"
    return f"""
    input x: f32[{m}, {k}]
    input y: f32[{m}, {k}]
    a[i: {m}, k: {k}] = x[i, k] + 1
    t[{axes}] = sum[k: {k}](select(c == 0, a[i, k], {others}))
    p, q[i: {m}] = t[{first}], t[{second}] * 2
    return p, q"""


@_maker
def siblings(r: Random) -> str:
    m, k = r.randint(1, 9), r.randint(1, 19)
    index = r.choice(("i, k", "k, i"))
    shape = f"{m}, {k}" if index == "i, k" else f"{k}, {m}"
    return f"""
    input x: f32[{shape}]
    low[i: {m}] = min[k: {k}](x[{index}])
    high[i: {m}] = max[k: {k}](x[{index}])
    width[i: {m}] = high[i] - low[i]
    return low, width"""
