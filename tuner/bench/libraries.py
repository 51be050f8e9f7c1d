"""The peers of `tune bench`: what each is called, what it needs, and how it computes a program or a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ...graph.importers.torchvision import prepare_torchvision
from ...measure.compare.serving import PlainCall
from ...tensor.dtype import DTYPES as ALL_DTYPES
from .calls import Array, ModelWay, NamedArrays
from .numpy_calls import NUMPY, numpy_call
from .onnxruntime_calls import onnxruntime_call, onnxruntime_model
from .openvino_calls import openvino_call, openvino_model
from .stagewise import DTYPES, StageResults, stage_by_stage
from .subject import MODULE, ONNX, Subject
from .torch_calls import module_way, torch_arrays, torch_call, torch_compile_call
from .tvm_calls import tvm_call, tvm_model

OURS = "tilesmith"
# Options of operators that the ways of libraries know; one that has another option is computed stage by stage.
_KNOWN = {
    "kernel",
    "stride",
    "padding",
    "dilation",
    "groups",
    "layout",
    "residual",
    "causal",
    "rows",
    "columns",
    "size",
}
STAGES = "stage by stage"

ProgramWay = Callable[[Subject, NamedArrays, Sequence[Array], int], tuple[PlainCall, str] | None]
WholeWay = Callable[[str, Sequence[Array], Sequence[Array], int], ModelWay]


@dataclass(frozen=True, slots=True)
class PeerLibrary:
    """A library. `needs`: modules that it imports; `install`: what to say where they are missing; `form`: what it reads of a
    model."""

    needs: tuple[str, ...]
    install: str
    program: ProgramWay
    model: WholeWay | None = None
    form: str = ONNX


def _named(
    library: Callable[..., PlainCall | None],
    subject: Subject,
    arrays: NamedArrays,
    outputs: Sequence[Array],
    threads: int,
) -> PlainCall | None:
    """The library's own function for an operator; None where there is none, or an option asks for something else."""
    if not subject.operator or not _KNOWN.issuperset(_options(subject)):
        return None
    constants = [tensor.name for tensor in subject.program.constant_inputs]
    return library(subject.operator, arrays, outputs, threads, constants, subject.sizes)


def _options(subject: Subject) -> set[str]:
    """The options of the operator that were given, and are not as usual."""
    import inspect

    from ...tensor.ops import OPERATORS

    parameters = inspect.signature(OPERATORS[subject.operator]).parameters
    return {
        name for name, value in subject.sizes.items()
        if name in parameters and parameters[name].default is not inspect.Parameter.empty and parameters[name].default != value
    }  # fmt: skip


def _all_plain(subject: Subject) -> bool:
    return all(tensor.dtype.name in DTYPES for tensor in subject.program.tensors.values())


def _one_or_all(results: StageResults) -> Callable[..., Any]:
    def called(**given: Any) -> Any:
        given.pop("out", None)
        found = results(**given)
        return found[0] if len(found) == 1 else found

    return called


def _numpy(
    subject: Subject, arrays: NamedArrays, outputs: Sequence[Array], threads: int
) -> tuple[PlainCall, str] | None:
    if not _all_plain(subject):
        return None
    call = _named(numpy_call, subject, arrays, outputs, threads)
    if call is not None:
        return call, ""
    results = stage_by_stage(subject.program, NUMPY)
    return None if results is None else (partial(_one_or_all(results), **arrays), STAGES)


def _torch(
    subject: Subject, arrays: NamedArrays, outputs: Sequence[Array], threads: int, *, compiled: bool = False
) -> tuple[PlainCall, str] | None:
    if not _all_plain(subject):
        return None
    library = torch_compile_call if compiled else torch_call
    call = _named(library, subject, arrays, outputs, threads)
    if call is not None:
        return call, ""
    results = stage_by_stage(subject.program, torch_arrays())
    if results is None:
        return None
    made = library("", arrays, outputs, threads, (), {}, (_one_or_all(results), False))
    return None if made is None else (made, STAGES)


def _by_onnx(
    library: Callable[..., PlainCall | None],
    subject: Subject,
    arrays: NamedArrays,
    outputs: Sequence[Array],
    threads: int,
) -> tuple[PlainCall, str] | None:
    if any(tensor.dtype != ALL_DTYPES["f32"] for tensor in subject.program.tensors.values()):
        return None
    call = _named(library, subject, arrays, outputs, threads)
    return None if call is None else (call, "")


def _module(
    path: str, inputs: Sequence[Array], outputs: Sequence[Array], threads: int, *, compiled: bool = False
) -> ModelWay:
    import torch

    prepare_torchvision()
    module = torch.load(path, weights_only=False)  # this very run has written it, into a folder of its own
    return module_way(module, inputs, threads, compiled=compiled)


_ONNX = ("onnxruntime", "onnx")
LIBRARIES: dict[str, PeerLibrary] = {
    "numpy": PeerLibrary(("numpy",), "pip install numpy", _numpy),
    "torch": PeerLibrary(("torch",), "pip install 'tilesmith[torch]'", _torch, _module, MODULE),
    "torch.compile": PeerLibrary(
        ("torch",), "pip install 'tilesmith[torch]'", partial(_torch, compiled=True), partial(_module, compiled=True), MODULE
    ),
    "onnxruntime": PeerLibrary(_ONNX, "pip install onnxruntime onnx", partial(_by_onnx, onnxruntime_call), onnxruntime_model),
    "openvino": PeerLibrary(
        ("openvino", "onnx"), "pip install openvino onnx", partial(_by_onnx, openvino_call), openvino_model
    ),
    "tvm": PeerLibrary(("tvm", "onnx"), "pip install apache-tvm onnx", partial(_by_onnx, tvm_call), tvm_model),
}  # fmt: skip


def libraries_named(text: str) -> tuple[str, ...]:
    """The peers of "numpy,torch", each once. Errors: ArgumentError that names the close ones."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in LIBRARIES:
            raise ArgumentError(
                f"there is no peer {name!r}", expected=f"some of {', '.join(LIBRARIES)}, with commas",
                advice=did_you_mean(name, LIBRARIES),
            )  # fmt: skip
    if not names:
        raise ArgumentError("--against names nobody", expected=f"some of {', '.join(LIBRARIES)}, with commas")
    return names
