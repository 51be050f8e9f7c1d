"""load(path): whatever was saved, a model or a kernel; what lies at the path says which.

It imports what is needed for the one that it finds: who runs kernels that were saved needs nothing else of this package.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..common.errors import ArgumentError
from ..common.given import file_place
from ..runtime.export.description import descriptions

if TYPE_CHECKING:
    from ..runtime.kernel import Kernel
    from .model import Model

_MOST_NAMES = 5  # of a folder's files, in an error


def load(path: str | os.PathLike[str]) -> Model | Kernel:
    """Reads back what was saved: a `Model` from the folder or file of `Model.save`, a `Kernel` from what `Kernel.save`,
    `Kernel.export` or `tune compile` wrote into a folder (`Model.load` and `Kernel.load` take one of both alone).

    A kernel is code: load only what you trust. It is checked to be what was saved, whole, and for this processor.

    Raises:
        ArgumentError: there is neither; what is there was changed, is not whole, or is of another version.
        TargetError: the kernel is for other processors.
        EnvironmentFailure: the library of a kernel cannot be loaded.
    """
    path = file_place(path, "what was saved")
    if descriptions(path):
        from ..runtime.kernel import Kernel

        return Kernel.load(path)
    from .model_files import looks_like_model

    if looks_like_model(path):
        from .model import Model

        return Model.load(path)
    raise ArgumentError(
        f"{path} is nothing that was saved",
        expected="a folder of Kernel.save, Kernel.export or `tune compile`, or a folder or .safetensors file of Model.save",
        found=_found(path),
    )


def _found(path: str | os.PathLike[str]) -> str:
    if not os.path.isdir(path):
        return "a file of another kind" if os.path.exists(path) else "no such file or folder"
    names = sorted(os.listdir(path))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"a folder with {', '.join(names[:_MOST_NAMES])}{more}" if names else "an empty folder"
