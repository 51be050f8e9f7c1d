"""Artifacts as bytes for a disk: a line of JSON that says everything, then the objects one after the other, the modules that
they were made of, and, of a model, its kernels, each as an artifact.

Nothing of it is ever run or unpickled when it is read; whatever does not say exactly what an artifact says is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, fields
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from .artifact import Artifact, BufferSpec, Launch
from .rows import PitchedRows

T = TypeVar("T")
_CONTENTS = ("code", "parts", "modules", "kernels")


def to_bytes(artifact: Artifact) -> bytes:
    """The artifact as `from_bytes` reads it."""
    objects, kernels = (artifact.code, *artifact.parts), [to_bytes(kernel) for kernel in artifact.kernels]
    facts = {field.name: getattr(artifact, field.name) for field in fields(artifact) if field.name not in _CONTENTS}
    for name in ("inputs", "constants", "outputs"):
        facts[name] = [*map(spec_facts, facts[name])]
    for name in ("launches", "prepare_launches"):
        facts[name] = [*map(astuple, facts[name])]
    facts["objects"] = [len(content) for content in objects]
    facts["modules"] = [len(content) for content in artifact.modules]
    facts["kernels"] = [len(content) for content in kernels]
    return b"".join([json.dumps(facts).encode(), b"\n", *objects, *artifact.modules, *kernels])


def from_bytes(content: bytes) -> Artifact:
    """The artifact that `to_bytes` wrote. Errors: ValueError, KeyError or TypeError for anything else."""
    head, _, rest = content.partition(b"\n")
    facts = json.loads(head)
    objects = len(facts["objects"])
    modules = objects + len(facts["modules"])
    ends = list(accumulate(_each(facts["objects"] + facts["modules"] + facts["kernels"], _count), initial=0))
    if ends[-1] != len(rest) or not objects:
        raise ValueError("the objects are cut")
    contents = [rest[start:end] for start, end in pairwise(ends)]
    kernels = tuple(map(from_bytes, contents[modules:]))
    if any(kernel.kernels for kernel in kernels):
        raise ValueError("a kernel of a model has kernels")
    return Artifact(
        name=_text(facts["name"]),
        target=_text(facts["target"]),
        threads=_count(facts["threads"]),
        format=_text(facts["format"]),
        symbol=_text(facts["symbol"]),
        inputs=specs_of(facts["inputs"]),
        constants=specs_of(facts["constants"]),
        outputs=specs_of(facts["outputs"]),
        prepared_bytes=_count(facts["prepared_bytes"]),
        preparing_bytes=_count(facts["preparing_bytes"]),
        held=_each(facts["held"], _count),
        workspace_bytes=_count(facts["workspace_bytes"]),
        launches=_each(facts["launches"], _launch),
        prepare_launches=_each(facts["prepare_launches"], _launch),
        runtime_symbols=_each(facts["runtime_symbols"], _text),
        builder=_text(facts["builder"]),
        texts={_text(name): _text(text) for name, text in _pairs(facts["texts"])},
        seconds={_text(name): float(seconds) for name, seconds in _pairs(facts["seconds"])},
        code=contents[0],
        parts=tuple(contents[1:objects]),
        modules=tuple(contents[objects:modules]),
        kernels=kernels,
    )


def spec_facts(spec: BufferSpec) -> tuple[Any, ...]:
    """An argument for JSON: name, dtype and shape, and its rows where it lies in some."""
    facts = astuple(spec)
    return facts[:-1] if spec.rows is None else facts


def specs_of(facts: Any) -> tuple[BufferSpec, ...]:
    """Arguments of which `spec_facts` has become JSON. Errors: ValueError or TypeError for anything else."""
    return _each(facts, _spec)


def _spec(facts: Any) -> BufferSpec:
    name, dtype, shape, *rows = facts
    return BufferSpec(_text(name), _text(dtype), _each(shape, _count), *_each(rows, _rows))


def _rows(facts: Any) -> PitchedRows:
    return PitchedRows(*_each(facts, _count))


def _launch(facts: Any) -> Launch:
    symbol, grid, block, shared_bytes = facts
    return Launch(_text(symbol), _each(grid, _count), _each(block, _count), _count(shared_bytes))


def _each(facts: Any, one: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(facts, list):
        raise ValueError(f"expected a list, found {facts!r}")
    return tuple(one(fact) for fact in facts)


def _pairs(facts: Any) -> list[tuple[Any, Any]]:
    if not isinstance(facts, dict):
        raise ValueError(f"expected names and values, found {facts!r}")
    return list(facts.items())


def _text(fact: Any) -> str:
    if not isinstance(fact, str):
        raise ValueError(f"expected a text, found {fact!r}")
    return fact


def _count(fact: Any) -> int:
    if type(fact) is not int or fact < 0:
        raise ValueError(f"expected a number from 0, found {fact!r}")
    return fact
