"""A kernel as a notebook shows it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ..codegen.artifact import Artifact
from ..common.errors import TilesmithError
from ..common.notebook import facts_html

_SHOWN = ("program", "outline")


def kernel_html(artifact: Artifact, kernel: str, provenance: str, text: Callable[[str], str]) -> str:
    """Facts, and the texts of the stages that people read, as far as the kernel has them."""
    facts = {"kernel": kernel, "target": artifact.target, "served by": provenance}
    texts: dict[str, str] = {}
    for stage in _SHOWN:
        with suppress(TilesmithError):
            texts[stage] = text(stage)
    return facts_html(artifact.name, facts, texts)
