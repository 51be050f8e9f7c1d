"""ONNX's recurrent layers, unrolled: what the inputs of all steps contribute is one product, and each step is a product and
stages. Gates follow each other in ONNX's order: input, output, forget, cell of an LSTM; update, reset, new of a GRU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....tensor import build
from ....tensor.build import compute, maximum, minimum, reduce_axis, select, sigmoid, tanh
from ....tensor.composites import expm1, softplus
from ....tensor.dtype import i64
from ....tensor.expr import Expr
from ....tensor.precision import precise, wide
from ....tensor.program import Tensor
from ...functions import shape
from ...functions.creation import full
from ...functions.function import NotCovered, function
from ...functions.linear import linear
from .registry import Node, onnx

Activation = Callable[[Expr], Expr]


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    """An activation of a layer, by its name in small letters."""

    def of(value: float | None, default: float) -> float:
        return default if value is None else value

    found: dict[str, Activation] = {
        "sigmoid": sigmoid,
        "tanh": tanh,
        "relu": lambda x: maximum(x, 0),
        "affine": lambda x: x * of(alpha, 1.0) + of(beta, 0.0),
        "leakyrelu": lambda x: select(x < 0, x * of(alpha, 0.01), x),
        "thresholdedrelu": lambda x: select(x > of(alpha, 1.0), x, build.literal(0, x.dtype)),
        "scaledtanh": lambda x: tanh(x * of(beta, 1.0)) * of(alpha, 1.0),
        "hardsigmoid": lambda x: minimum(maximum(x * of(alpha, 0.2) + of(beta, 0.5), 0), 1),
        "elu": lambda x: select(x < 0, expm1(x) * of(alpha, 1.0), x),
        "softsign": lambda x: x / (build.absolute(x) + 1),
        "softplus": softplus,
    }
    if name.lower() not in found:
        raise NotCovered(f"the activation {name}")
    return found[name.lower()]


@dataclass(frozen=True)
class _Layer:
    """One direction of a layer. `weights` are those of the states; their biases, or those of the peepholes, may be missing."""

    inputs: Tensor  # [steps, batch, gates * size], with the biases of the inputs
    weights: Tensor  # [gates * size, size]
    biases: Tensor | None
    peepholes: Tensor | None
    lengths: Tensor | None
    activations: Sequence[Activation]
    clip: float
    after: bool  # a GRU's linear_before_reset
    coupled: bool  # an LSTM's input_forget

    @property
    def size(self) -> int:
        return self.weights.shape[1]

    def dots(self, h: Tensor, first: int, gates: int) -> Tensor:
        """Computes what a state contributes to some gates."""
        k, start = reduce_axis(self.size, "k"), first * self.size
        return compute(
            (h.shape[0], gates * self.size),
            lambda n, j: build.sum(wide(h[n, k]) * wide(self.weights[j + start, k]), k),
            name=f"dots_{first}",
        )

    def given(self, step: int, n: Expr, j: Expr, gate: int) -> Expr:
        """Computes what an input contributes to a gate."""
        return precise(self.inputs[step, n, j + gate * self.size])

    def bias(self, j: Expr, gate: int, value: Expr) -> Expr:
        """A value with the bias of a gate."""
        return value if self.biases is None else value + precise(self.biases[j + gate * self.size])

    def peeped(self, j: Expr, number: int, cell: Expr, value: Expr) -> Expr:
        """A value with what a gate sees of the cell."""
        return value if self.peepholes is None else value + precise(self.peepholes[j + number * self.size]) * cell

    def clipped(self, value: Expr) -> Expr:
        """A value within the limits before activations."""
        return minimum(maximum(value, -self.clip), self.clip) if self.clip else value

    def lasting(self, step: int, n: Expr, new: Expr, old: Expr) -> Expr:
        """The state behind a step: the old one behind the end of a sequence."""
        return new if self.lengths is None else select(self.lengths[n].cast(i64) > step, new, old)


@function
def _lstm_step(layer: _Layer, step: int, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    dots = layer.dots(h, 0, 4)
    f, g, last = layer.activations

    def gate(n: Expr, j: Expr, number: int) -> Expr:
        return layer.bias(j, number, layer.given(step, n, j, number) + dots[n, j + number * layer.size])

    def cell(n: Expr, j: Expr) -> Expr:
        old = precise(c[n, j])
        keep = f(layer.clipped(layer.peeped(j, 2, old, gate(n, j, 2))))
        enter = 1 - keep if layer.coupled else f(layer.clipped(layer.peeped(j, 0, old, gate(n, j, 0))))
        new = keep * old + enter * g(layer.clipped(gate(n, j, 3)))
        return layer.lasting(step, n, new.cast(c.dtype), c[n, j])

    cells = compute(c.shape, cell, name="cell")

    def hidden(n: Expr, j: Expr) -> Expr:
        new = precise(cells[n, j])
        value = f(layer.clipped(layer.peeped(j, 1, new, gate(n, j, 1)))) * last(new)
        return layer.lasting(step, n, value.cast(h.dtype), h[n, j])

    return compute(h.shape, hidden, name="hidden"), cells


@function
def _gru_step(layer: _Layer, step: int, h: Tensor, c: Tensor | None) -> tuple[Tensor, None]:
    f, g = layer.activations
    dots = layer.dots(h, 0, 3 if layer.after else 2)

    def gate(n: Expr, j: Expr, number: int) -> Expr:
        value = layer.given(step, n, j, number) + dots[n, j + number * layer.size]
        return f(layer.clipped(layer.bias(j, number, value)))

    if not layer.after:
        reset = compute(h.shape, lambda n, j: (gate(n, j, 1) * precise(h[n, j])).cast(h.dtype), name="reset")
        news = layer.dots(reset, 2, 1)

    def new(n: Expr, j: Expr) -> Expr:
        state = layer.bias(j, 2, dots[n, j + 2 * layer.size] if layer.after else news[n, j])
        state = gate(n, j, 1) * state if layer.after else state
        return g(layer.clipped(layer.given(step, n, j, 2) + state))

    def hidden(n: Expr, j: Expr) -> Expr:
        update = gate(n, j, 0)
        value = (1 - update) * new(n, j) + update * precise(h[n, j])
        return layer.lasting(step, n, value.cast(h.dtype), h[n, j])

    return compute(h.shape, hidden, name="hidden"), None


@function
def _rnn_step(layer: _Layer, step: int, h: Tensor, c: Tensor | None) -> tuple[Tensor, None]:
    dots = layer.dots(h, 0, 1)

    def hidden(n: Expr, j: Expr) -> Expr:
        value = layer.bias(j, 0, layer.given(step, n, j, 0) + dots[n, j])
        return layer.lasting(step, n, layer.activations[0](layer.clipped(value)).cast(h.dtype), h[n, j])

    return compute(h.shape, hidden, name="hidden"), None


_STEPS: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {
    "LSTM": _lstm_step,
    "GRU": _gru_step,
    "RNN": _rnn_step,
}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@onnx("LSTM", "GRU", "RNN")
def recurrent(node: Node) -> tuple[Tensor, ...]:
    """(the states of all steps, the last one, the last cell)"""
    x, first, cells = node.tensor(0), node.maybe(5), node.maybe(6)
    batch_first = bool(node.integer("layout"))
    if batch_first:
        x = shape.transpose(x, 0, 1)
        first, cells = (None if t is None else shape.transpose(t, 0, 1) for t in (first, cells))
    direction, size = node.text("direction", "forward"), node.shape(2)[2]
    directions = 2 if direction == "bidirectional" else 1
    outputs, ends, last_cells = [], [], []
    for number in range(directions):
        layer = _layer(node, x, number, directions)
        h, c = (
            full((x.shape[1], size), 0.0, x.dtype) if t is None else shape.select_axis(t, 0, number)
            for t in (first, cells)
        )
        backward = direction == "reverse" or number == 1
        steps, end, cell = _walk(node.operator, layer, h, c if node.operator == "LSTM" else None, backward)
        outputs.append(steps)
        ends.append(end)
        last_cells += [] if cell is None else [cell]
    found = [shape.stack(outputs, 1), shape.stack(ends, 0), *([shape.stack(last_cells, 0)] if last_cells else [])]
    if batch_first:
        found = [shape.permute(found[0], [2, 0, 1, 3]), *(shape.transpose(t, 0, 1) for t in found[1:])]
    return tuple(found)


def _layer(node: Node, x: Tensor, number: int, directions: int) -> _Layer:
    """One direction of a node's attributes and weights."""
    gates = _GATES[node.operator]
    weights, states = (shape.select_axis(node.tensor(place), 0, number) for place in (1, 2))
    rows = weights.shape[0]
    of_inputs = of_states = None
    if node.has(3):
        both = shape.select_axis(node.tensor(3), 0, number)
        of_inputs, of_states = shape.slice_axis(both, 0, 0, rows), shape.slice_axis(both, 0, rows, 2 * rows)
    names = node.attributes.get("activations") or _USUAL[node.operator] * directions
    each = len(names) // directions
    alphas, betas = (list(node.attributes.get(f"activation_{one}", [])) for one in ("alpha", "beta"))
    chosen = [
        _activation(names[n], alphas[n] if n < len(alphas) else None, betas[n] if n < len(betas) else None)
        for n in range(number * each, (number + 1) * each)
    ]
    peepholes = shape.select_axis(node.tensor(7), 0, number) if gates == 4 and node.has(7) else None
    return _Layer(
        linear(x, weights, of_inputs), states, of_states, peepholes, node.maybe(4), chosen, node.real("clip"),
        bool(node.integer("linear_before_reset")), bool(node.integer("input_forget")),
    )  # fmt: skip


def _walk(
    kind: str, layer: _Layer, h: Tensor, c: Tensor | None, backward: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(outputs of all steps, 0 behind the end of a sequence, the last state, the last cell)"""
    steps = layer.inputs.shape[0]
    outputs = [h] * steps
    for step in reversed(range(steps)) if backward else range(steps):
        h, c = _STEPS[kind](layer, step, h, c)
        outputs[step] = h
    whole = shape.stack(outputs, 0)
    return _ended(whole, layer.lengths) if layer.lengths is not None else whole, h, c


@function
def _ended(x: Tensor, lengths: Tensor) -> Tensor:
    zero = build.literal(0, x.dtype)
    return compute(x.shape, lambda t, n, j: select(lengths[n].cast(i64) > t, x[t, n, j], zero))
