"""Everything that the features and the closed-form estimate are made of, from one walk over a loop tree.

The extents of the tree are ints (one config) or int64 arrays (a population); so all numbers here are floats or float64 arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...schedules.access import is_anchor
from ...schedules.hints import PrefetchAhead
from ...schedules.loops import LoopKind, LoopTree, Scope
from ...schedules.plan.stage import Plan
from ...schedules.prepared import constant_tensors
from ...targets.target import Cache, Target
from ...tensor.program import Stage
from ..footprint import Value, real
from ..levels import Levels, StageLevels, levels
from ..populations import one_plan
from ..traffic import NestTraffic, TrafficWalk, survives
from .ahead import brings_near, bytes_ahead, lines_asked, packed_bytes_asked, tiles_in_reach, waits_for_constants
from .balance import handed_over, largest_share, parallel_depth, pieces_written, read_by_all
from .counts import InstructionCounts
from .matrix import work_of

LEVELS = 3  # caches that features tell apart
# Of the last cache, what a program finds there of its last run. Neighbours on other cores use it too: on an EPYC 9004 they
# replace all of its 32 MB within 5 ms.
SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes that come into a cache to be read, that are written (which come in before, and go out after), and that are
    stored past it."""

    read: Value
    written: Value
    past: Value

    @property
    def total(self) -> Value:
        """All bytes in and out."""
        return self.read + 2.0 * self.written + self.past


@dataclass(frozen=True, slots=True)
class NestAnalysis:
    """One nest. `trips`: of its parallel loops; `threads`: how many of them work; `balance`: the longest share of a thread
    over the mean share of all threads, so that 1 is perfect. `moved`: what enters or leaves each cache.
    `ahead`: how many bytes ahead memory is asked for by prefetches, 0 without any; `asked`: the lines that they ask for in all.
    `asks`: there is a place for them, whether or not a config uses it. `passes`: several stages walk over inputs of the
    program, one after the other: what the next row needs is not on its way while this one is worked on. `rows`: how many such
    rows there are. `streams`: nothing in it is worked on again and again, as the operands of a product are. `near`: above 0
    where hints bring the next block's operand near while one is computed. `edges`: tiles of streamed tensors that reach
    beyond the end of a row: masked stores of nothing bring in what is streamed next. `late`: lines from far away that nobody
    asks for in time. `broken`: streamed stores of a part of a line, between which other lines are stored. `packed`: of what
    enters the last cache, what stages that pack it read, while nothing else goes on. `pieces`: of memory, into which threads
    cut what they write. `together`: bytes that enter the second cache of what all threads read at the same time. `bursts`: an
    operand is read anew in each trip of a loop around many tiles, and by the first of them alone from far away. `waits`: so
    are constants of a matrix unit and of windows, if the last cache is slow. `constants`: as `near`, of what was packed once.
    `reach`: above 0 where tiles that hints bring near have a place in the first cache. `followed`: bytes asked for of constants
    that were packed in the order in which a nest reads them that streams. `jumps`: lines from beyond the second cache of rows
    of a product whose points lie far apart along the depth. `elsewhere`: bytes of what nests make for each other that a
    thread reads or writes in the second cache of another core.
    """

    root: StageLevels
    trips: Value
    threads: Value
    balance: Value
    work: tuple[tuple[StageLevels, InstructionCounts], ...]
    moved: tuple[Moved, ...]
    traffic: NestTraffic
    ahead: Value = 0.0
    asks: bool = False
    passes: bool = False
    rows: Value = 1.0
    streams: bool = False
    near: Value = 0.0
    edges: Value = 0.0
    late: Value = 0.0
    broken: Value = 0.0
    packed: Value = 0.0
    asked: Value = 0.0
    pieces: Value = 0.0
    together: Value = 0.0
    bursts: bool = False
    waits: bool = False
    constants: Value = 0.0
    reach: Value = 0.0
    followed: Value = 0.0
    jumps: Value = 0.0
    elsewhere: Value = 0.0

    @property
    def on_matrix(self) -> bool:
        """Says whether a matrix unit does any of it."""
        return any(work.on_matrix for _, work in self.work)


@dataclass(frozen=True, slots=True)
class Analysis:
    """All nests of a tree. `touched`: bytes of all tensors of the program together, each counted once.

    `real_points`: stage -> points that the program asks for; what is evaluated twice or beyond an edge is not among them.
    """

    nests: tuple[NestAnalysis, ...]
    caches: tuple[Cache, ...]
    touched: Value
    real_points: dict[str, float]


def analyse(tree: LoopTree, target: Target, threads: int, plan: Plan | None = None) -> Analysis:
    """The walk, for candidates that have one plan. `threads`: what the kernel runs with.

    The numbers of the tree must be known (TypeError if they are not).
    """
    counted = levels(tree, one_plan(tree, target.is_gpu) if plan is None else plan)
    caches = target.caches[:LEVELS]
    walk = TrafficWalk(counted, caches, target.vector_bits // 8)
    begun = [_begin(counted, root, walk, threads) for root in counted.roots]
    largest: dict[str, Value] = {}
    for _, _, traffic in begun:
        for tensor, box in traffic.boxes.items():
            largest[tensor] = np.maximum(largest[tensor], box.moved) if tensor in largest else box.moved
    touched = sum(largest.values(), 0.0)
    second = min(1, len(caches) - 1)
    made = {t.name for root in counted.roots for t in root.definition.tensors}.difference(tree.program.outputs)
    nests = []
    for root, (trips, used, traffic) in zip(counted.roots, begun, strict=True):
        balance = largest_share(root, np.ceil(trips / used)) * float(threads)
        work = tuple((s, work_of(counted, s, target)) for s in members(counted, root))
        moved = tuple(_moved(traffic, n, caches, used, touched) for n in range(len(caches)))
        inside = [s for s, _ in work]
        ahead, passes = bytes_ahead(inside), walks_repeatedly(counted, inside)
        asks = any(s.loops.hints.of(PrefetchAhead) for s in inside)
        rows, streams = root.trips[deepest(counted, root)], not any(is_anchor(s.definition) for s in inside)
        late = traffic.late * (1.0 - survives(touched / (caches[second].bytes * used)))
        near, edges = brings_near(counted, inside), streamed_edges(inside, traffic)
        constants = brings_near(counted, inside, constants=True)
        broken = broken_lines(inside, traffic, caches[0].line)
        about = (root, trips, used, balance, work, moved, traffic)
        packed = _moved(traffic, len(caches) - 1, caches, used, touched, packed_tensors(inside)).read
        asked = lines_asked(inside, caches[0].line)
        pieces = pieces_written(root, threads)
        together = read_by_all(root, threads, walk, traffic, second)
        elsewhere = handed_over(root, threads, walk, second, made)
        bursts = any(is_product(counted, s.definition) for s in inside)
        waits, reach = waits_for_constants(counted, inside), tiles_in_reach(inside)
        followed = packed_bytes_asked(counted, inside) if streams else 0.0
        jumps = jumping_lines(inside, traffic, second, caches[0].line)
        nest = NestAnalysis(
            *about,
            ahead,
            asks,
            passes,
            rows,
            streams,
            near,
            edges,
            late,
            broken,
            packed,
            asked,
            pieces,
            together,
            bursts,
            waits,
            constants,
            reach,
            followed,
            jumps,
            elsewhere,
        )
        nests.append(nest)
    points = {name: s.asked for name, s in counted.stages.items()}
    return Analysis(tuple(nests), caches, touched, points)


def members(counted: Levels, stage: StageLevels) -> list[StageLevels]:
    """A stage and all that runs inside of it."""
    found = [stage]
    for level in range(1, len(stage.loops.loops) + 1):
        for inner in counted.attached(stage, level):
            found += members(counted, inner)
    return found


def is_product(counted: Levels, stage: Stage) -> bool:
    """Says whether a stage sums along one axis alone, for many points that read the same, something that was packed once.

    Windows have other axes, and read what lies near for most of them. What is packed at each call lies near when it is read,
    and of what is read as it lies rows may drive each other out, which hints do not cure: 197x768 times 768x768, one thread of
    an EPYC of Zen 3, 2.7 ms packed and 4.3 with hints.
    """
    if not is_anchor(stage) or len(stage.reduction) != 1:
        return False
    return any(counted.is_prepared(read.tensor) for read in stage.reads())


def deepest(counted: Levels, stage: StageLevels) -> int:
    """The innermost level inside of which other stages run; 0 without any."""
    return max((n for n in range(1, len(stage.loops.loops) + 1) if counted.attached(stage, n)), default=0)


def streamed_edges(stages: list[StageLevels], traffic: NestTraffic) -> Value:
    """Rows of streamed tensors whose last tile reaches beyond their end."""
    total: Value = 0.0
    for s in stages:
        streamed = [traffic.streamed[a.tensor] for a in s.writes if a.tensor in traffic.streamed]
        vectors = [loop.axis for loop in s.straight if loop.kind is LoopKind.VECTOR]
        if streamed and vectors:
            outermost = s.loops.pieces(vectors[0])[0]
            rows = s.trips[s.loops.loops.index(outermost)]
            total = total + streamed[0] * np.where(s.trips[-1] > s.asked, rows, 0.0)
    return total


def broken_lines(stages: list[StageLevels], traffic: NestTraffic, line: int) -> Value:
    """Parts of lines (of so many bytes) of streamed tensors that are left unfinished while the code goes on to others: vectors
    of less than a line, and both ends of the rows of a tile that begin in the midst of a line."""
    total: Value = 0.0
    for s in stages:
        vector = next((loop for loop in s.straight if loop.kind is LoopKind.VECTOR), None)
        places = {axis.name for axis in s.definition.axes}
        if vector is None or vector.axis not in places:
            continue
        along: Value = 1.0
        others: Value = 1.0
        for loop in s.straight:
            if loop.axis == vector.axis:
                along = along * real(loop.extent)
            elif loop.axis in places:
                others = others * real(loop.extent)
        for tensor in s.definition.tensors:
            unfinished = (along * tensor.dtype.bytes < line) & (others > 1.0)
            vectors = np.where(unfinished, s.trips[-1] / real(vector.extent), 0.0)
            row = tensor.shape[-1] * tensor.dtype.bytes if tensor.shape else line
            torn = traffic.left.get(tensor.name, 0.0) if row % line else 0.0
            total = total + traffic.streamed.get(tensor.name, 0.0) * (vectors + torn)
    return total


def jumping_lines(stages: list[StageLevels], traffic: NestTraffic, number: int, line: int) -> Value:
    """Counts the lines (of so many bytes) that enter a cache of what products read for their rows alone, where each step of the
    depth jumps to another line: no core sees where that goes. 3136 rows of 64 points, 256 columns, one thread of an EPYC of Zen
    3: 1.48 ms where a row of memory holds a point of all rows, 1.31 with packing them; 169 rows of 1024 points 1.59 and 1.10.
    """
    total: Value = 0.0
    for s in stages:
        if not is_anchor(s.definition):
            continue
        vector = next((loop.axis for loop in s.straight if loop.kind is LoopKind.VECTOR), None)
        reduction = {axis.name for axis in s.definition.reduction}
        for access in s.accesses:
            jumps = (
                access.strides and access.strides[-1] >= line and {a for a, _ in access.spans[-2].terms} <= reduction
            )
            if jumps and not access.written and vector not in access.axes and (access.tensor, False) in traffic.moved:
                total = total + traffic.moved[access.tensor, False][number] / line
    return total


def packed_tensors(stages: list[StageLevels]) -> frozenset[str]:
    """Returns what is read to be packed, inside of other stages' loops, and by nobody else, while nothing else goes on."""
    packing = [s.loops.tiled and s.loops.at is not None and s.loops.first_use is None for s in stages]
    read = [{read.tensor for read in s.definition.reads()} for s in stages]
    packed = frozenset().union(*(names for names, packs in zip(read, packing, strict=True) if packs))
    return packed.difference(*(names for names, packs in zip(read, packing, strict=True) if not packs))


def walks_repeatedly(counted: Levels, stages: list[StageLevels]) -> bool:
    """Says whether stages without reuse follow each other inside of a loop, the first of them on inputs of the program.

    What only finishes values that are in registers walks over nothing.
    """
    program = counted.tree.program
    given = {t.name for t in program.dynamic_inputs}
    held = constant_tensors(program) | _in_registers(counted)
    walking = [s for s in stages if s.loops.copies is None and not is_anchor(s.definition)]
    walking = [s for s in walking if any(r.tensor not in held for r in s.definition.reads())]
    attached = [s for s in walking if s.loops.at is not None and s.definition.reduction]
    return len(walking) > 1 and any(r.tensor in given for s in attached for r in s.definition.reads())


def _in_registers(counted: Levels) -> frozenset[str]:
    """Returns the tensors that stay in registers."""
    stored = {name: counted.plan.of_tensor(name) for name in counted.tree.program.producers}
    return frozenset(
        name for name, storage in stored.items() if storage is not None and storage.scope is Scope.REGISTER
    )


def _begin(counted: Levels, root: StageLevels, walk: TrafficWalk, threads: int) -> tuple[Value, Value, NestTraffic]:
    """(trips of the parallel loops, threads that work, traffic) of a nest."""
    outermost = parallel_depth(root)
    trips = root.trips[outermost] if outermost else 1.0
    used = np.minimum(trips, float(threads))
    return trips, used, walk.nest(root, members(counted, root), used)


def _moved(
    traffic: NestTraffic,
    number: int,
    caches: tuple[Cache, ...],
    threads: Value,
    touched: Value,
    tensors: frozenset[str] | None = None,
) -> Moved:
    """Returns what moves in and out of a cache in one of many runs, of some tensors or of all: what is still there from the run
    before does not.

    A line that is written comes in before and goes out after; one that is streamed only goes out, to memory.
    """
    cache, last = caches[number], number == len(caches) - 1
    room = cache.bytes * np.ceil(threads / cache.shared_by) * (SHARE if last and number else 1.0)
    fetched = 1.0 - survives(touched / room)
    read: Value = 0.0
    written: Value = 0.0
    past: Value = 0.0
    for (tensor, leaves), moved in traffic.moved.items():
        if tensors is not None and tensor not in tensors:
            continue
        bytes_ = moved[number] * fetched
        if leaves:
            streamed = traffic.streamed.get(tensor, 0.0)
            written = written + (1.0 - streamed) * bytes_
            past = past + (streamed * traffic.boxes[tensor].moved if last else 0.0)
        elif (tensor, True) not in traffic.moved:
            read = read + bytes_
    return Moved(read, written, past)
