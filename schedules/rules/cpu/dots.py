"""The rule of dots: sums of products of narrow elements on instructions that multiply words of them, where the target has some.

A rewrite (tensor/rewrites/dot_words.py) makes words of both operands along the depth, and a sum over words, which other rules
schedule as any sum of products: register tiles to whose vectors an instruction adds, masked at edges; windows; blocks of packed
operands. The words are made in nests of their own, once each, and once for all where an operand is constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....common.remembered import remembered
from ....targets.matrix_instructions import InstructionScope, MatrixInstruction, vector_instruction
from ....tensor.dots import DOTS as DOTS_OF_WORDS
from ....tensor.dots import SMALL, Dot
from ....tensor.dtype import i8
from ....tensor.expr import Expr, Read, Var, variables
from ....tensor.program import Program, Stage
from ....tensor.rewrites.added_halves import can_add_halves
from ....tensor.rewrites.crossed_words import can_cross_words
from ....tensor.rewrites.dot_words import can_dot, can_dot_small, guarded_dot_of_stage, is_packed, with_word_reads
from ....tensor.rewrites.pad_reads import can_pad_reads, guarded_reads
from ....tensor.rewrites.registry import apply_rewrite
from ....tensor.rewrites.window_words import can_window_words
from ...access import depends, output_stride, reads_of, uses_of
from ...prepared import constant_tensors
from ...schedule import Schedule
from ..rule import Decided, Rule

LEAST_DEPTH = 16  # elements from which on making words of them may pay
LEAST_USES = 8  # of each element of an operand that is no constant
LEAST_USES_CROSSED = 32  # of each word, so that memory bounds nothing, and the sum of its own products counts little
WORDS_ADDED = (4, 2)  # words of bytes of which sums are added as halves
QUADS, PAIRS = DOTS_OF_WORDS["quad_dot"], DOTS_OF_WORDS["pair_dot"]


@dataclass(frozen=True, slots=True)
class WordsAsked:
    """Notes that another rule has made a sum of halves, which only pays in words."""


@dataclass(frozen=True, slots=True)
class WordsInPlace:
    """Notes that words which lie in memory as they are become no stage of their own."""


@dataclass(frozen=True, slots=True)
class Found:
    """A stage that an instruction fits, and how it is rewritten."""

    stage: str
    rewrite: str
    depth: str
    moved: str

    @property
    def arguments(self) -> dict[str, str]:
        """Returns the arguments of the rewrite."""
        arguments = {"stage": self.stage, "depth": self.depth}
        return {**arguments, "moved": self.moved} if self.moved else arguments


def multiplies_halves_alone(instructions: tuple[MatrixInstruction, ...]) -> bool:
    """Says whether a target multiplies words of halves, and bytes of any size no other way: fewer products of halves are fewer
    instructions then."""
    if any(row.scope is InstructionScope.TILES for row in instructions):
        return False
    quads, pairs = (vector_instruction(instructions, dot.left, dot.right) for dot in (QUADS, PAIRS))
    return pairs is not None and quads is None


def _prepare(s: Schedule, decided: Decided) -> Decided:
    if not decided.instructions or _next(s, decided.instructions) is None:
        return decided
    if decided.fact(WordsAsked) is None and not s.variant("dots", [True, False]):
        return replace(decided, few=True)  # it is a way out, of which the usual structures will do
    bytes_ = _has_bytes(s, decided.instructions) and s.variant("bytes", [True, False])
    while (found := _next(s, decided.instructions)) is not None:
        name, arguments = found
        narrow = _stays_narrow(s.program, arguments["stage"]) if bytes_ and name == "half_words" else ""
        s.rewrite(name, **arguments, **({"narrow": narrow} if narrow else {}))
    if _crosses(s, decided.instructions):
        _cross(s)
    if _next_added(s.program) is not None and s.allows("added_halves") and s.variant("halves added", [True, False]):
        _add_halves(s)
    if _there(s.program) and s.variant("words in place", [True, False]):
        return decided.noting(WordsInPlace())
    return decided


def _prepare_words(s: Schedule, decided: Decided) -> Decided:
    """Inlines words that are read in place, now that all rewrites are done, and keeps the others as nests of their own."""
    if decided.fact(WordsInPlace) is not None:
        s.inline(*_there(s.program))
    return decided.with_nests(_words(s.program))


def _there(program: Program) -> list[str]:
    """Returns the stages of words that may be read in place."""
    return [stage.name for stage in program.stages if _is_there(program, stage)]


def _has_bytes(s: Schedule, instructions: tuple[MatrixInstruction, ...]) -> bool:
    """Says whether the next words are halves of a constant that may stay bytes in memory."""
    found = _next(s, instructions)
    return found is not None and found[0] == "half_words" and _stays_narrow(s.program, found[1]["stage"]) != ""


def _stays_narrow(program: Program, stage: str) -> str:
    """A constant operand of bytes with a sign that few rows read; "" for none. Bytes are half of the traffic and become halves
    at each read, which many rows share in halves that were made once."""
    constants = constant_tensors(program)
    found = program.stage(stage)
    few = [
        r for r in found.reads() if r.tensor in constants and r.dtype == i8 and uses_of(found, r) < LEAST_USES_CROSSED
    ]
    return few[0].tensor if few else ""


def _crosses(s: Schedule, instructions: tuple[MatrixInstruction, ...]) -> bool:
    """Says whether words are added before they are multiplied: where an instruction of its own adds to sums anyway, that costs
    no more instructions, and half of the multiplications."""
    row = vector_instruction(instructions, PAIRS.left, PAIRS.right)
    if row is None or row.adds or not s.allows("crossed_words") or _next_crossed(s.program) is None:
        return False
    return s.variant("crossed", [True, False])


def _cross(s: Schedule) -> None:
    while (found := _next_crossed(s.program)) is not None:
        s.rewrite("crossed_words", stage=found)


def _next_crossed(program: Program) -> str | None:
    """Returns the next sum over words that is worth crossing. One operand is constant: what is its own is known ahead."""
    constants = constant_tensors(program)
    for stage in program.stages:
        if can_cross_words(program, stage.name):
            known = [read for read in stage.reads() if read.tensor in constants]
            if len(known) == 1 and min(uses_of(stage, read) for read in stage.reads()) >= LEAST_USES_CROSSED:
                return stage.name
    return None


def _add_halves(s: Schedule) -> None:
    while (found := _next_added(s.program)) is not None:
        stage, depth, words = found
        s.rewrite("added_halves", stage=stage, depth=depth, words=words)


def _next_added(program: Program) -> tuple[str, str, int] | None:
    """Returns the next sum over words of bytes whose sums fit in halves for several words, the depth along which these lie,
    and how many of them."""
    for stage in program.stages:
        for axis in sorted(stage.reduction, key=lambda a: -a.extent):
            for words in WORDS_ADDED:
                if can_add_halves(program, stage.name, axis.name, words):
                    return stage.name, axis.name, words
    return None


def _is_there(program: Program, stage: Stage) -> bool:
    """Tells whether words lie in memory as they are, and are read one at a time, for all lanes alike, by what is no window."""
    if not is_packed(stage) or len(program.consumers[stage.name]) != 1 or stage.name in constant_tensors(program):
        return False
    (reader,) = program.consumers[stage.name]
    reads = stage.reads()
    vectors = [a.name for a in reader.axes if a.extent > 1 and output_stride(reader, a.name) == 1]
    for read in reads_of(reader, stage.name):
        if any(depends(read, name) for name in vectors) or not all(_is_place(index, reader) for index in read.indices):
            return False
    (tensor,) = {read.tensor for read in reads}
    size, (word,) = program.tensors[tensor].shape[-1], with_word_reads(stage).bodies
    return isinstance(word, Read) and size % len(reads) == 0 and stage.axes[-1].extent * len(reads) == size


def _is_place(index: Expr, reader: Stage) -> bool:
    """Tells whether an index is an axis, or a place of the depth."""
    return isinstance(index, Var) or set(variables(index)) <= {axis.name for axis in reader.reduction}


def _next(s: Schedule, instructions: tuple[MatrixInstruction, ...]) -> tuple[str, dict[str, str]] | None:
    """Returns the next rewrite."""
    for stage in s.program.stages:
        for name, arguments, allowed in _ways(s.program, stage.name, instructions):
            if s.allows(allowed):
                return name, dict(arguments)
    return None


@remembered  # each combination of variants asks again
def _ways(
    program: Program, name: str, instructions: tuple[MatrixInstruction, ...]
) -> tuple[tuple[str, tuple[tuple[str, str], ...], str], ...]:
    """Returns the rewrites of a stage that may come next, with their arguments and the rewrite that has to be allowed. A stage
    that reads its data under guards gets a border for them first."""
    stage = program.stage(name)
    found = dot_for(program, stage, instructions)
    ways = [] if found is None else [(found.rewrite, tuple(found.arguments.items()), found.rewrite)]
    for arguments in _borders(program, stage):
        padded = apply_rewrite(program, "pad_reads", arguments)
        found = dot_for(padded, padded.stage(stage.name), instructions)
        if found is not None:
            ways.append(("pad_reads", tuple(arguments.items()), found.rewrite))
    return tuple(ways)


def _borders(program: Program, stage: Stage) -> list[dict[str, str]]:
    """Returns how the tensors that a sum reads under guards would get a border."""
    tensors = dict.fromkeys(read.tensor for read in stage.reads()) if stage.combiner == "sum" else {}
    guarded = [tensor for tensor in tensors if guarded_reads(stage, tensor) and can_pad_reads(program, stage, tensor)]
    return [{"stage": stage.name, "tensor": tensor} for tensor in guarded]


def dot_for(program: Program, stage: Stage, instructions: tuple[MatrixInstruction, ...]) -> Found | None:
    """Returns how the words of a stage are made, or None where no instruction fits, or none would pay."""
    found = guarded_dot_of_stage(stage)
    if found is None or len(stage.reads()) != 2:
        return None
    dot, reads, alike = found
    rewrite = _rewrite_of(dot, instructions)
    if rewrite is None:
        return None
    constants = constant_tensors(program)
    if all(read.tensor in constants for read in reads) or not any(
        output_stride(stage, a.name) == 1 for a in stage.axes
    ):
        return None
    for read in reads:
        if read.tensor not in constants and uses_of(stage, read) < LEAST_USES:
            return None
    moved = next(read.tensor for read in reads if read.tensor not in constants) if alike else ""
    small = rewrite == "half_words" and vector_instruction(instructions, dot.left, SMALL) is not None
    for axis in sorted(stage.reduction, key=lambda a: -a.extent):
        if axis.extent >= LEAST_DEPTH and can_dot(program, stage.name, axis.name):
            if small and can_dot_small(program, stage.name, axis.name, moved):
                return Found(stage.name, "small_words", axis.name, moved)
            return Found(stage.name, rewrite, axis.name, moved if rewrite == "dot_words" else "")
    return _window_for(program, stage, instructions)


def _window_for(program: Program, stage: Stage, instructions: tuple[MatrixInstruction, ...]) -> Found | None:
    """Returns how words of the points of a window are made, where no depth is long enough, as that of an image's colours: along
    the axis where fewest places of a word are left over."""
    if vector_instruction(instructions, PAIRS.left, PAIRS.right) is None:
        return None
    if all(read.tensor not in constant_tensors(program) for read in stage.reads()):
        return None
    fitting = [axis for axis in stage.reduction if can_window_words(program, stage.name, axis.name)]
    best = min(reversed(fitting), key=lambda axis: axis.extent % PAIRS.group / axis.extent, default=None)
    return None if best is None else Found(stage.name, "window_words", best.name, "")


def _rewrite_of(dot: Dot, instructions: tuple[MatrixInstruction, ...]) -> str | None:
    """Returns what makes words that an instruction multiplies: of bytes where one takes these, else of halves."""
    if vector_instruction(instructions, dot.left, dot.right) is not None:
        return "bf16_dots" if dot.name == "bf16_dot" else "dot_words"
    has_halves = vector_instruction(instructions, PAIRS.left, PAIRS.right) is not None
    return "half_words" if dot.name == "quad_dot" and has_halves else None


def _words(program: Program) -> frozenset[str]:
    """Returns the stages that make words."""
    return frozenset(stage.name for stage in program.stages if is_packed(stage) and stage.axes)


DOTS = Rule("dots", _prepare)
DOT_WORDS = Rule("words of dots", _prepare_words)
