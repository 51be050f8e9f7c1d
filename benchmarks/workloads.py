"""The rows of the tables: one line each. Groups are named as on the command line."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drafts import workload

from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

Sizes = Mapping[str, int]
DRAWN_LESS = 0.05  # how much less is asked at drawn sizes


@dataclass(frozen=True)
class Row:
    """One workload: an operator of the library at given sizes, or "draft:17", what the seed 17 draws (drafts.py).

    `trials`: how many it is tuned with unless told otherwise.
    """

    group: str
    operator: str
    sizes: Sizes = field(hash=False)
    trials: int = 256
    constants: tuple[str, ...] = ()
    bar: float | None = None  # the ratio over the best peer that is asked of it
    share: float | None = None  # the share of the ceiling that is asked of it

    @property
    def name(self) -> str:
        """ "matmul 1024x1024x1024"; constant operands are named."""
        fixed = f" ({', '.join(self.constants)} constant)" if self.constants else ""
        return f"{self.operator} {'x'.join(str(size) for size in self.sizes.values())}{fixed}".strip()

    def program(self) -> Program:
        """The program that is tuned."""
        if self.operator.startswith("draft:"):
            return workload(self.operator).program()
        return ops.OPERATORS[self.operator](**self.sizes, constants=self.constants)


def matmul(group: str, m: int, n: int, k: int, **options: object) -> Row:
    """A matmul row."""
    return Row(group, "matmul", {"m": m, "n": n, "k": k}, **options)  # type: ignore[arg-type]


def batch_matmul(group: str, b: int, m: int, n: int, k: int, **options: object) -> Row:
    """A row of independent matmuls."""
    return Row(group, "batch_matmul", {"b": b, "m": m, "n": n, "k": k}, **options)  # type: ignore[arg-type]


def rows_and_columns(group: str, operator: str, rows: int, columns: int, **options: object) -> Row:
    """A row of an operator on a matrix."""
    return Row(group, operator, {"rows": rows, "columns": columns}, **options)  # type: ignore[arg-type]


ROWS: tuple[Row, ...] = (
    # first: what the first release promises
    matmul("first", 1024, 1024, 1024, trials=128, bar=1.0, share=0.8),
    Row("first", "matmul_bias_relu", {"m": 512, "n": 1024, "k": 1024}, trials=128, bar=1.05),
    Row("first", "silu_add", {"size": 1 << 24}, trials=32, share=0.85),
    # matmul, both operands dynamic
    matmul("matmul", 512, 512, 512),
    matmul("matmul", 1024, 1024, 1024),
    matmul("matmul", 2048, 2048, 2048),
    matmul("matmul", 4096, 64, 4096),
    matmul("matmul", 128, 768, 3072),
    # sizes that nothing divides
    matmul("ragged", 1009, 1013, 1019),
    matmul("ragged", 197, 768, 768),
    matmul("ragged", 49, 512, 4608),
    matmul("ragged", 333, 77, 1500),
    matmul("ragged", 1021, 127, 509),
    # few rows, constant weights
    *(matmul("skinny", m, n, 4096, constants=("B",)) for n in (4096, 1024) for m in (1, 2, 4, 8, 16)),
    batch_matmul("batch", 12, 128, 128, 64),
    batch_matmul("batch", 12, 128, 64, 128),
    batch_matmul("batch", 96, 64, 64, 64),
    # epilogues
    Row("fused", "matmul_bias_gelu", {"m": 128, "n": 3072, "k": 768}),
    Row("fused", "matmul_bias_relu", {"m": 512, "n": 1024, "k": 1024}),
    Row("fused", "matmul_residual_layer_norm", {"m": 128, "n": 768, "k": 768}),
    # moved by memory
    rows_and_columns("memory", "softmax", 4096, 1024),
    rows_and_columns("memory", "layer_norm", 4096, 768),
    Row("memory", "silu_add", {"size": 1 << 24}),
    rows_and_columns("memory", "row_sum", 4096, 4096),
    rows_and_columns("memory", "column_sum", 4096, 4096),
    rows_and_columns("memory", "transpose", 4096, 4096),
    # called often
    matmul("small", 64, 64, 64),
    matmul("small", 1, 256, 256),
    matmul("small", 8, 128, 128),
    rows_and_columns("small", "bias_relu", 32, 128),
    # programs that nobody chose
    *(Row("any", f"draft:{seed}", {}, bar=0.8) for seed in range(20)),
)  # fmt: skip


def groups() -> tuple[str, ...]:
    """The names of all groups, in order."""
    return tuple(dict.fromkeys(row.group for row in ROWS))


def drawn(group: str, seed: int, count: int = 5) -> tuple[Row, ...]:
    """Rows of the group's own operators at sizes drawn by `seed`: what was tuned for the named sizes alone would show."""
    generator = random.Random(f"{group} {seed}")
    models = [row for row in ROWS if row.group == group]
    return tuple(_redrawn(generator.choice(models), generator) for _ in range(count))


def _redrawn(row: Row, generator: random.Random) -> Row:
    """Each size between 2/3 and 4/3 of the model's; sizes below 16 stay. Another draft for a draft."""
    if row.operator.startswith("draft:"):
        return replace(row, operator=f"draft:{generator.randrange(1000, 1_000_000)}")
    sizes = {name: _near(size, generator) for name, size in row.sizes.items()}
    bar, share = (None if asked is None else asked - DRAWN_LESS for asked in (row.bar, row.share))
    return replace(row, sizes=sizes, bar=bar, share=share)


def _near(size: int, generator: random.Random) -> int:
    return size if size < 16 else round(size * 2 ** generator.uniform(-0.585, 0.415))
