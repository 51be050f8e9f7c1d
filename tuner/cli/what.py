"""WHAT on the command line: an operator with sizes, a `.tensor` file, or a function that makes a program."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...common.errors import ArgumentError, ProgramError, TilesmithError
from ...tensor.program import Program


@dataclass(frozen=True, slots=True)
class What:
    """A program, and the Python expression that makes it again, with the module that it is in: for the lines to paste."""

    program: Program
    python: str
    module: str = ""


def read_what(what: str, settings: Sequence[str] = (), constants: Sequence[str] = ()) -> What:
    """The program that a person names.

    Args:
        what: "matmul", "path/to/file.tensor", or "package.module:function".
        settings: "name=value" each: sizes and options, for an operator or a function.
        constants: names of inputs that are known when the program is compiled.

    Raises:
        ArgumentError: an unknown operator, file, function or input; a missing, unknown or wrong value.
        ProgramError: the file's text is wrong.
    """
    values = _split(settings)
    if what.endswith(".tensor") or ("/" in what and ".py:" not in what):
        return _from_file(Path(what), values, constants)
    if ":" in what:
        return _from_function(what, values, constants)
    return _from_operator(what, values, constants)


def read_whats(words: Sequence[str], constants: Sequence[str] = ()) -> list[What]:
    """All programs that a person names, each with its settings after it: ["a.tensor", "matmul", "m=64", ...].

    Errors: as `read_what`.
    """
    groups: list[list[str]] = []
    for word in words:
        names_a_program = "=" not in word and (word.isidentifier() or any(c in word for c in "/:."))
        if names_a_program or not groups:
            groups.append([])
        groups[-1].append(word)
    return [read_what(first, settings, constants) for first, *settings in groups]


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
    from ...tensor.limits import TEXT
    from ...tensor.text.parse import parse

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
        raise ArgumentError(f"cannot read the program file {path}: {reason}") from None
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
    stages = tuple(replace(stage, origin=replace(stage.origin, file=path.name)) for stage in program.stages)
    return What(program.replacing(stages), f"tilesmith.parse(open({str(path)!r}, encoding='utf-8-sig').read())")


def _from_operator(name: str, values: Mapping[str, str], constants: Sequence[str]) -> What:
    from ...tensor.ops import OPERATORS
    from ...tensor.ops.operator import read_arguments

    arguments = read_arguments(name, values, constants)
    return What(OPERATORS[name](**arguments), f"tilesmith.ops.{name}({_arguments_text(arguments)})")


def _from_function(what: str, values: Mapping[str, str], constants: Sequence[str]) -> What:
    function = load_function(what)
    arguments = _arguments(values, constants)
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        expected = f"{what.partition(':')[2]}{inspect.signature(function)}"
        raise ArgumentError(f"{what} cannot be called so: {error}", expected=expected) from None
    try:
        program = function(**arguments)
    except TilesmithError:
        raise
    except Exception as error:
        raise ProgramError(f"{what} raised {type(error).__name__}", found=str(error)) from error
    if not isinstance(program, Program):
        raise ArgumentError(f"{what} gave no program", expected="a Program", found=type(program).__name__)
    return What(program, f"{what.replace(':', '.')}({_arguments_text(arguments)})", what.partition(":")[0])


def load_function(what: str) -> Callable[..., Any]:
    """The function that "package.module:function" names. Errors: ArgumentError."""
    place, _, name = what.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: modules of the folder that the command is called from
    try:
        function: Callable[..., Any] | None = getattr(importlib.import_module(place), name, None)
    except (ImportError, ValueError) as error:
        module = place.removesuffix(".py").replace("/", ".")
        advice = f"name the module, not the file: {module}:{name}" if place.endswith(".py") else ""
        raise ArgumentError(
            f"cannot import the module {place!r}",
            expected="the name of one that is installed, or lies in this folder",
            found=str(error),
            advice=advice,
        ) from error
    if function is None or not callable(function):
        raise ArgumentError(f"the module {place!r} has no function {name!r}")
    return function


def _arguments(values: Mapping[str, str], constants: Sequence[str]) -> dict[str, object]:
    arguments: dict[str, object] = {name: _literal(text) for name, text in values.items()}
    return arguments | ({"constants": list(constants)} if constants else {})


def _arguments_text(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def _literal(text: str) -> object:
    """What a person means by a value: true, 1024, 1e-5, 64x32 (several sizes), or a word."""
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
