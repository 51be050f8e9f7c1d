"""New interpreters of this Python: never forks, and without the main module of the one that starts them."""

from __future__ import annotations

import sys


def interpreter(module: str, call: str) -> list[str]:
    """The command of an interpreter with this one's module path, which evaluates `call`, a name of `module` with arguments."""
    name = call.partition("(")[0]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; from {module} import {name}; {call}"]
