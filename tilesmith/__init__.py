"""Tilesmith: an auto-tuning search framework for tensor programs.

    import tilesmith as ts

    program = ts.ops.matmul(m=1024, n=1024, k=1024)     # or ts.parse(text), or ts.compute(...)
    ts.tune(program, trials=128)                        # searches; the best go into the tuning database
    kernel = ts.compile(program)                        # the best that is known, compiled
    c = kernel(a, b)

Everything here is looked up when it is first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .common import errors as errors
    from .graph.importers.onnx import from_onnx as from_onnx
    from .graph.importers.torch import from_torch as from_torch
    from .graph.model import Model as Model
    from .graph.saved import load as load
    from .measure.result import Measurement as Measurement
    from .measure.result import Status as Status
    from .runtime.kernel import Kernel as Kernel
    from .targets.target import Target as Target
    from .targets.target import parse_target as parse_target
    from .tensor import ops as ops
    from .tensor.activations import gelu as gelu
    from .tensor.activations import relu as relu
    from .tensor.activations import silu as silu
    from .tensor.build import State as State
    from .tensor.build import absolute as absolute
    from .tensor.build import bf16_high as bf16_high
    from .tensor.build import bf16_low as bf16_low
    from .tensor.build import bf16_pair as bf16_pair
    from .tensor.build import cast as cast
    from .tensor.build import compute as compute
    from .tensor.build import compute_several as compute_several
    from .tensor.build import constant as constant
    from .tensor.build import fold as fold
    from .tensor.build import literal as literal
    from .tensor.build import max as max
    from .tensor.build import maximum as maximum
    from .tensor.build import min as min
    from .tensor.build import minimum as minimum
    from .tensor.build import named as named
    from .tensor.build import placeholder as placeholder
    from .tensor.build import prod as prod
    from .tensor.build import program as program
    from .tensor.build import reduce_axis as reduce_axis
    from .tensor.build import select as select
    from .tensor.build import sum as sum
    from .tensor.build import table as table
    from .tensor.mathematics import *  # noqa: F403
    from .tensor.program import Program as Program
    from .tensor.program import Tensor as Tensor
    from .tensor.text.parse import parse as parse
    from .tuner import callbacks as callbacks
    from .tuner.apply.compile import compile as compile
    from .tuner.apply.export import export as export
    from .tuner.apply.quantize import quantize as quantize
    from .tuner.explain import explain as explain
    from .tuner.outcome import TuneResult as TuneResult
    from .tuner.report.report import report as report
    from .tuner.tune import tune as tune

# Where each name lives. The block above says the same to type checkers.
_MODULES = {"callbacks": "tuner.callbacks", "errors": "common.errors", "ops": "tensor.ops"}
_HOMES = {
    "graph.importers.onnx": ("from_onnx",),
    "graph.importers.torch": ("from_torch",),
    "graph.model": ("Model",),
    "graph.saved": ("load",),
    "measure.result": ("Measurement", "Status"),
    "runtime.kernel": ("Kernel",),
    "targets.target": ("Target", "parse_target"),
    "tensor.activations": ("gelu", "relu", "silu"),
    "tensor.build": (
        "State", "absolute", "bf16_high", "bf16_low", "bf16_pair", "cast", "compute", "compute_several", "constant", "fold",
        "literal", "max", "maximum", "min", "minimum", "named", "placeholder", "prod", "program", "reduce_axis", "select",
        "sum", "table",
    ),
    "tensor.program": ("Program", "Tensor"),
    "tensor.text.parse": ("parse",),
    "tuner.apply.compile": ("compile",),
    "tuner.apply.export": ("export",),
    "tuner.apply.quantize": ("quantize",),
    "tuner.explain": ("explain",),
    "tuner.outcome": ("TuneResult",),
    "tuner.report.report": ("report",),
    "tuner.tune": ("tune",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

_FUNCTIONS = "tensor.mathematics"  # all that it names: exp, log, ...


def _public(name: str) -> object:
    """The public name, imported now; kept, so that this runs once for each."""
    from importlib import import_module

    value: object
    if name == "__all__":
        value = __dir__()
    elif name in _MODULES:
        value = import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOME or (not name.startswith("_") and name in _names_of_functions()):
        value = getattr(import_module(f"{__name__}.{_HOME.get(name, _FUNCTIONS)}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def _names_of_functions() -> list[str]:
    """The functions of the expression language. Asking for them imports its table."""
    from .tensor import mathematics

    return mathematics.__all__


if not TYPE_CHECKING:  # to a type checker it would say that there is nothing that is not there
    __getattr__ = _public


def __dir__() -> list[str]:
    return [*sorted({*_MODULES, *_HOME, *_names_of_functions()}), "__version__"]
