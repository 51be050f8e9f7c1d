"""torch, eager and compiled: functions of the tensors by name, as a user of it would write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...measure.compare.serving import PlainCall
from .calls import Array, ModelWay, NamedArrays, Sizes, TensorNames
from .images import channels_first, torch_images, torch_way
from .stagewise import ArrayLibrary

# A function of the tensors by name and `out`, and whether it can write there.
TorchWay = tuple[Callable[..., Any], bool]

_ACTIVATIONS = ("relu", "gelu", "silu", "mish", "selu", "elu", "softplus", "hardswish", "leaky_relu")


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one tensor, called as those are that could write into `out`."""
    return lambda x, out: function(x)


def torch_functions() -> dict[str, TorchWay]:
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

    known: dict[str, TorchWay] = {
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
    return known | {name: (_alone(getattr(functional, name)), False) for name in _ACTIVATIONS}


def torch_call(
    operator: str,
    arrays: NamedArrays,
    outputs: Sequence[Array],
    threads: int,
    constants: TensorNames,
    sizes: Sizes,
    own: TorchWay | None = None,
) -> PlainCall | None:
    """torch, eager. `own`: the function where the operator is none of those that are known here."""
    import torch

    torch.set_num_threads(threads)
    call_on_images = torch_images(operator, sizes, arrays, channels_last=False)
    if call_on_images is not None:
        return call_on_images
    found = own or torch_functions().get(operator)
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
    operator: str, arrays: NamedArrays, outputs: Sequence[Array], threads: int, constants: TensorNames, sizes: Sizes
) -> PlainCall | None:
    """torch, eager, on images whose channels lie last in memory."""
    import torch

    torch.set_num_threads(threads)
    return torch_images(operator, sizes, arrays, channels_last=True)


def torch_compile_call(
    operator: str,
    arrays: NamedArrays,
    outputs: Sequence[Array],
    threads: int,
    constants: TensorNames,
    sizes: Sizes,
    own: TorchWay | None = None,
) -> PlainCall | None:
    """torch.compile (inductor), static shapes; it allocates its result."""
    import torch

    torch.set_num_threads(threads)
    way = torch_way(operator, sizes)
    found = (own or torch_functions().get(operator)) if way is None else (lambda out, **x: way(**x), False)
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


def torch_arrays() -> ArrayLibrary:
    """The functions of torch by the names of the expression language."""
    import torch

    names = (
        "add", "sub", "mul", "div", "abs", "floor", "ceil", "round", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt",
        "rsqrt", "sigmoid", "pow", "neg", "erf", "erfc", "eq", "ne", "lt", "le", "gt", "ge",
    )  # fmt: skip
    functions = {name: getattr(torch, name) for name in names} | {
        "floordiv": torch.floor_divide, "mod": torch.remainder, "max": torch.maximum, "min": torch.minimum,
        "and": torch.logical_and, "or": torch.logical_or, "not": torch.logical_not, "select": torch.where,
    }  # fmt: skip
    dtypes = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool}
    return ArrayLibrary(
        functions=functions,
        reductions={"sum": torch.sum, "max": torch.amax, "min": torch.amin},
        einsum=torch.einsum,
        permute=torch.permute,
        expand=torch.broadcast_to,
        cast=lambda x, dtype: x.to(dtypes[dtype]),
        array=torch.from_numpy,
    )


def module_way(module: Any, inputs: Sequence[Array], threads: int, *, compiled: bool = False) -> ModelWay:
    """A module of PyTorch, called with arrays."""
    import torch

    torch.set_num_threads(threads)
    called = torch.compile(module, dynamic=False) if compiled else module
    given = [torch.from_numpy(array) for array in inputs]
    last: list[Any] = []

    def call() -> None:
        with torch.no_grad():
            last[:] = [called(*given)]

    def results() -> list[Array]:
        found = last[0] if isinstance(last[0], tuple | list) else (last[0],)
        return [tensor.numpy() for tensor in found]

    return ModelWay(call, results)
