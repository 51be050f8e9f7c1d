"""Text form to programs: gives names and numbers their meaning. The grammar is in grammar.py.

A number takes the dtype of the operand beside it, of the tensor it starts, or i64 in an index; where nothing around
it has a dtype it must be written as dtype(number). Every error is marked in the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ...common.errors import ProgramError
from ...common.near import did_you_mean
from ..activations import EXPANSIONS
from ..check import find_fault
from ..dtype import DTYPES, DType, boolean, i64
from ..expr import Cast, Const, Expr, Local, Read, Var, binary, call, const
from ..language import COMPARISONS, OPERATORS
from ..program import Axis, Fold, Input, Origin, Program, Stage, Table, Tensor, fold_axes
from ..reserved import FUNCTIONS
from .grammar import LITERALS, Parser
from .hints import dtype_advice, function_advice
from .source import BYTE_ORDER_MARK, SourceText, Span
from .syntax import (
    Applied,
    AxisText,
    DeclarationText,
    FoldText,
    Indexed,
    Name,
    Number,
    ReturnText,
    StageText,
    StatementText,
    SyntaxNode,
)


def parse(text: str) -> Program:
    """The program that a text says. Errors: ProgramError with the place marked, for whatever is wrong with it."""
    given: object = text
    if not isinstance(given, str):
        advice = "it is a program already" if isinstance(given, Program) else ""
        raise ProgramError(
            "the text of a program is no text", expected="a str", found=type(given).__name__, advice=advice
        )
    return _ProgramReader(SourceText(text.removeprefix(BYTE_ORDER_MARK))).program()


def parse_expr(
    text: str, variables: Mapping[str, DType] | None = None, tensors: Mapping[str, Tensor] | None = None
) -> Expr:
    """One expression, as `print_expr` prints it.

    Args:
        variables: names and their dtypes: an i64 one is a `Var`, any other a `Local`. None: every free name is a `Var`.
        tensors: what may be indexed.
    """
    reader = _ProgramReader(SourceText(text))
    reader.tensors.update(tensors or {})
    names = (
        None
        if variables is None
        else {name: Var(name) if dtype == i64 else Local(name, dtype) for name, dtype in variables.items()}
    )
    return _ExpressionReader(reader, names).value(Parser(reader.source).lone_expression(), None)


class _ProgramReader:
    """Collects what the statements of one text declare, and where each thing stands."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.tensors: dict[str, Tensor] = {}
        self.inputs: list[Input] = []
        self.tables: list[Table] = []
        self.stages: list[Stage] = []
        self.outputs: tuple[Name, ...] | None = None
        self._defined: dict[str, Name] = {}  # what the statements define, the last of a name
        self._read_now: list[str] = []  # what the statement defines that is read now
        self._places: dict[int, tuple[object, Span]] = {}  # by identity; holds the object so that its id stays its own

    def at(self, thing: object, span: Span) -> None:
        """Remembers where a node, axis, tensor or stage stands."""
        self._places[id(thing)] = (thing, span)

    def program(self) -> Program:
        statements = Parser(self.source).program()
        self._defined = {name.text: name for statement in statements for name in _defined(statement)}
        for statement in statements:
            self._read_now = [name.text for name in _defined(statement)]
            if self.outputs is not None:
                raise self.source.error(_span(statement), "a statement after return", advice="return is the last line")
            match statement:
                case DeclarationText():
                    self._declare(statement)
                case StageText():
                    self._stage(statement)
                case FoldText():
                    self._fold(statement)
                case ReturnText(names=names):
                    self.outputs = names
        end = Span(len(self.source.text), len(self.source.text))
        if self.outputs is None:
            raise self.source.error(end, "the program returns nothing", expected="return NAME as the last line")
        for name in self.outputs:
            self.tensor(name)
            self.at(name.text, name.span)
        parts = (tuple(self.inputs), tuple(self.stages), tuple(n.text for n in self.outputs), tuple(self.tables))
        fault = find_fault(*parts)
        if fault is not None:
            known = [self._places[id(p)][1] for p in fault.places if id(p) in self._places]
            raise fault.error(self.source.mark(known[0] if known else self.outputs[0].span))
        return Program(*parts)

    def tensor(self, name: Name) -> Tensor:
        """The tensor of a name. Errors: none is declared before this place."""
        found = self.tensors.get(name.text)
        if found is None:
            raise self.source.error(
                name.span,
                f"unknown tensor {name.text!r}",
                expected="a tensor declared above: " + (", ".join(self.tensors) or "there is none"),
                advice=self._where_it_is(name.text) or did_you_mean(name.text, self.tensors) or "declare it first",
            )
        return found

    def _where_it_is(self, name: str) -> str:
        """Advice where a tensor is defined, but not above."""
        if name in self._read_now:
            return "a stage reads what stands above it; where each step needs the one before, write a fold"
        if name in self._defined:
            return f"line {self.source.line(self._defined[name].span)} defines it: move that up"
        return ""

    def dtype(self, name: Name) -> DType:
        if name.text not in DTYPES:
            expected, advice = "one of " + " ".join(DTYPES), dtype_advice(name.text)
            raise self.source.error(name.span, f"unknown dtype {name.text!r}", expected=expected, advice=advice)
        return DTYPES[name.text]

    def _define(self, name: Name, dtype: DType, shape: tuple[int, ...]) -> Tensor:
        if name.text in self.tensors:
            raise self.source.error(name.span, f"the name {name.text!r} is taken", advice="choose another name")
        tensor = Tensor(name.text, dtype, shape)
        self.tensors[name.text] = tensor
        self.at(tensor, name.span)
        return tensor

    def _declare(self, text: DeclarationText) -> None:
        dtype = self.dtype(text.dtype)
        tensor = self._define(text.name, dtype, tuple(int(n.value) for n in text.shape))
        if text.keyword == "table":
            self.tables.append(Table(tensor, tuple(self.number(n, dtype).value for n in text.values)))
        else:
            self.inputs.append(Input(tensor, text.keyword == "constant"))

    def number(self, text: Number, dtype: DType) -> Const:
        """Makes a literal as a dtype holds it. Errors: it cannot hold it."""
        if isinstance(text.value, bool) != (dtype == boolean):
            raise self.source.error(text.span, f"a number of dtype {dtype} was expected", found=str(text.value).lower())
        try:
            value = text.value if not math.isnan(text.value) else math.nan
            found = const(value, dtype)
        except (ProgramError, ValueError, OverflowError):
            raise self.source.error(
                text.span, f"{text.value} is no value of dtype {dtype}", advice="cast the other operand"
            ) from None
        self.at(found, text.span)
        return found

    def _axes(self, texts: tuple[AxisText, ...]) -> tuple[Axis, ...]:
        found = []
        for text in texts:
            axis = Axis(text.name.text, int(text.extent.value))
            self.at(axis, text.name.span.to(text.extent.span))
            found.append(axis)
        return tuple(found)

    def _stage(self, text: StageText) -> None:
        axes, reduction = self._axes(text.axes), self._axes(text.reduction)
        if len(text.names) != len(text.bodies):
            raise self.source.error(
                text.names[0].span, "names and right-hand sides differ in number",
                expected=f"{len(text.names)} expressions", found=f"{len(text.bodies)}",
            )  # fmt: skip
        reader = _ExpressionReader(self, {axis.name: axis.var for axis in axes + reduction})
        bodies = tuple(reader.value(body, None) for body in text.bodies)
        shape = tuple(axis.extent for axis in axes)
        tensors = tuple(self._define(n, b.dtype, shape) for n, b in zip(text.names, bodies, strict=True))
        self._add(Stage(tensors, axes, bodies, reduction, text.combiner), text.names[0].span)

    def _fold(self, text: FoldText) -> None:
        if not text.states:
            raise self.source.error(text.span, "a fold without state", expected="a line such as s[i: 64]: f32 = 0")
        all_axes = [self._axes(state.axes) for state in text.states]
        kept = tuple(tuple(axis.name for axis in own) for own in all_axes)
        whole = {axis.name: axis for axis in max(all_axes, key=len)}
        axes, ordered = tuple(whole[name] for name in fold_axes(kept)), self._axes(text.axis)
        tensors = tuple(
            self._define(state.name, self.dtype(state.dtype), tuple(axis.extent for axis in own))
            for state, own in zip(text.states, all_axes, strict=True)
        )
        reader = _ExpressionReader(self, {axis.name: axis.var for axis in axes + ordered})
        initial: list[Const] = []
        for state, tensor in zip(text.states, tensors, strict=True):
            value = reader.value(state.initial, tensor.dtype)
            if not isinstance(value, Const):
                raise self.source.error(state.initial.span, "a fold starts from numbers", expected="a literal")
            initial.append(value)
        named: list[tuple[str, Expr]] = []
        bodies: dict[str, Expr] = {}
        for let, name, node in text.steps:
            if let:
                value = reader.value(node, None)
                named.append((name.text, value))
                reader.define_local(name, value.dtype)
                continue
            if name.text in bodies or name.text not in (t.name for t in tensors):
                raise self.source.error(
                    name.span, f"{name.text!r} is no tensor of this fold, or has its new value already",
                    expected="one new value for each of " + ", ".join(t.name for t in tensors),
                    advice="a value in between is written: let NAME = ...",
                )  # fmt: skip
            bodies[name.text] = reader.value(node, self.tensors[name.text].dtype)
        missing = [t.name for t in tensors if t.name not in bodies]
        if missing:
            raise self.source.error(text.span, "a fold gives no new value", expected=f"{missing[0]} = ...")
        stage = Stage(
            tensors,
            axes,
            tuple(bodies[t.name] for t in tensors),
            ordered,
            "fold",
            Fold(kept, tuple(initial), tuple(named)),
        )
        self._add(stage, text.span)

    def _add(self, stage: Stage, span: Span) -> None:
        stage = replace(stage, origin=Origin(line=self.source.line(span)))
        self.at(stage, span)
        self.stages.append(stage)


class _ExpressionReader:
    """Reads the expressions of one stage. `names` are its axes and locals; where it is None, any free name is a variable."""

    def __init__(self, program: _ProgramReader, names: Mapping[str, Expr] | None) -> None:
        self._program = program
        self._source = program.source
        self._names = None if names is None else dict(names)

    def define_local(self, name: Name, dtype: DType) -> None:
        """Makes `name` a value of the fold from here on."""
        assert self._names is not None
        if name.text in self._names:
            raise self._source.error(name.span, f"the name {name.text!r} is taken", advice="choose another name")
        self._names[name.text] = Local(name.text, dtype)

    def value(self, node: SyntaxNode, expected: DType | None) -> Expr:
        """The expression that `node` says. `expected`: the dtype of a number that stands alone."""
        match node:
            case Number():
                found = self._number(node, expected)
            case Name():
                found = self._name(node)
            case Indexed():
                found = self._read(node)
            case Applied():
                found = self._applied(node, expected)
        self._program.at(found, node.span)
        return found

    def _number(self, node: Number, expected: DType | None) -> Expr:
        if isinstance(node.value, bool) and expected is None:
            expected = boolean
        if expected is None:
            raise self._source.error(
                node.span, "the dtype of this number is not known", advice=f"write f32({node.value}), or another dtype"
            )
        return self._program.number(node, expected)

    def _name(self, node: Name) -> Expr:
        if self._names is None:
            return Var(node.text)
        found = self._names.get(node.text)
        if found is None:
            if node.text in self._program.tensors:
                raise self._source.error(
                    node.span, f"the tensor {node.text!r} without indices", expected=f"{node.text}[...]"
                )
            raise self._source.error(
                node.span, f"unknown name {node.text!r}",
                expected="an axis of this stage" + (": " if self._names else "; it has none") + ", ".join(self._names),
                advice=did_you_mean(node.text, (*self._names, *LITERALS)),
            )  # fmt: skip
        # a new node each time: its place in the text goes by identity
        return Local(found.name, found.dtype) if isinstance(found, Local) else Var(node.text)

    def _read(self, node: Indexed) -> Expr:
        tensor = self._program.tensor(node.name)
        indices: list[Expr] = []
        for part in node.indices:
            index = self.value(part, i64)
            if index.dtype.is_integer and index.dtype != i64:
                index = Cast(index, i64)
                self._program.at(index, part.span)
            indices.append(index)
        return Read(tensor.name, tuple(indices), tensor.dtype)

    def _applied(self, node: Applied, expected: DType | None) -> Expr:
        name = node.name.text
        if name in DTYPES:
            if len(node.args) != 1:
                raise self._source.error(node.span, f"{name}(...) takes one value", found=f"{len(node.args)} values")
            if isinstance(node.args[0], Number):
                return self._program.number(node.args[0], DTYPES[name])
            return Cast(self.value(node.args[0], None), DTYPES[name])
        if name not in OPERATORS and name not in EXPANSIONS:
            known = (*FUNCTIONS, *EXPANSIONS)
            raise self._source.error(
                node.name.span, f"unknown function {name!r}", expected="one of " + " ".join(known),
                advice=function_advice(name, known),
            )  # fmt: skip
        count = OPERATORS[name].arity if name in OPERATORS else 1
        if count != len(node.args):
            noun = "argument" if count == 1 else "arguments"
            raise self._source.error(node.span, f"{name} takes {count} {noun}", found=f"{len(node.args)} arguments")
        args = self._operands(name, node.args, expected)
        try:
            if name in EXPANSIONS:
                return EXPANSIONS[name](*args)
            return binary(name, *args) if len(args) == 2 else call(name, *args)
        except ProgramError as error:
            raise self._source.error(
                node.name.span, error.problem, expected=error.expected, found=error.found, advice=error.advice
            ) from None

    def _operands(self, name: str, nodes: tuple[SyntaxNode, ...], expected: DType | None) -> list[Expr]:
        """Operands of one dtype; numbers among them take it from the others."""
        if name == "select":
            condition = self.value(nodes[0], boolean)
            return [condition, *self._operands("", nodes[1:], expected)]
        if name in COMPARISONS:
            expected = None
        elif name in OPERATORS:
            expected = OPERATORS[name].signature.operand or expected
        found: dict[int, Expr] = {}
        for index, node in sorted(enumerate(nodes), key=lambda item: _is_bare(item[1])):
            found[index] = self.value(node, expected)
            expected = found[index].dtype
        return [found[index] for index in range(len(nodes))]


def _is_bare(node: SyntaxNode) -> bool:
    """Says whether nothing inside has a dtype of its own."""
    if isinstance(node, Applied) and node.name.text not in DTYPES:
        args = node.args[1:] if node.name.text == "select" else node.args
        return all(_is_bare(arg) for arg in args)
    return isinstance(node, Number) and not isinstance(node.value, bool)


def _defined(statement: StatementText) -> tuple[Name, ...]:
    match statement:
        case DeclarationText(name=name):
            return (name,)
        case StageText(names=names):
            return names
        case FoldText(states=states):
            return tuple(state.name for state in states)
    return ()


def _span(statement: object) -> Span:
    match statement:
        case DeclarationText(name=name):
            return name.span
        case StageText(names=names) | ReturnText(names=names):
            return names[0].span
        case FoldText(span=span):
            return span
    raise TypeError(f"unknown statement {type(statement).__name__}")
