"""torchvision beside a CPU build of torch, whose compiled operators are missing: the import wants them declared, no more."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_LIBRARIES: list[Any] = []  # what is declared in one lasts as long as it


@cache
def torchvision() -> ModuleType | None:
    """torchvision, or None where it is not installed. It is there for its models: its own operators cannot be called."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    import torch

    text = (Path(found.origin).parent / "_meta_registrations.py").read_text()
    names = {*re.findall(r'register_meta\("(\w+)"', text), *re.findall(r'"torchvision::(\w+)"', text)}
    missing = sorted(name for name in names if not hasattr(torch.ops.torchvision, name))
    if missing:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            library.define(f"{name}() -> ()")
        _LIBRARIES.append(library)
    return importlib.import_module("torchvision")
