"""Models of ONNX written as text, and held against ONNX's own reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilesmith.graph.importers.onnx_file import stored
from tilesmith.graph.model import Model
from tilesmith.tensor.oracle.reference import evaluate

Array = np.ndarray[Any, Any]


def written(text: str, opset: int = 18) -> Any:
    """The ModelProto of a graph in ONNX's text form."""
    from onnx import parser

    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "own": 1]>\n{text}')


def computed(model: Model, *arrays: Array) -> list[Array]:
    """What a model gives for its inputs, by the oracle."""
    given = iter(arrays)
    return list(
        evaluate(
            model.program,
            [model.constants[i.tensor.name] if i.constant else stored(next(given)) for i in model.program.inputs],
        )
    )


def agrees(model: Model, proto: Any, *arrays: Array, close: float = 1e-5) -> None:
    """Asserts that a model gives what ONNX's reference gives."""
    from onnx.reference import ReferenceEvaluator

    names = [one.name for one in proto.graph.input]
    _same(computed(model, *arrays), ReferenceEvaluator(proto).run(None, dict(zip(names, arrays, strict=True))), close)


def agrees_with_runtime(model: Model, path: Path, *arrays: Array, close: float = 1e-4) -> None:
    """Asserts that a model gives what onnxruntime gives."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {one.name: array for one, array in zip(session.get_inputs(), arrays, strict=True)}
    _same(computed(model, *arrays), session.run(None, feeds), close)


def _same(found: list[Array], wanted: list[Any], close: float) -> None:
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        most = np.abs(want).max()
        assert most > 0
        np.testing.assert_allclose(got, want, rtol=close, atol=close * most)
