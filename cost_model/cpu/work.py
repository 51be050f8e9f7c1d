"""How many instructions a stage takes, of each kind, over a whole run and all threads; and how long their chains are.

The straight code at the end of a nest (unrolled and vectorized loops) runs once for each trip of the loop around it. An
instruction in it exists once for each copy that its value depends on: a broadcast of A[i, k] once for each row of a register
tile, a vector of B[k, j] once for each of its columns. Instructions that do not depend on an inner loop stand outside of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...common.cached import cached_property
from ...schedules.access import STRIDED_AT_MOST, element_stride, inside_panels, output_stride
from ...schedules.loops import WRITTEN_OUT, Loop, LoopKind, Scope
from ...schedules.plan.long_functions import ABREAST, long_slots
from ...schedules.plan.windows import permutations
from ...targets.backend import FUSED
from ...targets.target import Target
from ...tensor.dtype import DType
from ...tensor.expr import Read, Var, variables
from ...tensor.indices.affine import affine
from ...tensor.program import Stage
from ...tensor.rewrites.dot_words import with_word_reads
from ...tensor.rewrites.narrow_integers import narrow_stage
from ..footprint import Value, real
from ..levels import Levels, StageLevels
from ..neighbours import distances, held, kept_apart
from ..operations import instructions
from .clamps import bodies, inside, masked_reads, ragged_ends, spanned
from .counts import InstructionCounts, Reads
from .dots import added_dots, held_operands, waiting_products

LATENCY = 4.0  # cycles from an addition or multiply-add to the next one that needs it, on every recent core
WINDOW = 200.0  # instructions that a core has in flight: as far as it looks ahead for work that is independent
SCALAR_PORTS = 2.0  # scalars per cycle, also where only one vector of full width is done per cycle
SCALAR_LOADS = 3.0  # the same of loads, also those that fill all lanes with one scalar
SPREAD = 3.0  # instructions that bring a mask to where the lanes lie in one of these vectors
# Trips of a loop up to which its end is foreseen more or less (Sapphire Rapids: no cost seen up to there).
REMEMBERED = 32.0
STALLED = 0.25  # of a long chain that runs alone; an EPYC of Zen 3 takes 1.1 (silu) to 1.4 (gelu) times as long for it


class StageWork:
    """Counts the instructions of one stage."""

    def __init__(self, counted: Levels, stage: StageLevels, target: Target) -> None:
        self.tree = counted.tree
        self.plan = counted.plan
        self.stage = stage
        self.target = target
        self.dtype = max((t.dtype for t in stage.definition.tensors), key=lambda d: d.bytes)
        self.vector: Loop | None = next((x for x in stage.straight if x.kind is LoopKind.VECTOR), None)
        self._copies: dict[frozenset[str], Value] = {}

    @cached_property
    def vectors(self) -> Value:
        """Registers that one run of the vectorized loop fills."""
        if self.vector is None:
            return 1.0
        return np.ceil(real(self.vector.extent) / self.target.lanes(self.dtype))

    def copies(self, axes: frozenset[str]) -> Value:
        """Says how many copies the straight code has of an instruction whose value depends on these axes."""
        if axes not in self._copies:
            total: Value = 1.0
            for loop in self.stage.straight:
                if loop.axis in axes:
                    total = total * (self.vectors if loop is self.vector else real(loop.extent))
            self._copies[axes] = total
        return self._copies[axes]

    def _width(self, dtype: DType, axes: frozenset[str]) -> Value:
        """Registers of a type for each register of the results, of what moves along the vectors. A vector that fills a quarter
        of a register with bytes, as that of sums which end as bytes, is one of floats."""
        if self.vector is None or self.vector.axis not in axes:
            return 1.0
        filled = np.ceil(real(self.vector.extent) * dtype.bits / self.target.vector_bits)
        return np.maximum(filled / self.vectors, 1.0)

    def times(self, axes: frozenset[str]) -> Value:
        """Says how often an instruction whose value depends on these axes is executed."""
        level = self.stage.body
        while level and self.stage.loops.loops[level - 1].axis not in axes:
            level -= 1
        return self.stage.trips[level] * self.copies(axes)

    def work(self) -> InstructionCounts:
        """Works out all counts of the stage."""
        stage = self.stage
        fused = self.target.has(FUSED)
        everything = frozenset(axis.name for axis in stage.definition.all_axes)
        operations: Value = 0.0
        text: Value = 0.0
        widest = self.dtype.bits
        along = None if self._block is None else self._block.axis
        for computed, part in bodies(self.stage, self._computed, self.vector):
            counts = instructions(computed, fused, self._written_out(), added_dots(self.target), along)
            for (axes, distance, read, dtype), cost in counts.items():
                anew = part * self._anew(distance) * (1.0 if read is None else self._shared(read)[0])
                anew, widest = anew * self._width(dtype, axes), max(widest, dtype.bits)
                operations = operations + cost * self.times(axes) * anew
                text = text + cost * self.copies(axes) * anew
        reads = self._reads()
        if self.vector is not None:
            ends = ragged_ends(self.stage, self.vector, self.copies, self.vectors)
            reads.gathered, reads.loads = reads.gathered + ends, reads.loads + ends
        stores, reloads, scattered = self._writes()
        steps = stage.trips[stage.body]
        registers = self.copies(everything) + reads.operands + reads.parts + self._waiting
        spilled = (
            np.maximum(registers - self.target.vector_registers, 0.0) * steps if stage.definition.reduction else 0.0
        )
        room = np.maximum(self.target.vector_registers - registers, 0.0)
        spilled = spilled + np.maximum(reads.kept - room, 0.0) * steps / self._around
        innermost, openings, unrolled = self._loops()
        lanes = 1.0 if self.vector is None else real(self.vector.extent)
        placed = stage.plan.loops.scattered is not None  # terms that meet in one place wait for each other
        has_chain = placed or (stage.registers is not None and stage.registers <= stage.body)
        opened = stage.trips[(stage.plan.loops.first_reduction if placed else stage.registers) or 0]
        return InstructionCounts(
            operations=operations + reads.gathered + reads.shuffles + reloads + self._finish() + self._stalls(),
            loads=reads.loads + reloads + spilled,
            broadcasts=reads.broadcasts,
            stores=stores + spilled,
            gathered=reads.gathered + scattered,
            unaligned=reads.unaligned,
            crowded=reads.crowded,
            loops=innermost,
            exits=openings,
            steps=steps if has_chain else 0.0,
            chains=self.copies(everything),
            length=steps / np.maximum(opened, 1.0) if has_chain else 1.0,
            registers=registers,
            code=(text + reads.operands) * unrolled,
            width=np.minimum(lanes * widest / self.target.vector_bits, 1.0),
            points=stage.trips[-1],
            masked=reads.masked,
            apart=reads.apart,
        )

    def _stalls(self) -> Value:
        """Cycles in which a port waits for long chains of which few run abreast."""
        definition = self.stage.definition
        slots = 0.0 if definition.reduction else long_slots(definition)
        if not slots:
            return 0.0
        everything = frozenset(axis.name for axis in definition.all_axes)
        waiting = np.maximum(1.0 / self.copies(everything) - 1.0 / ABREAST, 0.0)
        return STALLED * slots * self.times(everything) * waiting

    @cached_property
    def _around(self) -> Value:
        """Copies of the straight code that unrolled loops around it make."""
        return self._values({axis.name: 1 for axis in self.stage.definition.all_axes})[0] / self.copies(
            frozenset(axis.name for axis in self.stage.definition.all_axes)
        )

    @cached_property
    def _computed(self) -> Stage:
        """The stage as code has it: integers in few bits, and nothing compared with places that are computed."""
        placed = self.stage.plan.loops.scattered
        if placed is not None:
            return inside(replace(self.stage.definition, bodies=(placed.value,)))
        return narrow_stage(self._as_read)

    @cached_property
    def _as_read(self) -> Stage:
        """The stage inside of borders, with words that lie in memory as they are read at once."""
        return inside(with_word_reads(self.stage.definition))

    @cached_property
    def _block(self) -> Loop | None:
        """The rows of a pointwise stage that are written out side by side, if there are any."""
        vector = None if self.vector is None else self.vector.axis
        rows = [x for x in self.stage.straight if x.kind is LoopKind.UNROLL and x.axis != vector]
        return rows[-1] if rows and self.stage.definition.combiner is None else None

    def _anew(self, distance: int) -> Value:
        """The part of the rows of a block that compute or read something anew of which each has what one further on has too."""
        if self._block is None or not distance:
            return 1.0
        return np.minimum(distance / real(self._block.extent), 1.0)

    @cached_property
    def _waiting(self) -> float:
        """Registers of products that an instruction of their own adds to sums, and of a number that is a factor in all."""
        return waiting_products(self._computed, self.target)

    def _written_out(self) -> frozenset[str]:
        """Axes whose points are all written out, so that what depends on them alone is known when the code is made."""
        unrolled = [loop.axis for loop in self.stage.straight if loop.kind is LoopKind.UNROLL]
        return frozenset(axis for axis in unrolled if len(self.stage.loops.pieces(axis)) == 1)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def _reads(self) -> Reads:
        """All loads of operands."""
        found = Reads()
        live: dict[frozenset[str], list[Value]] = {}
        spans: dict[object, Read] = {}  # vectors that are loaded whole, and for which read
        guarded = masked_reads(self.stage, self._as_read, self.vector)
        behind = {} if self._block is None else distances(self._computed, self._block.axis)
        for read in self._as_read.reads():
            axes = frozenset().union(*(variables(index) for index in read.indices))
            if self._is_held(read):
                found.shuffles = found.shuffles + self._turned(read, axes)
                continue
            differ, masks = self._shared(read)
            differ = differ * self._anew(behind.get(read, 0))
            live.setdefault(axes, []).append(self.copies(axes) * differ)
            if self._block is None:
                found.kept = found.kept + self.copies(axes) * self._around * (1.0 - differ)
            count = self.times(axes) * differ
            crowds = any(a.crowds for a in self.stage.accesses if a.tensor == read.tensor)
            count = count * self._width(read.dtype, axes)
            if self.vector is None or self.vector.axis not in axes:
                found.broadcasts = found.broadcasts + count
                found.apart = found.apart + (count if crowds else 0.0)
            else:
                count = self._along_vectors(found, read, count, spans, self.times(axes) * masks, guarded.get(read))
            found.crowded = found.crowded + (count if crowds else 0.0)
            found.loads = found.loads + count
        if self._block is not None and self.vector is not None:
            waiting = held(self._computed, self._block.axis, real(self._block.extent))
            found.kept = found.kept + waiting * self.copies(frozenset((self.vector.axis,)))
        found.operands = held_operands(live, self._waiting > 1)
        return found

    def _is_held(self, read: Read) -> bool:
        """Says whether what is read lies in registers."""
        stored = self.plan.of_tensor(read.tensor)
        computed = read.tensor in self.tree.program.producers
        return computed and stored is not None and stored.scope is Scope.REGISTER

    def _turned(self, read: Read, axes: frozenset[str]) -> Value:
        """Counts what turns vectors in registers that lie along another axis."""
        copy = self.tree.by_stage[self.tree.program.producers[read.tensor].name]
        if not copy.tiled or self.vector is None or self.vector.axis not in axes or self._step(read) == 1:
            return 0.0
        return self.times(axes) * np.log2(real(self.vector.extent))

    def _along_vectors(
        self, found: Reads, read: Read, count: Value, spans: dict[object, Read], masks: Value, guarded: Value | None
    ) -> Value:
        """Says how many loads it takes to read vectors along their axis, and adds what else that takes. `masks`: how often
        one is made where lanes are masked, and `guarded`: in what part of the tiles they are."""
        assert self.vector is not None
        step, program = self._step(read), self.tree.program
        if 1 < step <= STRIDED_AT_MOST:
            found.shuffles = found.shuffles + count * (step - 1.0)
            count = count * step * (spans.setdefault(spanned(read, step), read) is read)
            found.unaligned = found.unaligned + count
            with_masks = guarded is not None and not self.target.has_masks
            found.parts = max(found.parts, step - 1.0 + (step if with_masks else 0.0))
            if guarded is not None:
                if self.target.has_masks:  # elsewhere what all lanes have in common chooses an address
                    found.shuffles = found.shuffles + guarded * masks * step * SPREAD
                found.masked = found.masked + guarded * count
        elif step != 1 and (picks := permutations(self.target, program, read, self.vector.axis, self.dtype)):
            found.shuffles = found.shuffles + count * picks
        elif step != 1:
            count = count / self.vectors * real(self.vector.extent)
            found.gathered = found.gathered + count
        else:
            found.unaligned = found.unaligned + (count if self._splits_lines(read.tensor) else 0.0)
            found.masked = found.masked + (0.0 if guarded is None else guarded * count)
        return count

    def _step(self, read: Read) -> int:
        """Elements from one lane of a vector to the next; 0 where they lie anywhere."""
        assert self.vector is not None
        producer = self.tree.program.producers.get(read.tensor)
        if producer is not None and self.tree.by_stage[producer.name].tiled:
            copy = self.tree.by_stage[producer.name]
            innermost = [axis.name for axis in producer.axes].index(copy.loops[-1].axis)
            return int(affine(read.indices[innermost]).coefficient(Var(self.vector.axis)) == 1)
        if isinstance(self.vector.extent, int):
            read = inside_panels(read, self.vector.axis, self.vector.extent)
        return abs(element_stride(self.tree.program, read, self.vector.axis) or 0)

    def _shared(self, read: Read) -> tuple[Value, Value]:
        """The parts of the copies of a read that differ, and whose masks differ where it is guarded.

        A window's points are its neighbours' points too: along a dimension indexed by 2 i + k there are as many values as the
        box has points, where i and k are written out. But at a ragged edge the rows of a tile are clamped, each by itself, and
        what one row may read says nothing about the others.
        """
        differ: Value = 1.0
        masks: Value = 1.0
        for index in read.indices:
            axes = affine(index).coefficients
            copies, reach = self._values(axes)
            if self.vector is not None and self.vector.axis in axes:
                differ, masks = differ * np.minimum(reach / copies, 1.0), masks * self.vectors / copies
            else:
                even = self._even(frozenset(axes))
                differ = differ * np.where(even > 0.0, np.minimum(reach / copies, 1.0), 1.0)
                masks = masks * np.where(even > 0.0, 1.0 / copies, 1.0)
        sums = self.copies(frozenset(axis.name for axis in self.stage.definition.axes))
        vector = "" if self.vector is None else self.vector.axis
        apart = kept_apart(self.stage, sums, vector, self.target.vector_registers)
        return np.maximum(differ, apart), np.maximum(masks, apart)

    def _values(self, coefficients: dict[str, int]) -> tuple[Value, Value]:
        """(combinations of the values that some axes take where all is written out, values that an index takes)."""
        copies: Value = 1.0
        reach: Value = 1.0
        inside: Value = 1.0  # 1 while all loops further in are written out
        for loop in reversed(self.stage.loops.loops):
            if loop.kind not in WRITTEN_OUT:
                inside = inside * np.where(real(loop.extent) > 1.0, 0.0, 1.0)
            elif loop.axis in coefficients:
                extent, step = real(loop.extent), real(loop.stride)
                if loop is self.vector:
                    extent, step = self.vectors, float(self.target.lanes(self.dtype))
                more = inside * (extent - 1.0)
                copies = copies * (1.0 + more)
                reach = reach + more * step * abs(coefficients[loop.axis])
        return copies, reach

    def _even(self, axes: frozenset[str]) -> Value:
        """1 where what is written out of these axes always is there in full, else 0."""
        even: Value = 1.0
        for loop in self.stage.straight:
            if loop.axis in axes:
                tile = real(loop.extent) * real(loop.stride)
                points = float(next(a.extent for a in self.stage.definition.all_axes if a.name == loop.axis))
                even = even * np.where(np.ceil(points / tile) * tile > points, 0.0, 1.0)
        return even

    def _splits_lines(self, tensor: str) -> bool:
        """Says whether rows begin anywhere in a line, so that full vectors mostly lie across two."""
        declared = self.tree.program.tensors[tensor]
        producer = self.tree.program.producers.get(tensor)
        if len(declared.shape) < 2 or (producer is not None and tensor not in self.tree.program.outputs):
            return False
        return bool(declared.shape[-1] * declared.dtype.bytes % (self.target.vector_bits // 8))

    def _writes(self) -> tuple[Value, Value, Value]:
        """(stores, loads of what is stored anew, stores of single lanes)."""
        stage, definition = self.stage, self.stage.definition
        written = [access for access in stage.writes if not access.each_step]
        placed = self._placed()
        if not written:
            return placed, 0.0, 0.0
        spatial = frozenset(axis.name for axis in definition.axes)
        level = stage.body if stage.registers is None else min(stage.registers, stage.body)
        count = self.copies(spatial) * stage.trips[level]
        scattered: Value = 0.0
        if self.vector is not None and self.vector.axis in spatial and not self._writes_in_order():
            count = count / self.vectors * real(self.vector.extent)
            scattered = count
        count = count * len(written)
        outside = stage.registers is None or any(stage.plan.loops.reduces[: stage.registers])
        return count + placed, count if definition.reduction and outside else 0.0, scattered

    def _placed(self) -> Value:
        """Stores of what is written in step."""
        total: Value = 0.0
        for access in self.stage.writes:
            if access.each_step:
                total = total + self.times(access.axes)
        return total

    def _writes_in_order(self) -> bool:
        assert self.vector is not None
        if self.stage.loops.tiled:
            return self.stage.loops.loops[-1] is self.vector
        return output_stride(self.stage.definition, self.vector.axis) == 1

    # ---- control -----------------------------------------------------------------------------------------------------

    def _loops(self) -> tuple[Value, Value, Value]:
        """(iterations of loops in the code, how often a loop ends, copies of the body in the innermost loop)."""
        iterations: Value = 0.0
        ends: Value = 0.0
        unrolled: Value = 1.0
        for level, loop in enumerate(self.stage.loops.loops[: self.stage.body]):
            if loop.kind is LoopKind.UNROLL:
                unrolled = real(loop.extent)
                continue
            unrolled = 1.0
            exists = np.minimum(real(loop.extent) - 1.0, 1.0)  # a single trip is no loop in the code
            iterations = iterations + exists * self.stage.trips[level + 1]
            ends = ends + exists * np.minimum(real(loop.extent) / REMEMBERED, 1.0) * self.stage.trips[level]
        return iterations, ends, unrolled

    def _finish(self) -> Value:
        """Operations that fold the lanes of a vectorized reduction into one value."""
        stage = self.stage
        if self.vector is None or self.vector.axis not in {a.name for a in stage.definition.reduction}:
            return 0.0
        lanes = frozenset((self.vector.axis,))
        rest = frozenset(a.name for a in stage.definition.axes)
        level = min(stage.registers if stage.registers is not None else stage.body, stage.body)
        halvings = np.log2(np.maximum(real(self.vector.extent), 1.0))
        return stage.trips[level] * self.copies(rest) * (self.copies(lanes) + 3.0 * halvings)
