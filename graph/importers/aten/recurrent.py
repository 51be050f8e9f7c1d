"""ATen's recurrent layers, unrolled over their steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....tensor.program import Tensor
from ...functions import recurrent
from ...functions.function import NotCovered
from .registry import CONVERTERS, aten


def _checked(train: bool, dropout: float) -> None:
    if train and dropout:
        raise NotCovered("random numbers: dropout in training; call module.eval()")


@aten("lstm.input")
def lstm(
    x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(outputs, last hidden states, last cell states)"""
    _checked(train, dropout)
    if len({h.shape for h in hx}) > 1:
        raise NotCovered("an LSTM with projections")
    outputs, hidden, cells = recurrent.layers(
        "lstm", x, hx[0], hx[1], params, has_biases, num_layers, bidirectional, batch_first
    )
    assert cells is not None
    return outputs, hidden, cells


def _simple(kind: str) -> Callable[..., tuple[Tensor, Tensor]]:
    def convert(
        x: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        _checked(train, dropout)
        outputs, hidden, _ = recurrent.layers(
            kind, x, hx, None, params, has_biases, num_layers, bidirectional, batch_first
        )
        return outputs, hidden

    return convert


for _kind in ("gru", "rnn_tanh", "rnn_relu"):
    CONVERTERS[f"{_kind}.input"] = _simple(_kind)
