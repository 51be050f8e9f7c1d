"""Sketches: schedule steps over named tunables, as data with a text form. `apply` makes a loop tree of one.

    sketch tiled
    variant pack = true
    factor i.tile of extent(t0.a0) at_most=16 default=6
    step rewrite(split_k, stage=t0, axis=a2, parts=4)
    step split(t0.a0, i.mid, i.tile)
    require i.tile * j.vectors <= target(vector_registers) - 4 because accumulators stay in the registers

Rewrites of the program come first. The key of a sketch is the hash of rewrites and steps alone: a new value in a domain or
another `require` orphans no record. A text is data: it is parsed by a whitelist and never run.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Union

import numpy as np
from numpy.typing import NDArray

from ..common.cached import cached_property
from ..common.errors import ScheduleError, TilesmithError
from ..common.outside import let_through
from ..targets.target import Target
from ..tensor.accuracy import Accuracy
from ..tensor.dtype import DTYPES
from ..tensor.program import Program
from ..tensor.rewrites.registry import is_allowed
from .extents import Array, Extent, dotted, parsed_expression, substitute, symbolic, to_text
from .extents import parse_extent as parse_extent_text
from .loops import LoopTree, initial_tree
from .opened import Opened
from .outline import outline
from .rewriting import Rewrite, parse_rewrite, rewritten
from .space import Choices, ConfigSpace, ConfigValue, columns
from .steps.stages import inline_all
from .steps.table import STEPS, Context
from .tunables import Tunable, parse_tunable

VariantValue = Union[bool, int, str]
STEPS_OF_STAGE = 100  # of a program: more than any rule or template ever made
LONGEST = 1 << 20  # characters of a text
_SHOWN = 200  # characters of a wrong line in an error


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One primitive with its arguments, which are names (str) or extents."""

    op: str
    arguments: tuple[str | Extent, ...]

    def text(self) -> str:
        """Writes `split(t0.a0, i.mid, i.tile)`."""
        parts = [a if isinstance(a, str) else to_text(a) for a in self.arguments]
        return f"{self.op}({', '.join(part for part in parts if part)})"

    def run(self, tree: LoopTree, context: Context, known: Mapping[str, Extent] | None) -> LoopTree:
        """Returns the tree after this step; leaves that are known are replaced first."""
        arguments = [a if isinstance(a, str) or known is None else substitute(a, known) for a in self.arguments]
        try:
            return STEPS[self.op].function(tree, context, *arguments)
        except ScheduleError as error:
            raise error if error.where else _located(error, tree, self) from None


def _located(error: ScheduleError, tree: LoopTree, step: Step) -> ScheduleError:
    """Returns the error with the outline, marked at the first stage or loop that the step names."""
    names = {stage.stage for stage in tree.stages} | {loop.name for stage in tree.stages for loop in stage.loops}
    mark = next((a for a in step.arguments if isinstance(a, str) and a in names), "")
    return ScheduleError(
        error.problem, expected=error.expected, found=error.found or step.text(), advice=error.advice,
        where=outline(tree, mark=mark),
    )  # fmt: skip


def run_steps(tree: LoopTree, steps: Sequence[Step], known: Mapping[str, Extent] | None = None) -> LoopTree:
    """Returns the tree after all steps of a sketch. Stages inlined in a row leave it at once (inlining.py says why)."""
    for inlines, numbered in groupby(enumerate(steps), lambda one: one[1].op == "inline"):
        group = list(numbered)
        together = _inlined(tree, [step for _, step in group]) if inlines else None
        if together is not None:
            tree = together
            continue
        for number, step in group:
            tree = step.run(tree, Context(number), known)
    return tree


def _inlined(tree: LoopTree, steps: Sequence[Step]) -> LoopTree | None:
    """Returns the tree after steps that inline; None where one of them fails.

    Run one by one, they then say which one, and what stood there.
    """
    try:
        return inline_all(tree, tuple(str(step.arguments[0]) for step in steps))
    except TilesmithError:
        return None


@dataclass(frozen=True, eq=False)
class Sketch:
    """A schedule with its numbers left open; see the head of this file."""

    name: str
    steps: tuple[Step, ...]
    tunables: tuple[Tunable, ...] = ()
    variants: tuple[tuple[str, VariantValue], ...] = ()
    requires: tuple[tuple[Extent, str], ...] = ()
    rewrites: tuple[Rewrite, ...] = ()

    @cached_property
    def key(self) -> str:
        """Returns the sha256 of rewrites and steps, as 64 hexadecimal digits."""
        return hashlib.sha256("\n".join(self._step_texts()).encode()).hexdigest()

    def _step_texts(self) -> list[str]:
        return [*(rewrite.text() for rewrite in self.rewrites), *(step.text() for step in self.steps)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def title(self) -> str:
        """Writes the name with its variants, for people: `tiled(pack=true)`."""
        chosen = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.variants)
        return f"{self.name}({chosen})" if chosen else self.name

    @cached_property
    def text(self) -> str:
        """Writes the text form; `parse_sketch` gives an equal sketch back."""
        lines = [f"sketch {self.name}"]
        lines += [f"variant {name} = {json.dumps(value)}" for name, value in self.variants]
        lines += [tunable.text() for tunable in self.tunables]
        lines += [f"step {text}" for text in self._step_texts()]
        lines += [f"require {to_text(holds)} because {reason}" for holds, reason in self.requires]
        return "\n".join(lines) + "\n"

    def keeps(self, accuracy: Accuracy) -> bool:
        """Tells whether its kernels do no more to the arithmetic than an accuracy allows."""
        return all(is_allowed(rewrite.name, accuracy) for rewrite in self.rewrites)

    def rewritten(self, program: Program) -> Program:
        """Returns the program that the steps are of: `program` after the rewrites."""
        return rewritten(program, self.rewrites) if self.rewrites else program

    def config_space(self, program: Program, target: Target) -> ConfigSpace:
        """Returns what the sketch leaves open at the sizes of a program, as strategies see it."""
        program = self.rewritten(program)
        numbers = environment(program, target)
        stages = len(program.stages) - sum(step.op == "inline" for step in self.steps)
        parameters = tuple(t.parameter(numbers) for t in self.tunables)
        return ConfigSpace(self.key, self.title, parameters, self.variants, stages)

    def apply(self, program: Program, target: Target, config: Mapping[str, ConfigValue]) -> LoopTree:
        """The loop tree at the numbers of a config; `opened` has those of populations.

        ScheduleError: a tunable without a number, or a step that does not fit the program.
        """
        missing = [t.name for t in self.tunables if t.name not in config]
        if missing:
            raise ScheduleError(
                f"the config lacks {', '.join(missing)}", expected="a number for each tunable of the sketch"
            )
        return self._tree(program, target, {t.name: _number(t, config[t.name]) for t in self.tunables})

    def opened(self, program: Program, target: Target) -> Opened:
        """The loop tree with all tunables unknown. ScheduleError: a step that does not fit the program."""
        return Opened(self._tree(program, target, {t.name: t.value for t in self.tunables}))

    def _tree(self, program: Program, target: Target, values: Mapping[str, Extent]) -> LoopTree:
        """Returns the loop tree at some numbers.

        Whatever goes wrong with a sketch of another program, of another version or of a stranger is a ScheduleError.
        """
        self._check_length(program)
        try:
            program = self.rewritten(program)
            known: dict[str, Extent] = {**environment(program, target), **values}
            tree = run_steps(initial_tree(program), self.steps, known)
            for holds, reason in self.requires:
                tree = tree.requiring(substitute(holds, known), reason)
        except TilesmithError:
            raise
        except Exception as error:
            let_through(error)
            raise ScheduleError(
                f"the sketch {self.title[:80]!r} cannot be applied to this program",
                expected="steps and rewrites of stages and axes that it has, with numbers that make sense",
                found=f"{type(error).__name__}: {error}",
            ) from error
        return tree

    def _check_length(self, program: Program) -> None:
        """Raises ScheduleError for a sketch of too many lines for its program: thousands would keep us busy for an hour."""
        most = STEPS_OF_STAGE * (len(program.stages) + 2)
        counts = (len(self.steps), len(self.tunables), len(self.requires), 10 * len(self.rewrites))
        if max(counts) > most:
            raise ScheduleError("the sketch is too long for its program", expected=f"at most {most} steps")

    def apply_population(
        self, program: Program, target: Target, config_space: ConfigSpace, choices: Choices
    ) -> LoopTree:
        """The loop trees of many candidates at once: extents are int64 arrays with one entry a row of `choices`.

        Who asks again and again opens the sketch once instead.
        """
        return self.opened(program, target).at(numbers_of(config_space, choices))


def numbers_of(config_space: ConfigSpace, choices: Choices) -> dict[str, Array]:
    """The values of the tunables of a sketch, one array each."""
    return {name: np.asarray(v, dtype=np.int64) for name, v in columns(config_space, choices).items()}


def _number(tunable: Tunable, value: ConfigValue) -> int:
    """The number of a tunable. ScheduleError for what no version's domain of it has."""
    if isinstance(value, str) or not tunable.allows(int(value)):
        raise ScheduleError(
            f"{tunable.name} is {str(value)[:80]}", expected=f"a number of the domain of: {tunable.text()[:200]}"
        )
    return int(value)


def valid(tree: LoopTree, count: int) -> NDArray[np.bool_]:
    """bool[count]: which candidates keep all conditions of a tree."""
    good = np.ones(count, dtype=np.bool_)
    for holds, _ in tree.conditions:
        good &= np.asarray(holds, dtype=np.bool_)
    return good


def even(tree: LoopTree, count: int) -> dict[tuple[str, str], NDArray[np.bool_]]:
    """bool[count] for each axis of each stage: in which candidates its tiles divide it, so that none hangs over an edge.

    The pieces of an axis tile each other exactly; what remains is whether the outermost one's stride divides its box. Copies
    are not asked: what they cover follows from their readers.
    """
    out = {}
    for stage in tree.stages:
        for axis, box in stage.box.items() if stage.copies is None else ():
            for piece in stage.pieces(axis)[:1]:
                whole = np.asarray(box) % np.asarray(piece.stride) == 0
                out[stage.stage, axis] = np.broadcast_to(whole, (count,))
    return out


def broken_conditions(tree: LoopTree) -> list[str]:
    """Returns the reasons why one config is not valid; empty when it is."""
    return [reason for holds, reason in tree.conditions if not holds]


def environment(program: Program, target: Target) -> dict[str, int]:
    """The numbers behind the leaves that are no tunables: axis extents, tensor dimensions, lanes, target sizes."""
    numbers: dict[str, int] = {}
    for stage in program.stages:
        for axis in stage.all_axes:
            numbers[f"extent({stage.name}.{axis.name})"] = axis.extent
    for declared in program.inputs:
        for n, extent in enumerate(declared.tensor.shape):
            numbers[f"extent({declared.tensor.name}.d{n})"] = extent
    for dtype in DTYPES.values():
        numbers[f"lanes({dtype.name})"] = target.lanes(dtype)
    for name in ("vector_registers", "cores", "fma_ports", "load_ports", "store_ports", "has_matrix_unit"):
        numbers[f"target({name})"] = int(getattr(target, name))
    for level, cache in enumerate(target.caches, 1):
        numbers[f"target(l{level})"] = cache.bytes
    return numbers


UNSCHEDULED = Sketch("default", ())  # no steps: the nests as the program is written, a candidate of every task


# ---- text --------------------------------------------------------------------------------------------------------------


def parse_sketch(text: str) -> Sketch:
    """Returns the sketch that a text stands for. ScheduleError names the first line that is wrong."""
    if len(text) > LONGEST:
        raise ScheduleError("the text of the sketch is too long", expected=f"at most {LONGEST} characters")
    name = ""
    variants: list[tuple[str, VariantValue]] = []
    tunables: list[Tunable] = []
    rewrites: list[Rewrite] = []
    steps: list[Step] = []
    requires: list[tuple[Extent, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        try:
            match word:
                case "sketch":
                    name = rest
                case "variant":
                    left, _, right = rest.partition(" = ")
                    variants.append((left, _variant(right)))
                case "factor" | "choice" | "flag":
                    tunables.append(parse_tunable(line.strip()))
                case "step" if rest.startswith("rewrite("):
                    if steps:
                        raise ValueError("rewrites come before all other steps")
                    rewrites.append(parse_rewrite(rest))
                case "step":
                    steps.append(parse_step(rest))
                case "require":
                    condition, _, reason = rest.partition(" because ")
                    requires.append((parse_extent_text(condition), reason))
                case "":
                    pass
                case _:
                    raise ValueError(f"unknown word {word!r}")
        except (ValueError, KeyError, IndexError, RecursionError, TilesmithError) as error:
            shown = line.strip()[:_SHOWN]
            raise ScheduleError(
                f"line {number} of a sketch is wrong: {error}", where=f"{number:4} | {shown}", found=shown
            ) from None
    return Sketch(name, tuple(steps), tuple(tunables), tuple(variants), tuple(requires), tuple(rewrites))


def _variant(text: str) -> VariantValue:
    value = json.loads(text)
    if not isinstance(value, bool | int | str):
        raise ValueError("a variant is true, false, a whole number or a word")
    return value


def parse_step(text: str) -> Step:
    """Returns the step that a text such as `split(t0.a0, i.tile)` stands for. ValueError for anything else."""
    node = parsed_expression(text)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        raise ValueError(f"not a step: {text!r}")
    op = node.func.id
    if op not in STEPS:
        raise ValueError(f"unknown step {op!r}")
    kinds = STEPS[op].kinds(len(node.args))
    return Step(op, tuple(_argument(kind, arg) for kind, arg in zip(kinds, node.args, strict=True)))


def _argument(kind: str, node: ast.AST) -> str | Extent:
    return symbolic(node) if kind == "e" else dotted(node)
