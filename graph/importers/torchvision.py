"""torchvision beside a CPU build of torch, whose compiled operators are missing: its import wants them declared, no more.

Its models are made of torch's own operators and run; what of its own is called raises as before.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

from .torch_export import torch_module

_LIBRARIES: list[Any] = []  # what is declared in one lasts as long as it


@cache
def declare_operators() -> None:
    """Declares the operators that torchvision's import asks for and that are not there; nothing where it is not installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return
    torch = torch_module()
    try:
        text = (Path(found.origin).parent / "_meta_registrations.py").read_text(encoding="utf-8")
    except OSError:  # of a version that asks for none
        return
    names = {*re.findall(r'register_meta\("(\w+)"', text), *re.findall(r'"torchvision::(\w+)"', text)}
    missing = sorted(name for name in names if not hasattr(torch.ops.torchvision, name))
    if missing:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            library.define(f"{name}() -> ()")
        _LIBRARIES.append(library)
