"""Recurrent layers, unrolled: what the inputs of all steps contribute is one product, and each step is a product and a stage.

Gates of a step follow each other in the rows of the weights, in torch's order: input, forget, cell, output of an LSTM; reset,
update, new of a GRU.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...tensor import build
from ...tensor.build import compute, compute_several, maximum, reduce_axis, sigmoid, tanh
from ...tensor.expr import Expr
from ...tensor.precision import precise, wide
from ...tensor.program import Tensor
from .function import function
from .linear import linear
from .shape import concat, select_axis, stack, transpose, unsqueeze


def layers(
    kind: str, x: Tensor, hidden: Tensor, cells: Tensor | None, weights: Sequence[Tensor], biased: bool, count: int,
    bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """(outputs of the last layer, last hidden states, last cell states) of layers on one another.

    Args:
        x: [steps, batch, width], or [batch, steps, width] with `batch_first`; the batch may be missing.
        hidden, cells: [layers * directions, batch, size], the first states.
        weights: of each layer and direction that of the input, that of the state, and if `biased` their biases.
    """
    batched = len(x.shape) == 3
    if not batched:
        x, hidden = unsqueeze(x, 1), unsqueeze(hidden, 1)
        cells = None if cells is None else unsqueeze(cells, 1)
    sequence = transpose(x, 0, 1) if batch_first and batched else x
    each = 4 if biased else 2
    last_hidden: list[Tensor] = []
    last_cells: list[Tensor] = []
    for layer in range(count):
        found = []
        for direction in range(1 + bidirectional):
            number = layer * (1 + bidirectional) + direction
            own = weights[number * each : (number + 1) * each]
            first_cell = None if cells is None else select_axis(cells, 0, number)
            steps, h, c = _layer(kind, sequence, select_axis(hidden, 0, number), first_cell, own, direction == 1)
            found.append(steps)
            last_hidden.append(h)
            last_cells += [] if c is None else [c]
        sequence = concat(found, 2) if bidirectional else found[0]
    outputs = transpose(sequence, 0, 1) if batch_first and batched else sequence
    ends = [outputs, stack(last_hidden), stack(last_cells) if last_cells else None]
    if not batched:
        ends = [None if end is None else select_axis(end, 1, 0) for end in ends]
    assert ends[0] is not None and ends[1] is not None
    return ends[0], ends[1], ends[2]


def _layer(
    kind: str, x: Tensor, h: Tensor, c: Tensor | None, weights: Sequence[Tensor], backward: bool
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """(outputs of all steps, the last hidden state, the last cell state) of one direction of one layer."""
    of_inputs, of_states = weights[2] if len(weights) > 2 else None, weights[3] if len(weights) > 2 else None
    inputs = linear(x, weights[0], of_inputs)
    steps = x.shape[0]
    outputs: list[Tensor] = [h] * steps
    for step in reversed(range(steps)) if backward else range(steps):
        h, c = step_of(kind, inputs, step, h, c, weights[1], of_states)
        outputs[step] = h
    return stack(outputs), h, c


@function
def step_of(
    kind: str, inputs: Tensor, step: int, h: Tensor, c: Tensor | None, weights: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """One step: the new hidden and cell states, from what the inputs of all steps contribute to the gates."""
    k, size = reduce_axis(h.shape[1], "k"), h.shape[1]
    dots = compute(
        (h.shape[0], weights.shape[0]), lambda n, j: build.sum(wide(h[n, k]) * wide(weights[j, k]), k), name="dots"
    )

    def state(n: Expr, j: Expr, gate: int) -> Expr:
        value = dots[n, j + gate * size]
        return value if bias is None else value + precise(bias[j + gate * size])

    def both(n: Expr, j: Expr, gate: int) -> Expr:
        return precise(inputs[step, n, j + gate * size]) + state(n, j, gate)

    if c is not None:
        kept = c

        def cell(n: Expr, j: Expr) -> tuple[Expr, Expr]:
            new = sigmoid(both(n, j, 1)) * precise(kept[n, j]) + sigmoid(both(n, j, 0)) * tanh(both(n, j, 2))
            return (sigmoid(both(n, j, 3)) * tanh(new)).cast(h.dtype), new.cast(h.dtype)

        hidden, cells = compute_several(h.shape, cell, ["hidden", "cell"])
        return hidden, cells

    def gated(n: Expr, j: Expr) -> Expr:
        update = sigmoid(both(n, j, 1))
        new = tanh(precise(inputs[step, n, j + 2 * size]) + sigmoid(both(n, j, 0)) * state(n, j, 2))
        return ((1 - update) * new + update * precise(h[n, j])).cast(h.dtype)

    def plain(n: Expr, j: Expr) -> Expr:
        value = both(n, j, 0)
        return (tanh(value) if kind == "rnn_tanh" else maximum(value, 0)).cast(h.dtype)

    return compute(h.shape, gated if kind == "gru" else plain, name="hidden"), None
