"""What model_exports.py wrote, read without torch: our own contender never loads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def read_arrays(path: Path) -> list[np.ndarray]:
    """The arrays of a file, in order."""
    with np.load(path) as held:
        return [held[f"arr_{number}"] for number in range(len(held.files))]


def facts_of(folder: Path) -> dict[str, Any]:
    """Seconds of the import, stages, bytes of the constants; `failed`: why a form is missing."""
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return facts
