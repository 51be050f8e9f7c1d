"""Products of rows that stand in groups, each with a matrix of its own, as the experts of a mixture have them."""

from __future__ import annotations

from ...common.errors import ArgumentError
from ...tensor.build import compute, literal, select
from ...tensor.dtype import i64
from ...tensor.expr import Expr
from ...tensor.ops.movement import clamped
from ...tensor.program import Tensor
from .function import function
from .indexing import places_among, take
from .linear import matmul
from .reductions import scan
from .shape import reshape

_ROWS = 16  # the most rows of a block


@function
def grouped_matmul(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Each row of x, (rows, k), times the matrix of its group, of (groups, k, columns): group g holds the rows from
    ends[g - 1] (0 for the first) to ends[g] - 1. Rows behind the last group are zero.

    How many rows a group has is known only when it runs, so each group is cut into blocks of as many rows; what a group's last
    block has beyond the group is computed and not read. That is how vLLM's fused mixture of experts makes shapes static."""
    _check(x, weights, ends)
    rows, groups = x.shape[0], weights.shape[0]
    size = _block(rows, groups)
    blocks = (rows + groups * (size - 1)) // size  # as many as there are in the worst case
    counts = compute((groups,), lambda g: (_end(ends, g) - _begin(ends, g) + (size - 1)) // size, name="blocks")
    last = scan(counts, 0)  # the number behind the last block of each group
    group_of = places_among(last, _numbers(blocks), right=True)

    def row_of(block: Expr, row: Expr) -> Expr:
        group = clamped(group_of[block], groups)
        return _begin(ends, group) + (block - last[group] + counts[group]) * size + row

    chosen = compute((blocks, size), row_of, name="rows")
    products = matmul(take(x, chosen, negative=False), take(weights, group_of, negative=False))
    return _in_order(products, places_among(ends, _numbers(rows), right=True), ends, last, counts)


def _in_order(products: Tensor, group_of: Tensor, ends: Tensor, last: Tensor, counts: Tensor) -> Tensor:
    """Rows of blocks, (blocks, size, columns), in the order of the rows that they were made of."""
    blocks, size, columns = products.shape
    groups = ends.shape[0]

    def place(row: Expr) -> Expr:
        group = clamped(group_of[row], groups)
        return (last[group] - counts[group]) * size + row - _begin(ends, group)

    places = compute(group_of.shape, place, name="places")
    flat = reshape(products, (blocks * size, columns))

    def element(row: Expr, column: Expr) -> Expr:
        found = flat[clamped(places[row], blocks * size), column]
        return select(group_of[row] < groups, found, literal(0, found.dtype))

    return compute((*group_of.shape, columns), element)


def _begin(ends: Tensor, group: Expr) -> Expr:
    return select(group > 0, ends[clamped(group - 1, ends.shape[0])].cast(i64), literal(0, i64))


def _end(ends: Tensor, group: Expr) -> Expr:
    return ends[group].cast(i64)


def _numbers(count: int) -> Tensor:
    return compute((count,), lambda i: i.cast(i64))


def _block(rows: int, groups: int) -> int:
    """Rows of a block. More of them read weights less often, and more are computed for nothing: with as many rows to a group as
    there are by chance, blocks of half of these up to four, and larger ones where few are lost, were fastest in two threads of
    a Zen 4 (8 and 32 groups of 512 x 1408)."""
    each = rows // groups
    most = min(each // 2, max(each // 16, 4), _ROWS)
    return 1 << max(most.bit_length() - 1, 0)


def _check(x: Tensor, weights: Tensor, ends: Tensor) -> None:
    if len(x.shape) != 2 or len(weights.shape) != 3 or ends.shape != weights.shape[:1]:
        raise ArgumentError(
            "groups of rows do not fit", expected="(rows, k) times (groups, k, columns) with an end for each group",
            found=f"{x.shape} times {weights.shape} with ends of {ends.shape}",
        )  # fmt: skip
