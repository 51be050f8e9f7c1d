"""Inputs that a person gives for the trials of a search: checked against the program before anything is measured."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..codegen.artifact import BufferSpec
from ..common.errors import ArgumentError
from ..common.near import did_you_mean
from ..measure.given import pack
from ..runtime.arguments import accept, argument
from ..tensor.program import Program
from ..tensor.text.canonical import canonical_names


def packed_inputs(program: Program, given: Mapping[str, object] | None) -> bytes:
    """Returns what trials get: the arrays under canonical names. Errors: ArgumentError for a wrong name, shape or dtype."""
    if not given:
        return b""
    if not isinstance(given, Mapping):
        raise ArgumentError(
            "inputs are arrays by their names", expected='a dict, as {"x": array}', found=type(given).__name__
        )
    tensors = {item.tensor.name: item.tensor for item in program.inputs}
    unknown = [name for name in given if name not in tensors]
    if unknown:
        raise ArgumentError(
            f"the program has no input {unknown[0]!r}",
            expected="inputs among " + ", ".join(tensors),
            found=", ".join(given),
            advice=did_you_mean(unknown[0], tensors),
        )
    names = {own: canonical for canonical, own in canonical_names(program).items()}
    arrays = {}
    for name, value in given.items():
        spec = BufferSpec(name, tensors[name].dtype.name, tensors[name].shape)
        arrays[names[name]] = accept(value, argument("input", spec))
    return pack(arrays)


def read_inputs(path: Path) -> dict[str, object]:
    """The arrays of an .npz file by name. Errors: ArgumentError where it is none."""
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("one array without a name")
        with archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ArgumentError(
            f"inputs cannot be read from {path}",
            expected="an .npz file with an array for each input by its name, as numpy.savez writes it",
            found=str(error),
        ) from error
