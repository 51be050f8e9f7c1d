"""torchvision, also beside a build of torch that its compiled operators do not fit.

Its import wants them declared, no more: its models are made of torch's own operators and run. What of its own is called raises
as before.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .torch_export import torch_module

_LIBRARIES: list[Any] = []  # what is declared in one lasts as long as it


@cache
def torchvision_module() -> ModuleType | None:
    """torchvision, imported now; None where it is not installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    torch_module()
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:  # its library of operators could not be loaded: "operator torchvision::nms does not exist"
        if not _declared(Path(found.origin).parent):
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]  # what the failed import has left: its modules hold the package that is gone
    return importlib.import_module("torchvision")


def prepare_torchvision() -> None:
    """Imports torchvision where it is installed, for modules that ask for it.

    What its import raises is raised again where they ask; those that do not need not know. Errors: UserError without torch.
    """
    with suppress(ImportError, RuntimeError, AttributeError):
        torchvision_module()


def _declared(folder: Path) -> bool:
    """Declares the operators that the import of torchvision in `folder` asks for and that are missing; whether there were any.

    To be called only once its library has failed to load: it declares them too, and a second declaration ends the process.
    """
    torch = torch_module()
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("_*_registrations.py"))]
    names = {name for text in texts for name in re.findall(r'(?:register_meta\("|"torchvision::)(\w+)"', text)}
    missing = sorted(name for name in names if not hasattr(torch.ops.torchvision, name))
    if missing:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in missing:
            library.define(f"{name}() -> ()")
        _LIBRARIES.append(library)
    return bool(missing)
