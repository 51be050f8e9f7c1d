"""WHAT on the command line that is a model: an ONNX file, a folder that `model.save` wrote, or a module of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....common.errors import ArgumentError
from ....common.near import near_file
from ....graph.importers.torch_export import dtype_text, example_tensor, is_module, run_once
from ....graph.model import Model
from ....graph.model_files import holds_model
from ....tensor.program import Program
from .input_specs import InputSpec

ONNX = ".onnx"
_OF_TORCH = (".pt", ".pth", ".pt2", ".pth.tar", ".ckpt", ".safetensors")


@dataclass(frozen=True, slots=True)
class MadeModel:
    """A model, and the lines of Python that make it again, the last of which names it `model`.

    `module`, `args`: of PyTorch, where it was made of them; `file`: the ONNX file, where it was read from one.
    """

    model: Model
    lines: tuple[str, ...]
    module: Any = None
    args: tuple[Any, ...] = ()
    file: Path | None = None


def is_model_file(what: str) -> bool:
    """Says whether WHAT names a file or folder of a model, be it there or not."""
    return what.endswith((ONNX, *_OF_TORCH)) or Path(what).suffix == ".model" or holds_model(Path(what))


def model_of_file(what: str, settings: Mapping[str, str], inputs: Sequence[InputSpec]) -> MadeModel:
    """The model in a file. `settings`: the sizes that an ONNX file leaves open. Errors: ArgumentError, UserError."""
    path = Path(what)
    if what.endswith(_OF_TORCH) and not holds_model(path):
        raise ArgumentError(
            f"{what} is a file of weights or of PyTorch, of which nobody can tell what it computes",
            expected="an ONNX file, a folder or file that model.save wrote, or package.module:function",
            advice="write a function that makes the module and reads the file: tune run my.module:make --input 1x3x224x224",
        )
    if not path.exists():
        expected = "an ONNX file, or a folder or file that model.save wrote"
        raise ArgumentError(f"there is no {what}", expected=expected, advice=near_file(path))
    if what.endswith(ONNX):
        return _of_onnx(path, settings, inputs)
    if settings:
        found = ", ".join(f"{name}={value}" for name, value in settings.items())
        raise ArgumentError("a saved model has its sizes already", found=found)
    model = Model.load(path)
    _check_inputs(model.program, inputs)
    return MadeModel(model, (f"model = tilesmith.load({what!r})",))


def _of_onnx(path: Path, settings: Mapping[str, str], inputs: Sequence[InputSpec]) -> MadeModel:
    from ....graph.importers.onnx import from_onnx, open_sizes

    sizes = {name: _size(name, value) for name, value in settings.items()}
    if inputs:
        given = [(one.name, one.shape) for one in inputs]
        sizes = {**open_sizes(path, given), **sizes}
    model = from_onnx(path, sizes)
    _check_inputs(model.program, inputs)
    more = f", sizes={sizes!r}" if sizes else ""
    return MadeModel(model, (f"model = tilesmith.from_onnx({str(path)!r}{more})",), file=path)


def _size(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"the size {name} is no positive number", found=text)
    return int(text)


def _check_inputs(program: Program, inputs: Sequence[InputSpec]) -> None:
    """Says whether what a person says of the inputs is what the model has. Errors: ArgumentError."""
    if not inputs:
        return
    has = {tensor.name: (tensor.dtype.name, tensor.shape) for tensor in program.dynamic_inputs}
    order = iter(has)
    for one in inputs:
        name = one.name or next(order, "")
        if has.get(name) != (one.dtype.name, one.shape):
            raise ArgumentError(
                "the model has other inputs",
                expected=", ".join(f"{n}={d}[{','.join(map(str, shape))}]" for n, (d, shape) in has.items()),
                found=", ".join(f"--input {given}" for given in inputs),
            )


def model_of_value(what: str, value: Any, call: str, inputs: Sequence[InputSpec]) -> MadeModel | None:
    """The model of what a function gave: a Model, a module of PyTorch, or a tuple of a module and its example inputs; None for
    anything else. `call`: the Python expression that gave it."""
    if isinstance(value, Model):
        _check_inputs(value.program, inputs)
        return MadeModel(value, (f"model = {call}",))
    given = value if isinstance(value, tuple) and value else (value,)
    if not is_module(given[0]):
        return None
    if len(given) == 1 and not inputs:
        raise ArgumentError(
            f"{what} is a module of PyTorch, whose inputs are not known", expected="--input for each of them",
            advice=f"tune run {what} --input 1x3x224x224, or --input i64[1,128] for numbers of tokens",
        )  # fmt: skip
    return _of_module(what, given, call, inputs)


def _of_module(what: str, given: tuple[Any, ...], call: str, inputs: Sequence[InputSpec]) -> MadeModel:
    from ....graph.importers.torch import from_torch

    module = given[0].eval()
    if inputs:
        args = [example_tensor(one.dtype, one.shape) for one in inputs if not one.name]
        kwargs = {one.name: example_tensor(one.dtype, one.shape) for one in inputs if one.name}
        args_text = "".join(f"{_tensor_text(one)}, " for one in inputs if not one.name).rstrip()
        named = ", ".join(f"{one.name!r}: {_tensor_text(one)}" for one in inputs if one.name)
        lines = [
            f"module = {call}{'[0]' if len(given) > 1 else ''}.eval()",
            f"model = tilesmith.from_torch(module, ({args_text}){f', {{{named}}}' if named else ''})",
        ]
    else:
        args = list(given[1]) if len(given) > 1 and isinstance(given[1], tuple | list) else [given[1]]
        kwargs = dict(given[2]) if len(given) > 2 else {}
        arguments = "args if isinstance(args, tuple) else (args,), *kwargs"
        lines = [f"module, args, *kwargs = {call}", f"model = tilesmith.from_torch(module.eval(), {arguments})"]
    run_once(module, args, kwargs, what)
    model = from_torch(module, args, kwargs, what.partition(":")[2])
    return MadeModel(model, tuple(lines), module, tuple(args) if not kwargs else ())


def _tensor_text(one: InputSpec) -> str:
    """The Python that makes an example input."""
    return f"torch.ones({one.shape}, dtype=torch.{dtype_text(one.dtype)})"
