"""Models in fewer bits: `mobilenet_v2@qdq` is a model of the zoo in a scheme. What each contender is given of it.

qdq, qdq7   ONNX Runtime's static quantisation: data u8, weights i8 by channel, in 8 bits or in 7 (`reduce_range`, which it
            asks for on x86 without VNNI, where its sums of two products saturate). All read the same file
bf16        tilesmith.quantize(.., "bf16"), and torch's module in bfloat16
int4        tilesmith.quantize(.., "int4", group=64), and MatMulNBits of ONNX Runtime with the same groups
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tilesmith
from tilesmith.graph.model import Model
from zoo.names import scheme_of

GROUP = 64


@dataclass(frozen=True)
class Scheme:
    """Makes one in fewer bits of a model in float. `ours`: of our own program, or none where it is read from the file of
    ONNX. `onnx`: rewrites that file, given the inputs, or none where there is no such form."""

    ours: Callable[[Model], Model] | None = None
    onnx: Callable[[Path, Sequence[np.ndarray]], None] | None = None


def _static(path: Path, inputs: Sequence[np.ndarray], *, reduced: bool) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Once(CalibrationDataReader):  # type: ignore[misc]
        """The inputs, once."""

        def __init__(self, feed: dict[str, np.ndarray]) -> None:
            self.left = [feed]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.left.pop() if self.left else None

    import onnx

    names = [one.name for one in onnx.load(path, load_external_data=False).graph.input]
    with tempfile.TemporaryDirectory() as folder:
        whole, ready = Path(folder) / "whole.onnx", Path(folder) / "ready.onnx"
        onnx.save(onnx.load(path), whole)
        quant_pre_process(whole, ready, skip_symbolic_shape=True)
        has_filters = any(node.op_type == "Conv" for node in onnx.load(ready).graph.node)
        quantize_static(
            ready, path, Once(dict(zip(names, inputs, strict=True))), quant_format=QuantFormat.QDQ, per_channel=True,
            reduce_range=reduced, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            op_types_to_quantize=None if has_filters else ["MatMul", "Gemm"],
        )  # fmt: skip


def _four_bits(path: Path, inputs: Sequence[np.ndarray]) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    made = MatMulNBitsQuantizer(onnx.load(path), bits=4, block_size=GROUP, is_symmetric=True)
    made.process()
    made.model.save_model_to_file(str(path))


SCHEMES: dict[str, Scheme] = {
    "qdq": Scheme(onnx=lambda path, inputs: _static(path, inputs, reduced=False)),
    "qdq7": Scheme(onnx=lambda path, inputs: _static(path, inputs, reduced=True)),
    "bf16": Scheme(ours=lambda model: tilesmith.quantize(model, "bf16")),
    "int4": Scheme(ours=lambda model: tilesmith.quantize(model, "int4", group=GROUP), onnx=_four_bits),
}


def narrow_onnx(name: str, path: Path, inputs: Sequence[np.ndarray]) -> None:
    """Writes a file of ONNX anew in the scheme of a name."""
    scheme = SCHEMES[scheme_of(name)]
    if scheme.onnx is None:
        path.unlink(missing_ok=True)
        raise ValueError(f"no runtime reads ONNX in {scheme_of(name)}")
    scheme.onnx(path, inputs)


def narrow_ours(name: str, model: Callable[[], Model], path: Path) -> Model:
    """Our own program in the scheme of a name: of the model in float, or of the file of ONNX."""
    scheme = SCHEMES[scheme_of(name)]
    return tilesmith.from_onnx(path) if scheme.ours is None else scheme.ours(model())


class InBfloat16(torch.nn.Module):
    """A module in bfloat16 for inputs and results in float32."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner.bfloat16()

    def forward(self, *inputs: torch.Tensor) -> Any:
        """The results of the module."""
        found = self.inner(*(x.bfloat16() if x.is_floating_point() else x for x in inputs))
        return tuple(t.float() for t in found) if isinstance(found, tuple) else found.float()
