"""What the GPU check measures: one line a program, with the bars of speed and what torch computes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tilesmith as ts
from tilesmith.tensor.program import Program

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Row:
    """One program.

    Attributes:
        name: for the table.
        make: the program at given sizes.
        sizes, small: on a GPU; in the emulator.
        peer: torch's function on the program's inputs; `compiled`: torch.compile is asked too.
        bar: the ratio over the fastest peer that is asked; `copy`: the share of the copy bandwidth that is asked.
        flops: whether FLOP/s or B/s are its figure.
    """

    name: str
    make: Callable[..., Program]
    sizes: Sizes = field(hash=False)
    small: Sizes = field(hash=False)
    peer: Callable[..., Any]
    bar: float = 1.0
    copy: float | None = None
    compiled: bool = False
    flops: bool = False


def gelu_chain(size: int) -> Program:
    """Four pointwise operators in a row: a scale, a shift, gelu, and a product with the input."""
    return ts.parse(f"""\
input x: f32[{size}]
s[i: {size}] = x[i] * 0.5 + 1
g[i: {size}] = s[i] * (0.5 + 0.5 * erf(s[i] * 0.7071067811865476))
y[i: {size}] = g[i] * x[i]
return y
""")


def _torch_chain(x: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(x * 0.5 + 1) * x


def _normed(x: Any, gamma: Any, beta: Any) -> Any:
    import torch

    return torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5)


def _convolved(x: Any, w: Any) -> Any:
    import torch

    return torch.nn.functional.conv2d(x, w, padding=1)


def _fused(a: Any, b: Any, bias: Any) -> Any:
    import torch

    return torch.nn.functional.gelu(torch.addmm(bias, a, b))


def conv(**sizes: int) -> Program:
    """3x3 with a border of zeros, as many channels out as in."""
    return ts.ops.conv2d(**sizes, o=sizes["c"], kernel=3, padding=1)


_WIDE = {"rows": 16384, "columns": 4096}
_NARROW = {"rows": 20, "columns": 72}
ROWS = (
    Row("matmul 4096", ts.ops.matmul, dict.fromkeys("mnk", 4096), {"m": 96, "n": 80, "k": 70},
        lambda a, b: a @ b, bar=0.90, flops=True),
    Row("matmul 1024", ts.ops.matmul, dict.fromkeys("mnk", 1024), {"m": 64, "n": 64, "k": 64},
        lambda a, b: a @ b, bar=0.90, flops=True),
    Row("softmax", ts.ops.softmax, _WIDE, _NARROW, lambda x: x.softmax(-1), copy=0.9, compiled=True),
    Row("layer norm", ts.ops.layer_norm, _WIDE, _NARROW, _normed, copy=0.9, compiled=True),
    Row("gelu chain", gelu_chain, {"size": 1 << 28}, {"size": 1000}, _torch_chain, copy=0.9, compiled=True),
    Row("row sum", ts.ops.row_sum, _WIDE, _NARROW, lambda x: x.sum(1), copy=0.9, compiled=True),
    Row("column sum", ts.ops.column_sum, _WIDE, _NARROW, lambda x: x.sum(0), copy=0.9, compiled=True),
    Row("transpose", ts.ops.transpose, {"rows": 16384, "columns": 16384}, {"rows": 40, "columns": 70},
        lambda x: x.t().contiguous(), copy=0.9, compiled=True),
    Row("conv2d 3x3", conv, {"n": 32, "c": 64, "h": 56, "w": 56}, {"n": 1, "c": 8, "h": 9, "w": 9},
        _convolved, bar=0.8, flops=True),
    Row("matmul + bias + gelu", ts.ops.matmul_bias_gelu, {"m": 4096, "n": 4096, "k": 1024}, {"m": 40, "n": 48, "k": 32},
        _fused, compiled=True, flops=True),
)  # fmt: skip


def correctness_programs() -> list[tuple[str, Program]]:
    """Small and ragged programs of every kind that the rules tell apart, two sizes each."""
    found = [(row.name, row.make(**row.small)) for row in ROWS]
    found += [
        ("batch matmul", ts.ops.batch_matmul(b=3, m=20, n=36, k=17)),
        ("attention", ts.ops.attention(heads=2, queries=20, keys=24, width=16)),
        ("matmul 33", ts.ops.matmul(m=33, n=31, k=65)),
        ("matmul bf16", ts.ops.matmul(m=33, n=40, k=24, dtype="bf16")),
        ("softmax 7x1000", ts.ops.softmax(rows=7, columns=1000)),
        ("row sum f16", ts.ops.row_sum(rows=9, columns=333, dtype="f16")),
        ("total", ts.ops.total(size=5000)),
        ("transpose 7x130", ts.ops.transpose(rows=7, columns=130)),
        ("argmax", ts.ops.argmax(shape=[9, 130])),
        ("max pool", ts.ops.max_pool2d(n=1, c=3, h=12, w=12)),
    ]
    return found
