"""A person's names in the outline of a schedule, which is made of canonical ones (tensor/text/canonical.py)."""

from __future__ import annotations

import re

from ..tensor.program import Program
from ..tensor.rewrites.registry import normalise
from ..tensor.text.canonical import canonical_names
from .task import normalised

_NAME = re.compile(r"\b([xtc]\d+)(?:\.(a\d+))?\b")


def with_names(outline: str, program: Program) -> str:
    """Writes an outline with the names of `program`, and, on a line at its head, what configs and sketches call them.

    Axes that a normal form has merged, or a sketch rewritten, keep their canonical names: they are none of the person's.
    """
    tensors = canonical_names(program)
    axes = _axes(program)

    def name(found: re.Match[str]) -> str:
        tensor, axis = found.groups()
        person = tensors.get(tensor, tensor)
        return person if axis is None else f"{person}.{axes.get((tensor, axis), axis)}"

    stages = {new: ", ".join(f"{axis} {old}" for (stage, axis), old in axes.items() if stage == new) for new in tensors}
    listed = (f"{new} = {old}{f' ({stages[new]})' if stages[new] else ''}" for new, old in tensors.items())
    return f"# {', '.join(listed)}\n{_NAME.sub(name, outline)}"


def _axes(program: Program) -> dict[tuple[str, str], str]:
    """Maps (canonical stage, canonical axis) to the person's name of that axis."""
    form, body = normalise(program), normalised(program)
    found: dict[tuple[str, str], str] = {}
    for new, old in canonical_names(form).items():
        if new in body.producers:
            written = {(axis.name, axis.extent) for axis in program.producers[old].all_axes}
            pairs = zip(body.producers[new].all_axes, form.producers[old].all_axes, strict=True)
            found |= {(new, a.name): b.name for a, b in pairs if (b.name, a.extent) in written and a.extent == b.extent}
    return found
