"""What is asked of torch: modules as graphs of ATen operators, dtypes, arrays. The only importer of torch in this room."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from inspect import signature
from types import ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from ...common.errors import ArgumentError, UserError
from ...common.outside import let_through
from ...tensor.dtype import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from .module_state import left_as_it_is

_DTYPES = {
    "float64": f64, "float32": f32, "float16": f16, "bfloat16": bf16, "int64": i64, "int32": i32, "int16": i16, "int8": i8,
    "uint64": u64, "uint32": u32, "uint16": u16, "uint8": u8, "bool": boolean,
}  # fmt: skip

# Operators that stay whole although torch knows what they are made of: here they are fewer and simpler stages.
WHOLE = frozenset((
    "batch_norm.default", "instance_norm.default", "layer_norm.default", "group_norm.default", "rms_norm.default",
    "linear.default", "matmul.default", "einsum.default", "scaled_dot_product_attention.default",
    "conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding",
    "conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input", "silu.default", "mish.default",
    "hardswish.default", "hardsigmoid.default", "selu.default", "celu.default", "relu6.default", "softplus.default",
    "hardshrink.default", "softshrink.default", "prelu.default", "glu.default", "softmax.int", "log_softmax.int",
    "_safe_softmax.default", "max_pool1d.default", "max_pool2d.default", "max_pool3d.default", "avg_pool1d.default",
    "adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default",
    "adaptive_max_pool1d.default", "adaptive_max_pool2d.default", "adaptive_max_pool3d.default",
    "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", "_upsample_nearest_exact1d.vec",
    "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec", "upsample_linear1d.vec", "upsample_bilinear2d.vec",
    "upsample_trilinear3d.vec", "upsample_bicubic2d.vec", "pixel_shuffle.default", "pixel_unshuffle.default",
    "channel_shuffle.default", "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input", "stack.default",
    "transpose.int", "unbind.int", "chunk.default", "pad.default", "reflection_pad1d.default", "reflection_pad2d.default",
    "reflection_pad3d.default", "replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default",
    "roll.default", "tril.default", "triu.default", "logsumexp.default", "addcmul.default", "addcdiv.default",
    "lerp.Scalar", "lerp.Tensor", "std.correction", "var_mean.correction", "std_mean.correction", "outer.default",
    "masked_fill.Scalar", "masked_fill.Tensor", "floor_divide.default", "linalg_vector_norm.default", "dropout.default",
    "unfold.default", "frac.default", "square.default", "one_hot.default", "repeat_interleave.self_int",
    "meshgrid.indexing", "log_sigmoid.default", "xlogy.Tensor", "inner.default", "take.default",
    "im2col.default", "col2im.default",
))  # fmt: skip


def torch_module() -> ModuleType:
    """torch, imported now. Errors: UserError that says how to install it."""
    try:
        torch = import_module("torch")
    except ModuleNotFoundError:
        raise _not_installed("PyTorch is not installed") from None
    if not hasattr(import_module("torch.export"), "default_decompositions"):
        raise _not_installed(f"PyTorch {torch.__version__} is too old")
    return torch


def _not_installed(problem: str) -> UserError:
    return UserError(problem, expected="torch 2.6 or later", advice="pip install 'tilesmith[torch]'")


def exported(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
    """The torch.export.ExportedProgram of a module for example inputs, of core ATen and the operators that stay whole.

    Errors: ArgumentError for what is no module, for arguments that it does not take, and for what torch.export refuses:
    control flow that depends on data, and what it does not trace.
    """
    torch = torch_module()
    export = import_module("torch.export")
    if isinstance(module, export.ExportedProgram):
        found = module
    else:
        _check_call(torch, module, args, kwargs)
        try:
            with torch.no_grad(), catch_warnings(), left_as_it_is(module):
                simplefilter("ignore", FutureWarning)  # torch warns of its own code
                found = export.export(module, tuple(args), dict(kwargs or {}), strict=False)
        except Exception as error:
            let_through(error)
            first = str(error).strip().partition("\n")[0]
            raise ArgumentError(
                "torch.export cannot trace the module", expected="shapes and control flow that do not depend on data",
                found=f"{type(error).__name__}: {first[:300]}", advice="call torch.export.export on it to see why",
            ) from error  # fmt: skip
    with torch.no_grad(), catch_warnings():
        simplefilter("ignore", FutureWarning)
        return found.run_decompositions(dict(_decompositions()))


def _check_call(torch: ModuleType, module: Any, args: Any, kwargs: Any) -> None:
    """Checks that there is a module that takes such arguments, before it is traced. Errors: ArgumentError."""
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(
            "that is no module", expected="a torch.nn.Module, or a torch.export.ExportedProgram",
            found=f"{type(module).__name__}: {repr(module)[:80]}",
        )  # fmt: skip
    if not isinstance(args, tuple | list) or not isinstance(kwargs, Mapping | None):
        raise ArgumentError(
            "example inputs are a tuple, and those by name a dict", expected="from_torch(module, (x, y), {'mask': m})",
            found=", ".join(type(one).__name__ for one in (args, kwargs) if one is not None),
        )  # fmt: skip
    try:
        signature(module.forward).bind(*args, **(kwargs or {}))
    except TypeError as error:
        raise ArgumentError(
            "the module does not take these arguments", expected=f"those of {type(module).__name__}.forward",
            found=str(error),
        ) from None  # fmt: skip
    except ValueError:  # some functions have no signature
        return


@cache
def _decompositions() -> dict[Any, Any]:
    """torch's own, without those of operators that stay whole."""
    export = import_module("torch.export")
    table = export.default_decompositions()
    for operator in [op for op in table if operator_name(op) in WHOLE]:
        del table[operator]
    return dict(table)


def is_module(value: object) -> bool:
    """Says whether a value is a torch.nn.Module; torch is not imported for it where nobody has."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch.nn, "Module", ()))


def example_tensor(dtype: DType, shape: Sequence[int]) -> Any:
    """A tensor to export a module with: drawn by a fixed seed; ones where it may hold indices."""
    torch = torch_module()
    kind = getattr(torch, dtype_text(dtype))
    if not kind.is_floating_point:
        return torch.ones(tuple(shape), dtype=kind)
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(0)).to(kind)


def dtype_text(dtype: DType) -> str:
    """Returns what torch calls a dtype: "float32"."""
    return next(name for name, known in _DTYPES.items() if known == dtype)


def run_once(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], what: str) -> None:
    """Calls a module as torch would, so that wrong inputs are told in its words. Errors: ArgumentError."""
    torch = torch_module()
    try:
        with torch.no_grad():
            module(*args, **kwargs)
    except Exception as error:
        let_through(error)
        shown = [f"{one.dtype}{list(one.shape)}".removeprefix("torch.") for one in args if hasattr(one, "shape")]
        first = str(error).strip().partition("\n")[0]
        raise ArgumentError(
            f"{what} does not take these inputs", expected="inputs that the module can be called with",
            found=f"{', '.join([*shown, *kwargs])}: {type(error).__name__}: {first[:300]}",
        ) from error  # fmt: skip


def operator_name(target: Any) -> str:
    """ "add.Tensor" of torch.ops.aten.add.Tensor; other operators with their namespace, as "higher_order.cond"."""
    text = (
        str(target)
        if hasattr(target, "_overloadname")
        else f"{_namespace(target)}{getattr(target, '__name__', target)}"
    )
    return text.removeprefix("aten.")


def _namespace(target: Any) -> str:
    return "higher_order." if type(target).__module__.startswith("torch._higher_order_ops") else ""


def dtype_of(dtype: Any) -> DType | None:
    """The dtype here of a torch.dtype, or None."""
    return _DTYPES.get(str(dtype).removeprefix("torch."))


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements of a tensor, in its own memory where that is contiguous. bfloat16 comes as its bits."""
    torch = torch_module()
    plain = tensor.detach().cpu().resolve_neg().contiguous()
    if plain.dtype == torch.bfloat16:
        return np.asarray(plain.view(torch.int16).numpy().view(np.uint16))
    return np.asarray(plain.numpy())
