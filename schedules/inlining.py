"""Writing the bodies of pointwise stages where they are read.

A chain of a thousand stages is a thousand steps, each of which leaves another program. Nobody looks at those in between: so
an `Inlining` changes the readers alone, and the program is made and checked once, when the last stage has been written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from ..common.errors import ScheduleError
from ..tensor.check import check_size
from ..tensor.expr import Expr, Read, rewrite, size, substitute, walk
from ..tensor.indices.affine import simplify
from ..tensor.limits import TreeSize, excess_of
from ..tensor.program import Origin, Program, Stage


def can_inline(program: Program, stage: Stage) -> bool:
    """Tells whether a stage is pointwise, has one tensor, is read by some stage, and is no output."""
    return _is_inner(program, stage) and bool(program.consumers[stage.name])


def _is_inner(program: Program, stage: Stage) -> bool:
    return stage.combiner is None and len(stage.tensors) == 1 and stage.name not in program.outputs


@lru_cache(maxsize=512)
def inline_stages(program: Program, names: tuple[str, ...]) -> Program:
    """Returns the program after some stages were inlined, in this order. ScheduleError where that is not possible."""
    inlining = Inlining(program)
    for name in names:
        inlining.inline(name)
    return inlining.program()


class Inlining:
    """A program in which stages are inlined one after another, and who reads what after each of them."""

    def __init__(self, program: Program) -> None:
        self._given = program
        self._places = {stage.name: place for place, stage in enumerate(program.stages)}
        self._stages = {stage.name: stage for stage in program.stages}
        self._readers = {name: {stage.name for stage in stages} for name, stages in program.consumers.items()}

        self._sizes: dict[str, tuple[TreeSize, ...]] = {}
        self._counts: dict[str, tuple[Counter[str], ...]] = {}
        self._written: dict[str, dict[Origin, None]] = {}  # stage -> where those come from that were written into it

    def stage(self, name: str) -> Stage:
        """Returns a stage as it stands now. KeyError for one that is gone."""
        return self._stages[name]

    def consumers(self, name: str) -> list[Stage]:
        """Returns the stages that read a tensor now, in order."""
        return [self._stages[reader] for reader in sorted(self._readers[name], key=self._places.__getitem__)]

    def sizes(self, name: str) -> tuple[TreeSize, ...]:
        """Counts the nodes and the levels of each expression of a stage."""
        if name not in self._sizes:
            self._sizes[name] = tuple(map(size, self._stages[name].expressions))
        return self._sizes[name]

    def counts(self, name: str) -> tuple[Counter[str], ...]:
        """Counts how often each expression of a stage reads each tensor, what occurs twice counted twice."""
        if name not in self._counts:
            self._counts[name] = tuple(_count(one) for one in self._stages[name].expressions)
        return self._counts[name]

    def can_inline(self, stage: Stage) -> bool:
        """Tells what `can_inline` does, of the program as it stands now."""
        return _is_inner(self._given, stage) and bool(self._readers[stage.name])

    def inline(self, name: str) -> None:
        """Replaces every read of a stage by its body. Fails for one that cannot be inlined, or whose reader grows too large."""
        stage = self._stages.get(name)
        if stage is None or not self.can_inline(stage):
            raise ScheduleError(
                f"{name} cannot be inlined",
                expected="a pointwise stage of one tensor that is read and is no output",
                found=self._found(name, stage),
            )
        for reader in self._readers.pop(name):
            self._write(reader, stage)
        for tensor in self._tensors_read(name):
            self._readers[tensor].discard(name)
        del self._stages[name]

    def _write(self, reader: str, stage: Stage) -> None:
        """Writes a stage into one that reads it, which then reads what the stage read, and perhaps no longer what only chose
        among its elements."""
        before = self._tensors_read(reader)
        self._stages[reader] = _written(self._stages[reader], stage)
        into = self._written.setdefault(reader, {})
        into.update(self._written.get(stage.name, {}))
        into.update(dict.fromkeys(stage.origin.all))
        self._sizes.pop(reader, None)
        self._counts.pop(reader, None)
        if any(excess_of(*size) for size in self.sizes(reader)):
            check_size(reader, self._stages[reader].expressions)
        after = self._tensors_read(reader)
        for tensor in before - after - {stage.name}:
            self._readers[tensor].discard(reader)
        for tensor in after - before:
            self._readers[tensor].add(reader)

    def _tensors_read(self, name: str) -> set[str]:
        own = {tensor.name for tensor in self._stages[name].tensors}
        return {tensor for count in self.counts(name) for tensor in count} - own

    def _found(self, name: str, stage: Stage | None) -> str:
        if stage is None:
            return "no stage of this name"
        return "an output" if name in self._given.outputs else (stage.combiner or "a stage that nothing reads")

    def program(self) -> Program:
        """Returns the program as it stands now, checked."""
        if len(self._stages) == len(self._given.stages):
            return self._given
        return self._given.replacing(tuple(map(self._with_origins, self._stages.values())))

    def _with_origins(self, stage: Stage) -> Stage:
        """Returns a stage that says where those come from that were written into it."""
        also = tuple(
            one for one in self._written.get(stage.name, ()) if one not in stage.origin.all and one != Origin()
        )
        return replace(stage, origin=replace(stage.origin, also=(*stage.origin.also, *also))) if also else stage


def _count(expression: Expr) -> Counter[str]:
    return Counter(node.tensor for node in walk(expression) if isinstance(node, Read))


def _written(reader: Stage, stage: Stage) -> Stage:
    """Returns a stage with the body of another one wherever it reads that."""
    name, body = stage.name, stage.bodies[0]

    def expand(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.tensor != name:
            return None
        values = {axis.name: index for axis, index in zip(stage.axes, node.indices, strict=True)}
        return simplify(substitute(body, values))

    fold = reader.fold
    if fold is not None:
        fold = replace(fold, locals=tuple((n, rewrite(e, expand)) for n, e in fold.locals))
    return replace(reader, bodies=tuple(rewrite(b, expand) for b in reader.bodies), fold=fold)
