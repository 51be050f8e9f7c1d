"""torchvision, also beside a CPU build of torch, and transformers, which imports it."""

from __future__ import annotations

import importlib
from types import ModuleType

from tilesmith.graph.importers.torchvision import torchvision_module as torchvision


def transformers() -> ModuleType:
    """transformers, which imports torchvision where that is installed."""
    torchvision()
    return importlib.import_module("transformers")
