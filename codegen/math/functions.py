"""Vector math, inline: exp, log, tanh, erf, ... as LLVM IR functions that the optimizer inlines into register tiles.

    symbol("exp", f32, 16)       "tilesmith.exp.v16f32", what the emitter calls
    definition("exp", f32, 16)   its text: define internal <16 x float> @tilesmith.exp.v16f32(<16 x float> %x) alwaysinline
    declares("exp", f32, 16)     what it needs outside: intrinsics, for some a table; each item may stand once in a module

No function calls the C library and none assumes NaN, infinities or denormals away: special values are as in NumPy. The bounds
of errors in tensor/mathematics.py hold with and without fused multiply-add. f16 is computed in f32.

Each file of a family ends with its part of the table: name -> what writes the code. Those that LLVM has itself are in
intrinsics.py.
"""

from __future__ import annotations

from functools import lru_cache

from ...tensor.dtype import DType, f16, f32, f64
from ...tensor.language import MATHEMATICS
from . import exponential, normal, power, rational, trigonometric
from .body import Body, Function, element_type, suffix, value_type

_FAMILIES = (exponential, normal, power, rational, trigonometric)
FUNCTIONS: dict[str, Function] = {name: code for family in _FAMILIES for name, code in family.FUNCTIONS.items()}
_ARGUMENTS = ("%x", "%y")


def symbol(name: str, dtype: DType, lanes: int) -> str:
    """The name of the function in the module, without the @."""
    return f"tilesmith.{name}.{suffix(dtype, lanes)}"


def definition(name: str, dtype: DType, lanes: int, scales: bool = False) -> str:
    """The function's whole text. `name` is one of FUNCTIONS, `dtype` f16, f32 or f64, `lanes` 1 for a scalar function.

    `scales`: the processor has AVX-512's instructions for x 2^n.
    """
    return _build(name, dtype, lanes, scales)[0]


def declares(name: str, dtype: DType, lanes: int, scales: bool = False) -> tuple[str, ...]:
    """The module-level items (mostly one `declare` line each) that `definition` relies on; equal items stand for one."""
    return _build(name, dtype, lanes, scales)[1]


@lru_cache(maxsize=256)
def _build(name: str, dtype: DType, lanes: int, scales: bool) -> tuple[str, tuple[str, ...]]:
    if name not in FUNCTIONS or dtype not in (f16, f32, f64):
        raise ValueError(f"no vector math for {name} of {dtype}")
    body = Body(f32 if dtype == f16 else dtype, lanes, scales)
    outer = value_type(element_type(dtype), lanes)
    names = _ARGUMENTS[: MATHEMATICS[name].arity if name in MATHEMATICS else 1]
    arguments = list(names)
    if dtype == f16:
        arguments = [body.emit(f"fpext {outer} {a} to {body.type}") for a in names]
    result = FUNCTIONS[name](body, *arguments)
    if dtype == f16:
        result = body.emit(f"fptrunc {body.type} {result} to {outer}")
    parameters = ", ".join(f"{outer} {a}" for a in names)
    head = f"define internal {outer} @{symbol(name, dtype, lanes)}({parameters}) alwaysinline {{"
    text = "\n".join([head, *body.lines, f"  ret {outer} {result}", "}"])
    return text + "\n", tuple(body.declares)
