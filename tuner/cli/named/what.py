"""WHAT on the command line: an operator with sizes, a `.tensor` file, a model (models.py), or a function that makes one."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....common.errors import ArgumentError, ProgramError, TilesmithError
from ....common.near import near_file, near_names
from ....graph.importers.torch_export import is_module
from ....tensor.program import Origin, Program
from .input_specs import InputSpec
from .models import MadeModel, is_model_file, model_of_file, model_of_value


@dataclass(frozen=True, slots=True)
class What:
    """A program, and the Python expression that makes it again, with the module that it is in: for the lines to paste.

    `made`: of a model, whose program it is; `operator`, with its `arguments`: where a person named one.
    """

    program: Program
    python: str
    module: str = ""
    made: MadeModel | None = None
    operator: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict, compare=False)

    @property
    def is_cut(self) -> bool:
        """Says whether it is a model, or a program of several kernels, each of which is a task of its own."""
        from ....targets.target import parse_target
        from ...kernels import parts_of

        return self.made is not None or parts_of(self.program, parse_target("host")) is not None


def read_what(
    what: str, settings: Sequence[str] = (), constants: Sequence[str] = (), inputs: Sequence[InputSpec] = ()
) -> What:
    """The program or model that a person names.

    Args:
        what: "matmul", "path/to/file.tensor", "model.onnx", a folder of a saved model, or "package.module:function".
        settings: "name=value" each: sizes and options, for an operator or a function; sizes that an ONNX file leaves open.
        constants: names of inputs that are known when the program is compiled.
        inputs: of a model.

    Raises:
        ArgumentError: an unknown operator, file, function or input; a missing, unknown or wrong value.
        ProgramError: the file's text is wrong.
    """
    values = _split(settings)
    if is_model_file(what):
        if constants:
            raise ArgumentError("a model says itself what is constant", found=", ".join(constants))
        made = model_of_file(what, values, inputs)
        return What(made.model.program, "model", made=made)
    if ":" in what and ".tensor" not in what:
        return _from_function(what, values, constants, inputs)
    if inputs:
        raise ArgumentError(f"{what} is no model", found=f"--input {inputs[0]}", advice="operators take sizes: m=1024")
    if what.endswith(".tensor") or ("/" in what and ".py:" not in what):
        return _from_file(Path(what), values, constants)
    return _from_operator(what, values, constants)


def read_whats(words: Sequence[str], constants: Sequence[str] = (), inputs: Sequence[InputSpec] = ()) -> list[What]:
    """All programs that a person names, each with its settings after it: ["a.tensor", "matmul", "m=64", ...].

    Errors: as `read_what`.
    """
    groups: list[list[str]] = []
    for word in words:
        names_a_program = "=" not in word and (word.isidentifier() or any(c in word for c in "/:."))
        if names_a_program or not groups:
            groups.append([])
        groups[-1].append(word)
    if inputs and len(groups) > 1:
        raise ArgumentError("--input is of one model", found=f"{len(groups)} WHATs", advice="tune one after the other")
    return [read_what(first, settings, constants, inputs) for first, *settings in groups]


def _split(settings: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise ArgumentError(f"cannot read {setting!r}", expected="name=value, as in m=1024")
        if name in values:
            raise ArgumentError(f"{name} is given twice", found=f"{name}={values[name]} and {setting}")
        values[name] = value
    return values


def _from_file(path: Path, values: Mapping[str, str], constants: Sequence[str]) -> What:
    from ....tensor.limits import TEXT
    from ....tensor.text.parse import parse

    if values:
        found = ", ".join(f"{n}={v}" for n, v in values.items())
        raise ArgumentError("a .tensor file says its sizes itself", found=found)
    if constants:
        raise ArgumentError(
            "a .tensor file says itself what is constant",
            found=", ".join(constants),
            advice=f"write `constant {constants[0]}: ...` instead of `input {constants[0]}: ...` in {path}",
        )
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(TEXT + 1)  # whatever it is: /dev/zero has no end
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ArgumentError(f"cannot read the program file {path}: {reason}", advice=near_file(path)) from None
    try:
        program = parse(text)
    except ProgramError as error:
        raise ProgramError(
            f"{path}: {error.problem}",
            expected=error.expected,
            found=error.found,
            advice=error.advice,
            where=error.where,
        ) from None
    stages = tuple(replace(stage, origin=replace(stage.origin, file=str(path.absolute()))) for stage in program.stages)
    return What(program.replacing(stages), f"tilesmith.parse(open({str(path)!r}, encoding='utf-8-sig').read())")


def _from_operator(name: str, values: Mapping[str, str], constants: Sequence[str]) -> What:
    from ....tensor.ops import OPERATORS
    from ....tensor.ops.operator import read_arguments

    arguments = read_arguments(name, values, constants)
    program = OPERATORS[name](**arguments)
    stages = tuple(replace(one, origin=Origin(one.origin.operator)) for one in program.stages)  # no line of a person
    python = f"tilesmith.ops.{name}({_arguments_text(arguments)})"
    sizes = {key: value for key, value in arguments.items() if key != "constants"}
    return What(program.replacing(stages), python, operator=name, arguments=sizes)


def _from_function(
    what: str, values: Mapping[str, str], constants: Sequence[str], inputs: Sequence[InputSpec] = ()
) -> What:
    function = load_function(what, of_torch=bool(inputs))
    module, arguments = what.partition(":")[0], _arguments(values, constants)
    found: Any
    name = what.replace(":", ".")
    if is_module(function):
        found, call = function, name
    else:
        found, call = _called(what, function, arguments), f"{name}({_arguments_text(arguments)})"
    made = model_of_value(what, found, call, inputs)
    if made is not None:
        return What(made.model.program, "model", module, made)
    if not isinstance(found, Program):
        raise ArgumentError(
            f"{what} gave no program",
            expected="a Program, a Model, or a module of PyTorch",
            found=type(found).__name__,
        )
    if inputs:
        raise ArgumentError(f"{what} gave a program, which has its inputs already", found=f"--input {inputs[0]}")
    return What(found, call, module)


def _called(what: str, function: Callable[..., Any], arguments: Mapping[str, object]) -> Any:
    """Returns what a person's function gives. Errors: ArgumentError for wrong arguments, ProgramError for what it raises."""
    try:
        signature = inspect.signature(function)
        signature.bind(**arguments)
    except TypeError as error:
        expected = f"{what.partition(':')[2]}{inspect.signature(function)}"
        raise ArgumentError(f"{what} cannot be called so: {error}", expected=expected) from None
    except ValueError:  # of a function that does not tell its arguments
        pass
    try:
        return function(**arguments)
    except TilesmithError:
        raise
    except Exception as error:
        raise ProgramError(f"{what} raised {type(error).__name__}", found=str(error)) from error


def load_function(what: str, *, of_torch: bool = False) -> Callable[..., Any]:
    """The function that "package.module:function" names. `of_torch`: it makes a module of PyTorch. Errors: ArgumentError."""
    place, _, name = what.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: modules of the folder that the command is called from
    if of_torch or place.partition(".")[0] == "torchvision":
        from ....graph.importers.torchvision import prepare_torchvision

        prepare_torchvision()
    try:
        module = importlib.import_module(place)
    except Exception as error:
        raise _not_imported(place, name, error) from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if function is None or not callable(function):
        close = near_names(name, [one for one in dir(module) if callable(getattr(module, one, None))])
        advice = f"did you mean {place}:{close[0]}?" if close else ""
        raise ArgumentError(f"the module {place!r} has no function {name!r}", advice=advice)
    return function


def _not_imported(place: str, name: str, error: Exception) -> ArgumentError:
    advice = ""
    if place.endswith(".py"):
        advice = f"name the module, not the file: {place.removesuffix('.py').replace('/', '.')}:{name}"
    elif isinstance(error, ModuleNotFoundError) and error.name == "torch":
        advice = "pip install 'tilesmith[torch]'"
    elif isinstance(error, ModuleNotFoundError) and error.name == place.partition(".")[0]:
        advice = f"pip install {error.name}, if it is a package of others"
    said = str(error) if isinstance(error, ImportError | ValueError) else f"{type(error).__name__}: {error}"
    return ArgumentError(
        f"cannot import the module {place!r}", expected="the name of one that is installed, or lies in this folder",
        found=said, advice=advice,
    )  # fmt: skip


def _arguments(values: Mapping[str, str], constants: Sequence[str]) -> dict[str, object]:
    arguments: dict[str, object] = {name: _literal(text) for name, text in values.items()}
    return arguments | ({"constants": list(constants)} if constants else {})


def _arguments_text(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _literal(text: str) -> object:
    """Returns what a person means by a value: true, 1024, 1e-5, 64x32 (several sizes), or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"\d+(x\d+)+", text):
        return tuple(int(part) for part in text.split("x"))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
