"""How each library computes each operator: the fastest plain way that a user of it would write.

A library is a function `prepare(operator, arrays, outputs, threads, constants, sizes)` that returns a call without arguments,
or None where the library has no way. `arrays` are the inputs by name, those called in `constants` never change, so that a
library may rearrange them beforehand as ours does; the call writes `outputs` where the library can, else it returns
its result. Functions of torch take the tensors by name and give the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from drafts import workload
from images import Returned, channels_first, onnx_shape, seen_back, torch_images, torch_way
from onnx_models import onnx_model

Arrays = Mapping[str, np.ndarray]
Call = Callable[[], Any]
Names = Collection[str]
Sizes = Mapping[str, Any]


def numpy_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """NumPy with `out=`. Its BLAS reads the number of threads from the environment."""
    out = outputs[0]
    scratch = np.empty_like(out)
    a = dict(arrays)

    def matmul() -> None:
        np.matmul(a["A"], a["B"], out=out)

    def matmul_bias_relu() -> None:
        np.matmul(a["A"], a["B"], out=out)
        np.add(out, a["bias"], out=out)
        np.maximum(out, 0, out=out)

    def silu_add() -> None:
        np.negative(a["x"], out=scratch)
        np.exp(scratch, out=scratch)
        np.add(scratch, 1, out=scratch)
        np.divide(a["x"], scratch, out=scratch)
        np.add(scratch, a["y"], out=out)

    ways: dict[str, Call] = {
        "matmul": matmul,
        "batch_matmul": matmul,
        "matmul_bias_relu": matmul_bias_relu,
        "silu_add": silu_add,
        "row_sum": lambda: np.sum(a["x"], axis=1, out=out),
        "column_sum": lambda: np.sum(a["x"], axis=0, out=out),
        "transpose": lambda: np.copyto(out, a["x"].T),
    }
    return ways.get(operator)


def torch_functions() -> dict[str, tuple[Callable[..., Any], bool]]:
    """Operator -> (function of the tensors by name and `out`, whether it can write into `out`)."""
    import torch
    from torch.nn import functional

    def matmul_bias_relu(A: Any, B: Any, bias: Any, out: Any) -> Any:
        return torch.addmm(bias, A, B, out=out).relu_() if out is not None else torch.relu(torch.addmm(bias, A, B))

    def silu_add(x: Any, y: Any, out: Any) -> Any:
        if out is None:
            return x * torch.sigmoid(x) + y
        torch.sigmoid(x, out=out)
        out.mul_(x)
        return out.add_(y)

    def layer_norm(x: Any, gamma: Any, beta: Any, out: Any) -> Any:
        return functional.layer_norm(x, (x.shape[-1],), gamma, beta, 1e-5)

    def matmul_residual_layer_norm(A: Any, B: Any, residual: Any, gamma: Any, beta: Any, out: Any) -> Any:
        return layer_norm(torch.addmm(residual, A, B), gamma, beta, None)

    def bias_relu(x: Any, bias: Any, out: Any) -> Any:
        return torch.add(x, bias, out=out).relu_() if out is not None else torch.relu(x + bias)

    return {
        "matmul": (lambda A, B, out: torch.mm(A, B, out=out), True),
        "batch_matmul": (lambda A, B, out: torch.bmm(A, B, out=out), True),
        "matmul_bias_relu": (matmul_bias_relu, True),
        "matmul_bias_gelu": (lambda A, B, bias, out: functional.gelu(torch.addmm(bias, A, B)), False),
        "matmul_residual_layer_norm": (matmul_residual_layer_norm, False),
        "silu_add": (silu_add, True),
        "softmax": (lambda x, out: torch.softmax(x, -1, out=out), True),
        "layer_norm": (layer_norm, False),
        "row_sum": (lambda x, out: torch.sum(x, 1, out=out), True),
        "column_sum": (lambda x, out: torch.sum(x, 0, out=out), True),
        "transpose": (lambda x, out: out.copy_(x.t()) if out is not None else x.t().contiguous(), True),
        "bias_relu": (bias_relu, True),
        "bias_gelu": (lambda x, bias, out: functional.gelu(x + bias), False),
    }


def _torch_function(operator: str) -> tuple[Callable[..., Any], bool] | None:
    """As in `torch_functions`; of a draft all results, of which the caller takes the first."""
    import torch

    if not operator.startswith("draft:"):
        return torch_functions().get(operator)
    draft = workload(operator)
    count = len(draft.inputs)
    return (lambda out, **x: draft.results(torch, [x[f"x{number}"] for number in range(count)])), False


def torch_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """torch, eager."""
    import torch

    torch.set_num_threads(threads)
    call_on_images = torch_images(operator, sizes, arrays, channels_last=False)
    if call_on_images is not None:
        return call_on_images
    found = _torch_function(operator)
    if found is None:
        return None
    function, writes = found
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    out = torch.from_numpy(outputs[0]) if writes else None

    def call() -> Any:
        with torch.no_grad():
            return function(**tensors, out=out)

    return call


def torch_channels_last_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """torch, eager, on images whose channels lie last in memory."""
    import torch

    torch.set_num_threads(threads)
    return torch_images(operator, sizes, arrays, channels_last=True)


def torch_compile_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """torch.compile (inductor), static shapes; it allocates its result."""
    import torch

    torch.set_num_threads(threads)
    way = torch_way(operator, sizes)
    found = _torch_function(operator) if way is None else (lambda out, **x: way(**x), False)
    if found is None:
        return None
    tensors = {name: torch.from_numpy(array) for name, array in channels_first(operator, sizes, arrays).items()}
    torch._dynamo.reset()  # of one function it compiles eight versions, and runs the others as they are
    compiled = torch.compile(lambda **named: found[0](**named, out=None), dynamic=False)
    turned = sizes.get("layout") == "nhwc"

    def call() -> Any:
        with torch.no_grad():
            result = compiled(**tensors)
            return result.permute(0, 2, 3, 1) if turned and result.dim() == 4 else result

    call()
    return call


def onnxruntime_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """ONNX Runtime with bound inputs and outputs, so that nothing is copied or allocated."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in arrays.items():
        if name not in constants:
            binding.bind_cpu_input(name, array)
    out = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, outputs[0].dtype))
    binding.bind_ortvalue_output("out", out)
    returned = Returned(lambda: seen_back(operator, sizes, out.numpy(), outputs[0]), arrays)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return returned

    return call


def openvino_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """OpenVINO, one request whose tensors are the caller's own memory. It would compute in bfloat16 where the processor can,
    unless told not to."""
    arrays, shape = channels_first(operator, sizes, arrays), onnx_shape(operator, sizes, outputs[0])
    model = onnx_model(operator, arrays, shape, constants, sizes)
    if model is None:
        return None
    import openvino  # type: ignore[import-untyped]

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings).create_infer_request()
    for name, array in arrays.items():
        if name not in constants:
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    out = outputs[0] if outputs[0].shape == shape else np.zeros(shape, outputs[0].dtype)
    request.set_tensor("out", openvino.Tensor(out, shared_memory=True))
    returned = Returned(lambda: seen_back(operator, sizes, out, outputs[0]), arrays)

    def call() -> Any:
        request.start_async()  # without the dictionary of results that `infer` makes
        request.wait()
        return returned

    return call


def onednn_call(
    operator: str, arrays: Arrays, outputs: Sequence[np.ndarray], threads: int, constants: Names, sizes: Sizes
) -> Call | None:
    """oneDNN by torch, with packed weights: of narrow elements alone (narrow.py)."""
    return None


LIBRARIES: dict[str, Callable[[str, Arrays, Sequence[np.ndarray], int, Names, Sizes], Call | None]] = {
    "numpy": numpy_call,
    "torch": torch_call,
    "torch.channels_last": torch_channels_last_call,
    "torch.compile": torch_compile_call,
    "torch.onednn": onednn_call,
    "onnxruntime": onnxruntime_call,
    "openvino": openvino_call,
}
# whom a row is measured against unless told otherwise
PEERS = (
    "torch",
    "torch.channels_last",
    "torch.compile",
    "onnxruntime",
    "openvino",
)
NARROW_PEERS = ("torch", "torch.onednn", "onnxruntime")  # the same of products of narrow elements
WEIGHTS_PEERS = ("torch", "onnxruntime", "openvino")  # the same of those with weights in few bits
