"""What a module keeps: its attributes, and what is in containers among them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

_CONTAINERS = (dict, OrderedDict, defaultdict, list, set)


@contextmanager
def left_as_it_is(module: Any) -> Iterator[None]:
    """Takes back what a module keeps while it is traced: tensors without values, such as anchors that a detector has for the
    next image of the same size, which calls after it would find.

    Containers are taken back with the rest. A module of transformers notes in an attribute that its hooks are installed, which
    are in dicts: with one of both alone the next call would install them again, and count each layer twice.
    """
    before: dict[int, tuple[Any, Any]] = {}
    for part in module.modules():
        _hold(vars(part), before)
    try:
        yield
    finally:
        for container, kept in before.values():
            container.clear()
            (container.extend if isinstance(container, list) else container.update)(kept)


def _hold(value: Any, before: dict[int, tuple[Any, Any]]) -> None:
    """Notes down what a container holds, and the containers in it. Others than those of Python may do anything when cleared."""
    if type(value) not in _CONTAINERS or id(value) in before:
        return
    before[id(value)] = (value, copy(value))
    for inner in value.values() if isinstance(value, dict) else value:
        _hold(inner, before)
