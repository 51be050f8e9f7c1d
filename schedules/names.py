"""A person's names in the outline of a schedule, which is made of canonical ones (tensor/text/canonical.py).

Canonical names are given by position, anew after each rewrite of a sketch. So names are followed through all of them: from the
program that a person wrote to its normal form, and from there rewrite by rewrite. What a rewrite makes of a stage is called
after it (`total_joined`), and axes that it adds have the names that it gave them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..tensor.program import Program, Stage
from ..tensor.rewrites.registry import normalise
from ..tensor.text.canonical import canonical, canonical_names
from .sketch import Sketch

_NAME = re.compile(r"\b([xtc]\d+)(?:\.(a\d+))?\b")
_MADE = re.compile(r"([xtc]\d+)(_\w+)")  # the name of what a rewrite makes: that of what it is made of, and a word
_POSITION = re.compile(r"a\d+")


@dataclass(frozen=True, slots=True)
class PersonNames:
    """Canonical tensor -> name, and (canonical stage, canonical axis) -> name, of the program that the steps of a sketch are
    of. Axes that a normal form or a rewrite has merged or cut have none."""

    tensors: dict[str, str]
    axes: dict[tuple[str, str], str]


def person_names(program: Program, sketch: Sketch) -> PersonNames:
    """Returns the names in the loop tree of a sketch for a program that a person wrote."""
    form = normalise(program)
    names, current = _of_normal_form(program, form), canonical(form)
    for rewrite in sketch.rewrites:
        made = rewrite.applied(current)
        names, current = _after(names, current, made), canonical(made)
    return names


def with_names(outline: str, program: Program, sketch: Sketch) -> str:
    """Writes an outline with the names of `program`, and, on a line at its head, what configs and steps call them."""
    names = person_names(program, sketch)

    def name(found: re.Match[str]) -> str:
        tensor, axis = found.groups()
        person = names.tensors.get(tensor, tensor)
        return person if axis is None else f"{person}.{names.axes.get((tensor, axis), axis)}"

    stages = {
        new: ", ".join(f"{axis} {old}" for (stage, axis), old in names.axes.items() if stage == new)
        for new in names.tensors
    }
    listed = (f"{new} = {old}{f' ({stages[new]})' if stages[new] else ''}" for new, old in names.tensors.items())
    return f"# {', '.join(listed)}\n{_NAME.sub(name, outline)}"


def _of_normal_form(program: Program, form: Program) -> PersonNames:
    """The names of a normal form: axes that a person wrote have theirs, those that were merged or made have none."""
    tensors, axes = canonical_names(form), {}
    for new, old in tensors.items():
        origin = next((name for name in (old, old.rpartition("_")[0]) if name in program.producers), None)
        if old in form.producers and origin is not None:
            written = {(axis.name, axis.extent) for axis in program.producers[origin].all_axes}
            for number, axis in enumerate(form.producers[old].all_axes):
                if (axis.name, axis.extent) in written:
                    axes[new, f"a{number}"] = axis.name
    return PersonNames(tensors, axes)


def _after(names: PersonNames, before: Program, made: Program) -> PersonNames:
    """The names of what a rewrite has made of a program in canonical form, before it is brought to that form itself."""
    tensors: dict[str, str] = {}
    axes: dict[tuple[str, str], str] = {}
    for new, old in canonical_names(made).items():
        origin, word = _origin(old, names)
        tensors[new] = names.tensors.get(origin, origin) + word
        if old in made.producers:
            called = _axes(names, before.producers.get(origin), made.producers[old], origin)
            axes |= {(new, position): name for position, name in called.items()}
    return PersonNames(tensors, axes)


def _origin(name: str, names: PersonNames) -> tuple[str, str]:
    """Returns what a tensor was or was made of, and the word that tells it from that."""
    found = _MADE.fullmatch(name)
    if name in names.tensors or found is None:
        return name, ""
    return found[1], found[2]


def _axes(names: PersonNames, before: Stage | None, stage: Stage, origin: str) -> dict[str, str]:
    """The names of the axes of a stage that was another before, or was made of it, by position."""
    extents = {axis.name: axis.extent for axis in before.all_axes} if before is not None else {}
    found: dict[str, str] = {}
    for number, axis in enumerate(stage.all_axes):
        own = names.axes.get((origin, axis.name)) if extents.get(axis.name) == axis.extent else None
        if own is None and not _POSITION.fullmatch(axis.name):
            own = axis.name  # of the rewrite
        if own is not None and own not in found.values():
            found[f"a{number}"] = own
    return found
