"""Models as files: a folder with the program's text, its constants and where its stages come from. All of it is data.

program.tensor          the text form
constants.safetensors   an array for each constant
model.json              the name of the model, and the origin of each stage
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path

from ..common.errors import ArgumentError
from ..tensor.program import Origin, Program
from ..tensor.text.parse import parse
from .safetensors import Array, Arrays, read_arrays, write_arrays

FORMAT = 1
_PROGRAM, _CONSTANTS, _ABOUT = "program.tensor", "constants.safetensors", "model.json"


def save_model(path: Path, program: Program, constants: Mapping[str, Array], name: str) -> None:
    """Writes a model into a folder, which is made if there is none. Errors: ArgumentError where it cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        dtypes = {tensor.name: tensor.dtype for tensor in program.constant_inputs}
        write_arrays(path / _CONSTANTS, Arrays({known: (dtypes[known], constants[known]) for known in dtypes}))
        (path / _PROGRAM).write_text(str(program), encoding="utf-8")
        about = {"format": FORMAT, "name": name, "origins": _origins(program)}
        (path / _ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write the model to {path}", found=error.strerror or str(error)) from None


def load_model(path: Path) -> tuple[Program, dict[str, Array], str]:
    """The program, constants and name of the model in a folder; constants stay in their file until they are read.

    Errors: ArgumentError for what is no model, ProgramError for a program that is none.
    """
    about = _about(path)
    try:
        program = parse((path / _PROGRAM).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise _refused(path, f"{_PROGRAM} is missing, or no text") from None
    held = read_arrays(path / _CONSTANTS).arrays
    for tensor in program.constant_inputs:
        if tensor.name in held and held[tensor.name][0] != tensor.dtype:
            raise _refused(
                path, f"{tensor.name} is {held[tensor.name][0]} in {_CONSTANTS}, and {tensor.dtype} in {_PROGRAM}"
            )
    constants = {t.name: held[t.name][1] for t in program.constant_inputs if t.name in held}
    return _with_origins(program, about.get("origins")), constants, str(about.get("name", path.name))


def _about(path: Path) -> dict[str, object]:
    try:
        about = json.loads((path / _ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise _refused(path, f"{_ABOUT} is missing, or no JSON") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise _refused(path, f"{_ABOUT} is not of the format {FORMAT}")
    return about


def _origins(program: Program) -> dict[str, list[object]]:
    return {stage.name: list(astuple(stage.origin)) for stage in program.stages}


def _with_origins(program: Program, origins: object) -> Program:
    """The program with what is known of where its stages come from; it is shown to people and never counts."""
    known = origins if isinstance(origins, dict) else {}

    def origin(name: str) -> Origin:
        match known.get(name):
            case [str(operator), str(layer), str(file), int(line)]:
                return Origin(operator, layer, file, line)
        return Origin()

    return program.replacing(tuple(replace(stage, origin=origin(stage.name)) for stage in program.stages))


def _refused(path: Path, why: str) -> ArgumentError:
    return ArgumentError(f"{path} is no saved model", expected="a folder that `model.save` wrote", found=why)
