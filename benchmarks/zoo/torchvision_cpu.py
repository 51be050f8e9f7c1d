"""torchvision, also beside a CPU build of torch, and transformers, which imports it."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from types import ModuleType

from tilesmith.graph.importers.torchvision import declare_operators


@cache
def torchvision() -> ModuleType | None:
    """torchvision, or None where it is not installed. It is there for its models: its own operators cannot be called."""
    if importlib.util.find_spec("torchvision") is None:
        return None
    declare_operators()
    return importlib.import_module("torchvision")


def transformers() -> ModuleType:
    """transformers, which imports torchvision where that is installed."""
    torchvision()
    return importlib.import_module("transformers")
