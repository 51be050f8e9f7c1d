"""What the text form says, as read: names are still names and numbers have no dtype yet. The grammar is in
grammar.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from .source import Span


@dataclass(frozen=True, slots=True)
class Name:
    """A name, and the place in the text where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    """A literal whose dtype comes from around it; a bool is always bool."""

    value: int | float | bool
    span: Span


@dataclass(frozen=True, slots=True)
class Indexed:
    """An element of a tensor, written NAME[...]."""

    name: Name
    indices: tuple[SyntaxNode, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Applied:
    """An operator or a function, by its name in `language.OPERATORS`, or a cast by the name of its dtype."""

    name: Name
    args: tuple[SyntaxNode, ...]
    span: Span


SyntaxNode = Name | Number | Indexed | Applied


@dataclass(frozen=True, slots=True)
class AxisText:
    """An axis and its extent, written NAME: NUMBER."""

    name: Name
    extent: Number


@dataclass(frozen=True, slots=True)
class DeclarationText:
    """An input, a constant or (with values) a table. `keyword` says which."""

    keyword: str
    name: Name
    dtype: Name
    shape: tuple[Number, ...]
    values: tuple[Number, ...] = ()


@dataclass(frozen=True, slots=True)
class StageText:
    """A pointwise stage, or (with a combiner) a reduction."""

    names: tuple[Name, ...]
    axes: tuple[AxisText, ...]
    combiner: str | None
    reduction: tuple[AxisText, ...]
    bodies: tuple[SyntaxNode, ...]


@dataclass(frozen=True, slots=True)
class StateText:
    """One tensor of a fold with the value it starts from."""

    name: Name
    axes: tuple[AxisText, ...]
    dtype: Name
    initial: SyntaxNode


@dataclass(frozen=True, slots=True)
class FoldText:
    """`steps` are (is a let, name, expression) in order."""

    axis: tuple[AxisText, ...]
    states: tuple[StateText, ...]
    steps: tuple[tuple[bool, Name, SyntaxNode], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class ReturnText:
    """The statement that names the outputs."""

    names: tuple[Name, ...]


StatementText = DeclarationText | StageText | FoldText | ReturnText
