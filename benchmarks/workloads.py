"""The rows of the tables: one line each. Groups are named as on the command line."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drafts import workload
from narrow import programs
from weights import weights_program

from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

Sizes = Mapping[str, int | str | bool]
OPTIONS = (
    "kernel",
    "stride",
    "padding",
    "dilation",
    "groups",
    "layout",
    "residual",
    "causal",
    "requantised",
    "depthwise",
    "left",
    "right",
    "bits",
)  # shown with their names
DRAWN_LESS = 0.05  # how much less is asked at drawn sizes
MEANS = {  # the geometric mean of the ratios that is asked of a group
    "matmul": 1.10, "ragged": 1.15, "skinny": 1.15, "batch": 1.15, "fused": 1.25, "memory": 1.10, "conv": 1.15,
    "bf16": 1.15, "int8": 1.20, "weights": 1.30, "conv-other": 1.10, "depthwise": 1.30, "pooling": 1.50, "any": 1.20,
    "bf16-conv": 1.30, "int8-conv": 1.30, "bf16-attention": 1.30,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One workload: an operator of the library at given sizes, or "draft:17", what the seed 17 draws (drafts.py).

    `trials`: how many it is tuned with unless told otherwise. `direct`: no convolution by fewer products (Winograd). `apart`:
    it does not count in the geometric mean of its group. `beside`: another row whose kernel of ours runs in the same rounds.
    """

    group: str
    operator: str
    sizes: Sizes = field(hash=False)
    trials: int = 256
    constants: tuple[str, ...] = ()
    bar: float | None = None  # the ratio over the best peer that is asked of it
    share: float | None = None  # the share of the ceiling that is asked of it
    direct: bool = False
    apart: bool = False
    beside: Beside | None = None

    @property
    def name(self) -> str:
        """ "matmul 1024x1024x1024"; constant operands are named."""
        fixed = f" ({', '.join(self.constants)} constant)" if self.constants else ""
        sizes = "x".join(str(size) for name, size in self.sizes.items() if name not in OPTIONS)
        options = "".join(f" {name}={value}" for name, value in self.sizes.items() if name in OPTIONS)
        return f"{self.operator} {sizes}{options}{fixed}{' directly' if self.direct else ''}".strip()

    @property
    def rounded(self) -> bool:
        """Says whether results are rounded to 8 bits, or weights to bfloat16."""
        rounded = ("weights", "convolution", "bf16_attention")
        return self.sizes.get("left") == "bf16" or self.operator in rounded or bool(self.sizes.get("requantised"))

    @property
    def of_bytes(self) -> bool:
        """Says whether products of bytes are summed."""
        return self.operator in ("product", "convolution") and self.sizes.get("left") != "bf16"

    def program(self) -> Program:
        """The program that is tuned."""
        if self.operator.startswith("draft:"):
            return workload(self.operator).program()
        if self.operator == "weights":
            return weights_program(**self.sizes)  # type: ignore[arg-type]
        if self.operator == "product":
            return programs.product(**self.sizes, constants=self.constants)  # type: ignore[arg-type]
        if self.operator == "convolution":
            return programs.convolution(**self.sizes)  # type: ignore[arg-type]
        if self.operator == "bf16_attention":
            return programs.attention(**self.sizes)  # type: ignore[arg-type]
        return ops.OPERATORS[self.operator](**self.sizes, constants=self.constants)


@dataclass(frozen=True)
class Beside:
    """Another row, and the share of its rate, in operations a second, that is asked."""

    row: Row
    share: float


def narrow(group: str, m: int, n: int, k: int, left: str, right: str, requantised: bool = False) -> Row:
    """A product of narrow elements with constant weights, of bytes perhaps with results in bytes."""
    sizes: dict[str, object] = {"m": m, "n": n, "k": k, "left": left, "right": right}
    if requantised:
        return Row(group, "product", {**sizes, "requantised": True}, constants=("B", "scale"), bar=1.0)
    return Row(group, "product", sizes, constants=("B",), bar=1.0)


def matmul(group: str, m: int, n: int, k: int, **options: object) -> Row:
    """A matmul row."""
    return Row(group, "matmul", {"m": m, "n": n, "k": k}, **options)  # type: ignore[arg-type]


def batch_matmul(group: str, b: int, m: int, n: int, k: int, **options: object) -> Row:
    """A row of independent matmuls."""
    return Row(group, "batch_matmul", {"b": b, "m": m, "n": n, "k": k}, **options)  # type: ignore[arg-type]


def rows_and_columns(group: str, operator: str, rows: int, columns: int, **options: object) -> Row:
    """A row of an operator on a matrix."""
    return Row(group, operator, {"rows": rows, "columns": columns}, **options)  # type: ignore[arg-type]


def conv2d(
    group: str, c: int, h: int, w: int, o: int, operator: str = "conv2d", constants: tuple[str, ...] = ("W",),
    bar: float | None = None, **options: int | str | bool,
) -> Row:  # fmt: skip
    """A convolution of one image with constant filters."""
    return Row(group, operator, {"n": 1, "c": c, "h": h, "w": w, "o": o, **options}, constants=constants, bar=bar)


def depthwise(c: int, side: int, **options: int | str) -> Row:
    """A depthwise convolution of one square image with constant filters."""
    sizes: Sizes = {"n": 1, "c": c, "h": side, "w": side, **options}
    return Row("depthwise", "depthwise_conv2d", sizes, constants=("W",))


ROWS: tuple[Row, ...] = (
    # first: what the first release promises
    matmul("first", 1024, 1024, 1024, trials=128, bar=1.0, share=0.8),
    Row("first", "matmul_bias_relu", {"m": 512, "n": 1024, "k": 1024}, trials=128, bar=1.05),
    Row("first", "silu_add", {"size": 1 << 24}, trials=32, share=0.85),
    # matmul, both operands dynamic
    matmul("matmul", 512, 512, 512, bar=1.0),
    matmul("matmul", 1024, 1024, 1024, bar=1.0, share=0.88),
    matmul("matmul", 2048, 2048, 2048, bar=1.0, share=0.88),
    matmul("matmul", 4096, 64, 4096, bar=1.0),
    matmul("matmul", 128, 768, 3072, bar=1.0),
    # sizes that nothing divides
    matmul("ragged", 1009, 1013, 1019, beside=Beside(matmul("ragged", 1024, 1024, 1024), 0.93)),
    matmul("ragged", 197, 768, 768),
    matmul("ragged", 49, 512, 4608),
    matmul("ragged", 333, 77, 1500),
    matmul("ragged", 1021, 127, 509),
    # few rows, constant weights
    *(
        matmul("skinny", m, n, 4096, constants=("B",), **({"share": 0.95, "apart": True} if m == 1 else {"bar": 1.0}))
        for n in (4096, 1024)
        for m in (1, 2, 4, 8, 16)
    ),
    batch_matmul("batch", 12, 128, 128, 64),
    batch_matmul("batch", 12, 128, 64, 128),
    batch_matmul("batch", 96, 64, 64, 64),
    # epilogues
    Row("fused", "matmul_bias_gelu", {"m": 128, "n": 3072, "k": 768}),
    Row("fused", "matmul_bias_relu", {"m": 512, "n": 1024, "k": 1024}),
    Row("fused", "matmul_residual_layer_norm", {"m": 128, "n": 768, "k": 768}),
    # moved by memory
    rows_and_columns("memory", "softmax", 4096, 1024, bar=1.0, share=0.9),
    rows_and_columns("memory", "layer_norm", 4096, 768, bar=1.0, share=0.9),
    Row("memory", "silu_add", {"size": 1 << 24}, bar=1.0, share=0.9),
    rows_and_columns("memory", "row_sum", 4096, 4096, bar=1.0, share=0.9),
    rows_and_columns("memory", "column_sum", 4096, 4096, bar=1.0, share=0.9),
    rows_and_columns("memory", "transpose", 4096, 4096, bar=1.0, share=0.6, apart=True),
    rows_and_columns("memory", "bias_gelu", 4096, 3072, bar=1.0, share=0.9),
    # called often
    matmul("small", 64, 64, 64, bar=1.0),
    matmul("small", 1, 256, 256, bar=1.0),
    matmul("small", 8, 128, 128, bar=1.0),
    rows_and_columns("small", "bias_relu", 32, 128, bar=1.0),
    # images
    *(
        conv2d("conv", channels, side, side, channels, kernel=3, padding=1, layout=layout)
        for layout in ("nchw", "nhwc")
        for channels, side in ((64, 56), (128, 28), (256, 14), (512, 7))
    ),
    replace(
        conv2d("conv-direct", 64, 56, 56, 64, kernel=3, padding=1, layout="nhwc"), share=0.85, direct=True
    ),
    conv2d("conv-other", 3, 224, 224, 64, kernel=7, stride=2, padding=3),
    conv2d("conv-other", 64, 56, 56, 256, kernel=1),
    conv2d("conv-other", 256, 56, 56, 128, kernel=1, stride=2),
    conv2d("conv-other", 64, 28, 28, 64, kernel=5, padding=2),
    conv2d("conv-other", 32, 56, 56, 32, kernel=3, padding=2, dilation=2),
    *(
        depthwise(c, side, kernel=kernel, stride=stride, padding=kernel // 2, layout=layout)
        for layout in ("nchw", "nhwc")
        for c, side, kernel, stride in ((32, 112, 3, 1), (144, 56, 3, 2), (960, 7, 3, 1), (384, 14, 5, 1))
    ),
    *(
        conv2d(
            "conv-fused", c, side, side, c, operator="conv2d_bias_relu", constants=("W", "bias"), bar=1.15,
            kernel=3, padding=1, residual=residual,
        )
        for c, side in ((64, 56), (256, 14))
        for residual in (False, True)
    ),
    Row("pooling", "max_pool2d", {"n": 1, "c": 64, "h": 112, "w": 112, "kernel": 3, "stride": 2, "padding": 1}),
    Row("pooling", "avg_pool2d", {"n": 1, "c": 128, "h": 56, "w": 56, "kernel": 2}),
    Row("pooling", "global_avg_pool2d", {"n": 1, "c": 2048, "h": 7, "w": 7}),
    # norms and attention
    rows_and_columns("norms", "layer_norm", 4096, 768, bar=1.0, share=0.9),
    rows_and_columns("norms", "rms_norm", 2048, 4096, bar=1.0, share=0.9),
    Row("norms", "group_norm", {"n": 32, "c": 64, "h": 56, "w": 56, "groups": 32}, bar=1.0, share=0.9),
    rows_and_columns("norms", "softmax", 12 * 512, 512, bar=1.0, share=0.9),
    Row("attention", "attention", {"heads": 12, "queries": 512, "keys": 512, "width": 64}, bar=1.1),
    Row("attention", "attention", {"heads": 8, "queries": 1024, "keys": 1024, "width": 64, "causal": True}, bar=1.1),
    # programs that nobody chose
    *(Row("any", f"draft:{seed}", {}, bar=0.8) for seed in range(20)),
)  # fmt: skip

# Those of ResNet-50, and of MobileNet v2 where each output has a filter of its own: channels, side, outputs, kernel, stride.
CONVOLUTIONS = (
    (64, 56, 64, 3, 1), (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (512, 7, 512, 3, 1), (128, 56, 128, 3, 2),
    (64, 56, 256, 1, 1), (256, 56, 64, 1, 1), (512, 28, 128, 1, 1), (256, 14, 1024, 1, 1), (2048, 7, 512, 1, 1),
    (256, 56, 512, 1, 2),
)  # fmt: skip
DEPTHWISE = ((96, 112, 3, 2), (144, 56, 3, 1), (384, 14, 3, 1))

# Rows of narrow elements. They stand apart from `ROWS`, of which other benchmarks draw programs by a seed.
NARROW: tuple[Row, ...] = (
    tuple(
        narrow(group, *sizes, a, b, again)
        for group, a, b, again in (
            ("bf16", "bf16", "bf16", False),
            ("int8", "u8", "i8", False),
            ("int8", "u8", "i8", True),
        )
        for sizes in (
            (512, 512, 512),
            (1024, 1024, 1024),
            (2048, 2048, 2048),
            (128, 768, 3072),
            (1009, 1013, 1019),
            (16, 4096, 4096),
        )
    )
    + tuple(
        Row("weights", "weights", {"m": m, "n": n, "k": 4096, "bits": bits}, constants=("w", "s"), bar=1.0)
        for bits in (4, 8)
        for n in (4096, 11008)
        for m in (1, 4, 16)
    )
    + tuple(
        Row(f"{group}-conv", "convolution", sizes, constants=("W",) if left == "bf16" else ("W", "scale"))
        for group, left in (("bf16", "bf16"), ("int8", "u8"))
        for sizes in (
            *(
                {"c": c, "h": h, "o": o, "kernel": kernel, "stride": stride, "left": left}
                for c, h, o, kernel, stride in CONVOLUTIONS
            ),
            *(
                {"c": c, "h": h, "o": c, "kernel": kernel, "stride": stride, "left": left, "depthwise": True}
                for c, h, kernel, stride in DEPTHWISE
            ),
        )
    )
    + tuple(
        Row(
            "bf16-attention",
            "bf16_attention",
            {"heads": heads, "length": length, "width": 64, "causal": causal},
            bar=1.3,
        )
        for heads, length, causal in ((12, 512, False), (8, 1024, True))
    )
)


def groups() -> tuple[str, ...]:
    """The names of all groups, in order."""
    return tuple(dict.fromkeys(row.group for row in (*ROWS, *NARROW)))


def drawn(group: str, seed: int, count: int = 5) -> tuple[Row, ...]:
    """Rows of the group's own operators at sizes drawn by `seed`: what was tuned for the named sizes alone would show."""
    generator = random.Random(f"{group} {seed}")
    models = [row for row in (*ROWS, *NARROW) if row.group == group]
    return tuple(_redrawn(generator.choice(models), generator) for _ in range(count))


def _redrawn(row: Row, generator: random.Random) -> Row:
    """Each size between 2/3 and 4/3 of the model's; sizes below 16 stay. Another draft for a draft. A share of another row's
    rate is asked of the model's own sizes alone."""
    if row.operator.startswith("draft:"):
        return replace(row, operator=f"draft:{generator.randrange(1000, 1_000_000)}")
    fixed = (
        (*OPTIONS, "c", "o") if {"groups", "depthwise"} & set(row.sizes) else OPTIONS
    )  # groups have to divide the channels
    sizes = {
        name: _near(size, generator) if name not in fixed and isinstance(size, int) else size
        for name, size in row.sizes.items()
    }
    bar, share = (None if asked is None else asked - DRAWN_LESS for asked in (row.bar, row.share))
    return replace(row, sizes=sizes, bar=bar, share=share, beside=None)


def _near(size: int, generator: random.Random) -> int:
    return size if size < 16 else round(size * 2 ** generator.uniform(-0.585, 0.415))
