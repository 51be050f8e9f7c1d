"""Artifacts as bytes for a disk: a line of JSON that says everything, then the objects one after the other.

Nothing of it is ever run or unpickled when it is read; whatever does not say exactly what an artifact says is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from .artifact import Artifact, BufferSpec, Launch

T = TypeVar("T")


def to_bytes(artifact: Artifact) -> bytes:
    """The artifact as `from_bytes` reads it."""
    objects = (artifact.code, *artifact.parts)
    facts = {
        **{name: getattr(artifact, name) for name in (*_TEXTS, *_NUMBERS)},
        **{name: [_spec_facts(spec) for spec in getattr(artifact, name)] for name in _SPECS},
        **{name: [_launch_facts(launch) for launch in getattr(artifact, name)] for name in _LAUNCHES},
        "runtime_symbols": artifact.runtime_symbols,
        "texts": artifact.texts,
        "seconds": artifact.seconds,
        "objects": [len(content) for content in objects],
    }
    return b"".join([json.dumps(facts).encode(), b"\n", *objects])


def from_bytes(content: bytes) -> Artifact:
    """The artifact that `to_bytes` wrote. Errors: ValueError, KeyError or TypeError for anything else."""
    head, _, rest = content.partition(b"\n")
    facts = json.loads(head)
    ends = list(accumulate(_each(facts["objects"], _count), initial=0))
    if ends[-1] != len(rest) or len(ends) < 2:
        raise ValueError("the objects are cut")
    code, *parts = (rest[start:end] for start, end in pairwise(ends))
    return Artifact(
        **{name: _text(facts[name]) for name in _TEXTS},
        **{name: _count(facts[name]) for name in _NUMBERS},
        **{name: _each(facts[name], _spec) for name in _SPECS},
        **{name: _each(facts[name], _launch) for name in _LAUNCHES},
        runtime_symbols=_each(facts["runtime_symbols"], _text),
        texts={_text(name): _text(text) for name, text in _pairs(facts["texts"])},
        seconds={_text(name): float(seconds) for name, seconds in _pairs(facts["seconds"])},
        code=code,
        parts=tuple(parts),
    )


_TEXTS = ("name", "target", "format", "symbol", "builder")
_NUMBERS = ("threads", "prepared_bytes", "workspace_bytes")
_SPECS = ("inputs", "constants", "outputs")
_LAUNCHES = ("launches", "prepare_launches")


def _spec_facts(spec: BufferSpec) -> list[object]:
    return [spec.name, spec.dtype, spec.shape]


def _spec(facts: Any) -> BufferSpec:
    name, dtype, shape = facts
    return BufferSpec(_text(name), _text(dtype), _each(shape, _count))


def _launch_facts(launch: Launch) -> list[object]:
    return [launch.symbol, launch.grid, launch.block, launch.shared_bytes]


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
