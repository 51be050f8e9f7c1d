"""Models as files: the program's text, its constants and where its stages come from. All of it is data.

A folder:
    program.tensor          the text form
    constants.safetensors   an array for each constant
    model.json              the name of the model, and the origin of each stage
Or one file, NAME.safetensors: the constants, and the two texts by their names among its metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..common.errors import ArgumentError
from ..tensor.dtype import DType
from ..tensor.program import Origin, Program
from ..tensor.text.parse import parse
from .safetensors import Array, Arrays, read_arrays, write_arrays

# Texts by name, and what reads the arrays.
TextsAndArrays = tuple[Mapping[str, str], Callable[[], Mapping[str, tuple[DType, Array]]]]

FORMAT = 1
SUFFIX = ".safetensors"  # of a model in one file
_PROGRAM, _CONSTANTS, _ABOUT = "program.tensor", f"constants{SUFFIX}", "model.json"


def save_model(path: Path, program: Program, constants: Mapping[str, Array], name: str) -> None:
    """Writes a model into one file, where the path ends in SUFFIX, else into a folder, which is made if there is none.

    Errors: ArgumentError where it cannot be written.
    """
    arrays = {tensor.name: (tensor.dtype, constants[tensor.name]) for tensor in program.constant_inputs}
    about = json.dumps({"format": FORMAT, "name": name, "origins": _origins(program)}, indent=1)
    texts = {_PROGRAM: str(program), _ABOUT: about}
    try:
        if path.suffix == SUFFIX and not path.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_arrays(path, Arrays(arrays, texts))
            return
        path.mkdir(parents=True, exist_ok=True)
        write_arrays(path / _CONSTANTS, Arrays(arrays))
        for file, text in texts.items():
            (path / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentError(f"cannot write the model to {path}", found=error.strerror or str(error)) from None


def load_model(path: Path) -> tuple[Program, dict[str, Array], str]:
    """The program, constants and name of the model in a folder or file; constants stay in their file until they are read.

    Errors: ArgumentError for what is no model, ProgramError for a program that is none.
    """
    texts, arrays = _of_file(path) if path.is_file() else _of_folder(path)
    about = _about(path, texts)
    if _PROGRAM not in texts:
        raise _refused(path, f"{_PROGRAM} is missing, or no text")
    program, held = parse(texts[_PROGRAM]), arrays()
    for tensor in program.constant_inputs:
        if tensor.name in held and held[tensor.name][0] != tensor.dtype:
            raise _refused(
                path, f"{tensor.name} is {held[tensor.name][0]} in {_CONSTANTS}, and {tensor.dtype} in {_PROGRAM}"
            )
    constants = {t.name: held[t.name][1] for t in program.constant_inputs if t.name in held}
    return _with_origins(program, about.get("origins")), constants, str(about.get("name", path.name))


def holds_model(path: Path) -> bool:
    """Says whether a folder, or a file of arrays, is a model that `save_model` wrote."""
    try:
        return _ABOUT in (_of_file(path) if path.is_file() else _of_folder(path))[0]
    except ArgumentError:
        return False


def looks_like_model(path: str | os.PathLike[str]) -> bool:
    """Says whether somebody who names this path means a model, though it may be a broken one."""
    place = Path(path)
    if place.is_dir():
        return any((place / name).exists() for name in (_PROGRAM, _CONSTANTS, _ABOUT))
    return place.is_file() and place.suffix == SUFFIX


def _of_file(path: Path) -> TextsAndArrays:
    """The texts and the arrays of one file."""
    try:
        content = read_arrays(path)
    except ArgumentError as error:
        raise _refused(path, error.problem) from None
    return content.texts, lambda: content.arrays


def _of_folder(path: Path) -> TextsAndArrays:
    """The texts of a folder, those that are there, and how to read its arrays."""
    texts = {}
    for file in (_PROGRAM, _ABOUT):
        with suppress(OSError, UnicodeDecodeError):
            texts[file] = (path / file).read_text(encoding="utf-8")
    return texts, lambda: read_arrays(path / _CONSTANTS).arrays


def _about(path: Path, texts: Mapping[str, str]) -> dict[str, object]:
    try:
        about = json.loads(texts.get(_ABOUT, ""))
    except (ValueError, RecursionError):
        raise _refused(path, f"{_ABOUT} is missing, or no JSON") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise _refused(path, f"{_ABOUT} is not of the format {FORMAT}")
    return about


def _origins(program: Program) -> dict[str, list[object]]:
    return {stage.name: _noted(stage.origin) for stage in program.stages}


def _noted(origin: Origin) -> list[object]:
    also = [_noted(one) for one in origin.also]
    return [origin.operator, origin.layer, origin.file, origin.line, *([also] if also else [])]


def _with_origins(program: Program, origins: object) -> Program:
    """The program with what is known of where its stages come from; it is shown to people and never counts."""
    known = origins if isinstance(origins, dict) else {}

    return program.replacing(tuple(replace(one, origin=_origin(known.get(one.name))) for one in program.stages))


def _origin(noted: object) -> Origin:
    match noted:
        case [str(operator), str(layer), str(file), int(line)]:
            return Origin(operator, layer, file, line)
        case [str(operator), str(layer), str(file), int(line), [*also]]:
            return Origin(operator, layer, file, line, tuple(map(_origin, also)))
    return Origin()


def _refused(path: Path, why: str) -> ArgumentError:
    return ArgumentError(f"{path} is no saved model", expected="a folder or file that `model.save` wrote", found=why)
