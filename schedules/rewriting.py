"""Program rewrites as the first steps of a sketch: named functions of tensor/rewrites/registry.py with arguments kept as text.

    rewrite(split_k, stage=t0, axis=a2, parts=4)

Arguments are names, whole numbers, truth values, and lists of these; none of them is a tunable, because a rewrite changes
the structure of the program. After each rewrite the program is brought to canonical form again, so that what follows names
stages and axes by position.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Union

from ..common.errors import ScheduleError
from ..tensor.program import Program
from ..tensor.rewrites.registry import apply_rewrite
from ..tensor.text.canonical import canonical
from .extents import dotted, parsed_expression

RewriteArgument = Union[str, int, bool, tuple["RewriteArgument", ...]]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite of a program, with its arguments."""

    name: str
    arguments: tuple[tuple[str, RewriteArgument], ...]

    def text(self) -> str:
        """Writes `rewrite(split_k, stage=t0, axis=a2, parts=4)`; `parse_rewrite` gives it back."""
        return f"rewrite({', '.join([self.name, *(f'{key}={_text(value)}' for key, value in self.arguments)])})"

    def run(self, program: Program) -> Program:
        """Returns the program rewritten, in canonical form. ProgramError: a rewrite that does not apply."""
        return canonical(self.applied(program))

    def applied(self, program: Program) -> Program:
        """Returns the program rewritten, with the names that the rewrite gives. ProgramError: one that does not apply."""
        return apply_rewrite(program, self.name, dict(self.arguments))


def make_rewrite(name: str, arguments: Mapping[str, object]) -> Rewrite:
    """Makes a rewrite from the arguments of a call. ScheduleError for one that has no text."""
    return Rewrite(name, tuple((key, _checked(value)) for key, value in arguments.items()))


def parse_rewrite(text: str) -> Rewrite:
    """Returns the rewrite that a text stands for. ValueError for anything else."""
    match parsed_expression(text):
        case ast.Call(func=ast.Name(id="rewrite"), args=[ast.Name(id=name)], keywords=keywords):
            return Rewrite(name, tuple((str(keyword.arg), _value(keyword.value)) for keyword in keywords))
    raise ValueError(f"not a rewrite: {text!r}")


@lru_cache(maxsize=256)
def rewritten(program: Program, rewrites: tuple[Rewrite, ...]) -> Program:
    """Returns the program after some rewrites, in order."""
    return rewrites[-1].run(rewritten(program, rewrites[:-1])) if rewrites else program


def _checked(value: object) -> RewriteArgument:
    if isinstance(value, bool | int):
        return value
    if isinstance(value, str) and all(part.isidentifier() for part in value.split(".")):
        return value
    if isinstance(value, list | tuple):
        return tuple(_checked(item) for item in value)
    raise ScheduleError(
        f"{value!r} cannot be an argument of a rewrite",
        expected="a name, a whole number, a truth value, or a list of these",
        advice="use s.variant for what should be searched: a rewrite changes the structure",
    )


def _text(value: RewriteArgument) -> str:
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, tuple) else str(value)


def _value(node: ast.AST) -> RewriteArgument:
    match node:
        case ast.Constant(value=bool(value)) | ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
        case ast.List(elts=items):
            return tuple(_value(item) for item in items)
    return dotted(node)
