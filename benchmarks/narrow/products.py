"""How libraries multiply bfloat16 and bytes, by the ways that keep constant weights in an order of their own.

    torch             bf16: matmul into a given result
    torch.onednn      oneDNN's linear layers with packed weights, as torch.compile freezes them; of bytes with results in f32,
                      for it has none in i32
    onnxruntime       bytes: MatMulInteger, with weights that it packs

Results that are bytes again are in requantised.py.

bfloat16 lie in arrays of uint16, as elsewhere in this project.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from narrow.requantised import requantised_call
from tilesmith.tuner.bench.images import ReturnedElsewhere, returning
from tilesmith.tuner.bench.onnxruntime_calls import bound_session

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], Any]


def torch_product(arrays: Arrays, outputs: Sequence[np.ndarray], kind: str) -> Call | None:
    """bf16 as a person writes it; torch has no product of unsigned with signed bytes."""
    import torch

    if kind != "bf16":
        return None
    a, b, out = (torch.from_numpy(x).view(torch.bfloat16) for x in (arrays["A"], arrays["B"], outputs[0]))

    def call() -> Any:
        with torch.no_grad():
            return torch.matmul(a, b, out=out)

    return call


def onednn_product(arrays: Arrays, outputs: Sequence[np.ndarray], kind: str) -> Call | None:
    """Weights packed beforehand; the result is allocated at each call."""
    import torch

    a, rows = arrays["A"], arrays["A"].shape[0]
    if kind == "bf16":
        x, weight = torch.from_numpy(a).view(torch.bfloat16), torch.from_numpy(arrays["B"]).view(torch.bfloat16)
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), rows)

        def linear() -> Any:
            with torch.no_grad():
                result = torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
                return ReturnedElsewhere(lambda: result.view(torch.uint16).numpy(), arrays)

        return linear
    x, columns = torch.from_numpy(a), arrays["B"].shape[1]
    packed = torch.ops.onednn.qlinear_prepack(torch.from_numpy(arrays["B"]).t().contiguous(), list(a.shape))
    scales, zeros = torch.ones(columns), torch.zeros(columns, dtype=torch.int64)

    def quantised() -> Any:
        with torch.no_grad():
            result = torch.ops.onednn.qlinear_pointwise(
                x, 1.0, 0, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
            )
            return ReturnedElsewhere(lambda: result.numpy().astype(np.int32), arrays)

    return quantised


def onnxruntime_product(arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, kind: str) -> Call | None:
    """MatMulInteger with a bound input and result."""
    if kind == "bf16":
        return None
    from onnx import TensorProto, helper, numpy_helper

    out = outputs[0]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["A", "B"], ["out"])], "product",
        [helper.make_tensor_value_info("A", TensorProto.UINT8, arrays["A"].shape)],
        [helper.make_tensor_value_info("out", TensorProto.INT32, out.shape)],
        [numpy_helper.from_array(arrays["B"], "B")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    run, (result,) = bound_session(model.SerializeToString(), [arrays["A"]], [np.zeros(out.shape, out.dtype)], threads)
    return returning(run, ReturnedElsewhere(result.numpy, arrays))


def product_call(
    library: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Collection[str],
    sizes: Mapping[str, Any],
) -> Call | None:  # fmt: skip
    """Returns how a library computes a row of `product`; None where it has no way."""
    kind = str(sizes["left"])
    if sizes.get("requantised"):
        return requantised_call(library, arrays, outputs, threads)
    if library in ("torch", "torch.onednn"):
        import torch

        torch.set_num_threads(threads)
    match library:
        case "torch":
            return torch_product(arrays, outputs, kind)
        case "torch.onednn" if "B" in constants:
            return onednn_product(arrays, outputs, kind)
        case "onnxruntime" if "B" in constants:
            return onnxruntime_product(arrays, outputs, threads, kind)
    return None
