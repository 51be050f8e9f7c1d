"""An artifact as one object whose functions have names that the caller gives: what libraries are made of.

Artifacts name their functions after their programs, so those of several would clash. They keep the LLVM module of each object
(`Artifact.modules`), as it was when its code was written: here these become one module, whose functions are named before LLVM
writes the code anew. What nobody outside calls is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...common.errors import InternalError
from ...targets.target import parse_target
from ..artifact import Artifact, entry_name
from ..emit.half import HALF_SYMBOLS
from .cpu import machine

_PREPARE = "_prepare"


@dataclass(frozen=True, slots=True)
class ObjectNames:
    """The names in an object. `prepare`: "" where nobody has constants prepared. `runtime`: for each function that the code
    calls and does not have, such as those that start threads, the function that stands in."""

    run: str
    prepare: str
    runtime: Mapping[str, str]


def renamed_object(artifact: Artifact, names: ObjectNames) -> bytes:
    """The object of all code of an artifact for a processor. Other objects see `names.run` and `names.prepare`, a program that
    it becomes a part of sees nothing.

    Raises InternalError if the artifact does not have these functions.
    """
    import llvmlite.binding as llvm

    tm = machine(parse_target(artifact.target))
    whole = _joined(artifact)
    for number, kernel in enumerate(artifact.kernels):
        part, entry = _joined(kernel), entry_name(artifact.symbol, number)
        prepare = f"{entry}{_PREPARE}" if kernel.prepared_bytes else ""
        _show_only(part, {kernel.symbol: entry} | ({f"{kernel.symbol}{_PREPARE}": prepare} if prepare else {}))
        whole.link_in(part)
    entries = {artifact.symbol: names.run} | ({f"{artifact.symbol}{_PREPARE}": names.prepare} if names.prepare else {})
    _show_only(whole, entries)
    for function in whole.functions:
        if function.is_declaration:
            _name(function, names.runtime.get(function.name, function.name))
        elif function.name in entries.values():
            function.visibility = "hidden"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options()))
    for function in whole.functions:
        if function.name in HALF_SYMBOLS and not function.is_declaration:
            function.linkage = "internal"
    code: bytes = tm.emit_object(whole)
    return code


def _joined(artifact: Artifact) -> Any:
    """The modules of an artifact as one, without those of its kernels."""
    import llvmlite.binding as llvm

    first, *others = map(llvm.parse_bitcode, artifact.modules)
    for other in others:
        first.link_in(other)
    return first


def _show_only(module: Any, entries: Mapping[str, str]) -> None:
    """Gives the entries their names, and keeps all else that the module defines to itself."""
    defined = [one for one in (*module.functions, *module.global_variables) if not one.is_declaration]
    missing = set(entries) - {one.name for one in defined}
    if missing:
        raise InternalError("the code lacks functions that its artifact names", found=", ".join(sorted(missing)))
    for one in defined:
        if one.name in entries:
            _name(one, entries[one.name])
        elif one.name not in HALF_SYMBOLS:  # code will call these by their names, of which no module tells
            one.linkage = "internal"


def _name(value: Any, name: str) -> None:
    value.name = name
    if value.name != name:
        raise InternalError("two functions of an object have one name", found=name)
