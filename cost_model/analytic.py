"""Seconds of a candidate without any measurement: a closed form over the analysis and the ceilings of a machine.

    nest     = (computing (+) caches (+) memory) * imbalance + start of a parallel region
    program  = sum over its nests

computing is the busiest of the arithmetic ports, the load ports, the store ports, the decoder and the chains of dependent
additions, stage by stage, as in the roofline and ECM models (Williams et al., CACM 2009; Stengel et al., ICS 2015). Where two
of the terms are close they get into each other's way, so (+) is a norm between the maximum and the sum. In a nest of several
passes over its rows computing and reading overlap less: while the later passes compute, few ask for the next row, unless
prefetches do, and with rows that no core looks beyond they add up. What the passes write leaves the caches at any time, but
what is stored past the caches leaves while it is stored, for nothing but a few lines can wait: softmax of 4096x1024 takes
0.86 ms with usual stores, 0.97 with such.

Constants without a source of their own were fitted to 6,000 random trials of twelve programs (benchmarks/search.py, measure
`rank`) on a Sapphire Rapids and an EPYC 9004, for rank correlation and for the spread of log(measured / predicted) among the
better half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..schedules.loops import LoopKind, LoopTree
from ..schedules.plan.stage import Plan
from ..targets.backend import FUSED
from ..targets.ceilings import LOADED, MATRIX, OWN_PAST, PAST, VISITED, Ceilings, Curve
from ..targets.matrix_instructions import BF16_TILES, MATRIX_INSTRUCTIONS
from ..targets.target import Target
from .cpu.ahead import slower_asked
from .cpu.analysis import SHARE, Analysis, Moved, NestAnalysis, analyse
from .cpu.counts import InstructionCounts
from .cpu.work import LATENCY, SCALAR_LOADS, SCALAR_PORTS, WINDOW
from .footprint import Value, real, total_of
from .gpu.analytic import predict_gpu
from .populations import for_each_plan

ISSUE = 5.0  # instructions that a core takes in per cycle
EXIT = 12.0  # cycles lost where a loop ends: its last jump is mostly predicted wrongly
SPLIT = 2.0  # loads more for a vector that lies across two lines (Sapphire Rapids: 1.15 cycles alone instead of 0.66)
WHOLE = 256  # bits of a vector that a port loads at once on every recent core
MASKED = 1.0  # of a load more where a mask leaves out lanes (Sapphire Rapids: 1.02 cycles instead of 0.66)
APART = 0.25  # of a broadcast more from rows near a page apart: what packs its rows was 7 to 12% faster than predicted
COLLISION = 2.0  # cycles to fetch a line whose places in the first cache are all taken, many at once
NORM = 3.0  # of the terms of a nest: 1 would be their sum, infinity the largest
NORM_NEAR = 3.6  # where hints bring operands near: the best of 49x512x4608 have them (0.74 ms, without 0.79)
# Of a product's computing and what comes from beyond the second cache, where nothing brings it near: it comes while the first
# tile of a block of them is computed, and the others wait for nothing and hide nothing of it. 49x768 times 768x3072, one thread
# of an EPYC of Zen 3: 2.5 ms with hints, 2.9 without, and without in two blocks of rows 3.9; NORM says 2.70 to 2.74. Fitted to
# the ranks of 200 candidates of ten products in one thread and of 1,600 of 90 in two; chosen on one half of these, it makes the
# picks of the other half better in 98 of 100 draws. Of windows where the last cache is slow, too: 3x3 weights of 512 x 512 for
# 7 x 7 points, two threads of a Granite Rapids whose caches hold other weights: 1180 us without hints, 880 with them.
NORM_BURST = 1.5
# Of tiles, which are loaded a line at a time anyway: there hints take the places of other loads, unless what they bring has a
# place in the first cache (128x768 times 768x768, two threads of a Granite Rapids whose caches hold other weights: 457 us
# without hints, 470 to 540 with those of 24 KB and more at a time, 323 with those of 12 KB).
NORM_NEAR_TILES = 2.0
NORM_BESIDE = 2.0  # of a matrix unit and of vectors that make its tiles meanwhile
NORM_STREAM = 2.0  # of streams without hints, whose misses stop the core, and with hints (bias + gelu of 4096x3072,
NORM_AHEAD = 5.0  # Sapphire Rapids: 2.51 ms without, 2.10 with)
NORM_ROWS = (
    1.6  # of several passes over a row without hints, and with hints that reach the next row (softmax of 4096x1024,
)
NORM_HINTED = 2.0  # Sapphire Rapids: medians of random candidates from 1.06 to 0.81 ms as the hints reach farther)
# of products with an operand that is used a few times only, without hints and with hints far enough ahead (16x4096 times
# 4096x4096, Sapphire Rapids: 4.5 ms without, 2.0 with; 2x4096 times it: 2.4 and 1.4, where reading alone takes 1.4)
NORM_LATE = 0.7
NORM_ASKED = 2.0
FAR_AHEAD = 4096.0  # bytes from which on these are
# What comes in time of such an operand out of memory where the next block of it is brought near, and no bytes ahead are asked
# for (the same product: 2.1 ms; EPYC Zen 5, one thread: 4.4 with blocks, 3.5 with 4096 bytes ahead).
BROUGHT = 0.9
# Of the time of a page whose address is not remembered, what is not hidden where its lines are asked for ahead (the same:
# 5.9 ms in rows of 64 bytes, 4.0 in rows of 192 bytes, 3.5 in blocks of 216 such rows).
SOUGHT = 0.1
# A line that is asked for takes an instruction and a place among the loads, whether or not that was of use. Where the operand
# lies in the second cache it is of none (1x240 times 240x960, EPYC Zen 5, 8 vectors: 2.5 us without, 3.0 to 4.4 with hints).
HINT = 0.3  # cycles of a line that is asked for
# Where the last cache gives this share of the second one's speed, a core's own prefetching nearly keeps up with it: what then
# still helps is to ask for lines into the first cache, soon before they are used. Asking for them into the second costs more
# than it gains (1x512 times 512x2048, EPYC Zen 5, whose share is 0.47: 20.2 us without hints, 18.3 with those up to 2048 bytes
# ahead, 22.2 with those from 4096 on). Streams of one stage, which go on in order for long, it brings in by
# itself (an EPYC of Zen 3, whose share is 0.8: sums of 1024 rows of 1024 take 53 to 57 us with hints and without, a stencil of
# five points 166 us without and 172 to 240 with them; of 4 million doubles from memory, row by row, 3.5 ms without, 2.9 with
# them). Several rows side by side keep memory busy, too (blur 3x3 of 16 bits by blocks of 8 rows: 0.58 and 0.64 ms). Where
# stages take turns it does not: blur 3x3 of 16 bits in one pass takes 0.50 ms, with a window 0.82 to 0.94.
KEEPS_UP = 0.4
LINE = 64.0  # bytes of a line of every cache that was measured
SOON = 2048.0  # bytes ahead up to which hints are for the first cache (codegen/lower/prefetch.py)
AHEAD = 2048.0  # bytes that hints of a stream look ahead until they hide it all
UNASKED = 16384.0  # bytes of a row up to which the next one is on its way while this one is worked on
NORM_PORTS = 2.0  # of arithmetic and loads in one core, where it was not measured
APART_PORTS = 4.0  # the same of a core where neither waits for the other, as on an EPYC 9004
CALL = 1e-8  # seconds of a call in which nothing is done: no prediction is less
# Seconds to start and join a parallel region of threads that are awake: with two 0.55 us measured for a kernel of its own, 0.37
# inside of a model (1x168 times 168x672, EPYC Zen 5: 1.53 us in two threads, of which reading the weights takes 0.9).
REGION = 6e-7
MEMORY = float("inf")  # bytes of a working set that no cache holds
LEAST = 0.25  # what a byte written costs at least, of one that is read: less is an error of the calibration
BROKEN = 7e-9  # seconds of a streamed part of a line (4096 x 4096 turned, 8 lanes, EPYC 7003: 14 ms, whole lines 6.5)
# Seconds of a piece of memory that a thread writes where another thread goes on: caches fetch ahead what the other one has
# just written. 96 columns of 12544 rows in two halves, an EPYC of Zen 3: 0.51 ms, where each thread has whole rows 0.22.
PIECE = 2e-8
# Seconds of a byte more that all threads read at the same time, out of a cache that they share. 128x768 times 768x3072, an EPYC
# of Zen 3: both threads read all columns, 4.00 ms; each has its own, 3.19; without this they are predicted alike. The size was
# fitted to the ranks of 2,000 candidates of 100 kernels of models.
TOGETHER = 8e-12
# Seconds of a byte of what one nest hands to another that comes from another core's second cache, where the last cache is slow:
# at 12 to 27 GB/s, from the own caches at 105 and more (two threads of a Granite Rapids, 128 KB to 1 MB). 196x960 times 960x128
# there: both threads read all words of rows that both have packed, 195 us; each has packed its own, 100.
ELSEWHERE = 1e-10
SMALL = 6000.0  # instructions of a nest up to which the code generator starts no threads for it


def predict(tree: LoopTree, target: Target, threads: int, ceilings: Ceilings, count: int) -> NDArray[np.float64]:
    """float64[count]: predicted seconds of one run, for a tree to which `count` configs (or one) have been applied.

    The ceilings must be for the same number of threads. TypeError for a tree whose extents are still symbolic.
    """
    if target.is_gpu:
        return predict_gpu(tree, target, ceilings, count)

    def walk(part: LoopTree, plan: Plan, rows: int) -> NDArray[np.float64]:
        return seconds(analyse(part, target, threads, plan), target, threads, ceilings, rows)

    return for_each_plan(tree, False, count, walk)


def seconds(analysis: Analysis, target: Target, threads: int, ceilings: Ceilings, count: int) -> NDArray[np.float64]:
    """Works as `predict`, from an analysis that exists already."""
    total = total_seconds(analysis, target, threads, ceilings)
    return np.broadcast_to(np.asarray(total, dtype=np.float64), (count,)).copy()


def total_seconds(analysis: Analysis, target: Target, threads: int, ceilings: Ceilings) -> Value:
    """The sum over all nests, in whatever kind of number the analysis has."""
    return CALL + total_of([_nest_seconds(nest, analysis, target, threads, ceilings) for nest in analysis.nests])


def _nest_seconds(nest: NestAnalysis, analysis: Analysis, target: Target, threads: int, ceilings: Ceilings) -> Value:
    clock = clock_of(target, ceilings)
    read, written, past = far_costs(ceilings, MEMORY)
    storing = nest.moved[-1].past * past
    ports = ports_norm(target, ceilings)
    computing: Value = 0.0
    beside: Value = 0.0
    for stage, work in nest.work:
        unit = MATRIX_INSTRUCTIONS.get(stage.loops.tensorized or "")
        slower = 1.0 if unit is None else clock / matrix_clock_of(ceilings, clock)
        seconds = slower * stage_cycles(work, target, ports) / (clock * threads)
        if stage.loops.first_use is not None and nest.on_matrix:
            beside = beside + seconds
            continue
        streams = nest.passes and any(a.tensor in nest.traffic.streamed for a in stage.writes)
        computing = computing + (_norm([seconds, storing]) if streams else seconds)
    computing = _norm([computing, beside], NORM_BESIDE) + nest.asked * HINT / (clock * threads)
    *near, far = memory_seconds(nest, analysis, target, threads, ceilings)
    late, walk = visit_seconds(ceilings)
    if nest.streams:
        far = far + (nest.late * late + nest.traffic.walks * walk) / threads
    elif nest.asks:  # else what is worked on meanwhile hides it
        far = far + nest.traffic.walks * walk * SOUGHT / threads
    far = far + nest.followed * read * (slower_asked(target, ceilings) - 1.0)  # in a model, constants come from memory
    waiting = nest.packed * read  # for memory, while nothing else goes on
    far = far - waiting
    terms = [computing, *near[:-1], near[-1] + far] if near else [computing, far]
    terms.append(nest.traffic.collisions * COLLISION / (clock * threads))
    fast = keeps_up(target, threads, ceilings)
    total = _together(nest, terms, storing + nest.moved[-1].written * written, fast)
    total = total + nest.jumps * late / threads
    total = total + waiting + (nest.edges * again_seconds(target, ceilings) + nest.broken * BROKEN) / threads
    if threads == 1:
        return total * nest.balance
    started = np.where(nest.trips > 1.0, REGION, 0.0) + nest.pieces * PIECE / threads
    started = started + nest.together * TOGETHER / threads
    if not fast:
        started = started + nest.elsewhere * ELSEWHERE
    instructions = sum((work.instructions for _, work in nest.work), 0.0)
    return np.where(instructions < SMALL, total * threads, total * nest.balance + started)


def _together(nest: NestAnalysis, terms: list[Value], writing: Value, keeps_up: bool) -> Value:
    """Makes the seconds of the whole of those of computing, caches and memory. `writing`: of memory, what is written.
    `keeps_up`: whether a core does so with its last cache."""
    if nest.passes:
        row = np.maximum(nest.moved[0].read / np.maximum(nest.rows, 1.0), 1.0)
        covered, hinted = np.minimum(UNASKED / row, 1.0), np.minimum(nest.ahead / row, 1.0)
        computing, *caches, far, collisions = terms
        apart = _norm([computing + _norm([*caches, far - writing, collisions]), far])
        unhinted = covered * _norm(terms, NORM_ROWS) + (1.0 - covered) * apart
        return hinted * _norm(terms, NORM_HINTED) + (1.0 - hinted) * unhinted
    if nest.streams:
        follows = keeps_up and len(nest.work) == 1
        covered = _in_time(nest, AHEAD, keeps_up, follows)
        if follows:
            covered = np.where(_rows_abreast(nest) > 1.0, 1.0, covered) * (1.0 - _late_share(nest))
        return covered * _norm(terms, NORM_AHEAD) + (1.0 - covered) * _norm(terms, NORM_STREAM)
    if nest.asks:
        in_time = _in_time(nest, FAR_AHEAD, keeps_up)
        brought = 1.0 - (1.0 - BROUGHT) * _from_memory(nest)
        covered = in_time + np.where(nest.near > 0.0, brought * (1.0 - in_time), 0.0)
        return covered * _norm(terms, NORM_ASKED) + (1.0 - covered) * _norm(terms, NORM_LATE)
    hinted = _norm(terms, NORM_NEAR)
    if nest.on_matrix:
        hinted = np.where(nest.reach > 0.0, hinted, _norm(terms, NORM_NEAR_TILES))
    near = nest.constants if (nest.bursts or nest.waits) and not keeps_up else nest.near
    return np.where(near > 0.0, hinted, _unhinted(nest, terms, keeps_up))


def _unhinted(nest: NestAnalysis, terms: list[Value], keeps_up: bool) -> Value:
    """The same of a nest in which no hints bring near what its tiles read."""
    if not (nest.bursts or (nest.waits and not keeps_up)) or len(nest.moved) < 3:
        return _norm(terms)
    *near, far, collisions = terms
    return _norm([_norm([*near, collisions]), far], NORM_BURST)


def _in_time(nest: NestAnalysis, enough: float, keeps_up: bool, follows: bool = False) -> Value:
    """Returns the share of the bytes that come into the first cache in time: those that hints ask for `enough` bytes ahead,
    and those that lie in the second cache anyway. `follows`: what lies in the last one comes in time, too."""
    asked = np.minimum(nest.ahead / enough, 1.0)
    if len(nest.moved) < 3:
        return asked
    near, *_, last, far = (moved.read for moved in nest.moved)
    from_memory = _from_memory(nest)
    from_last = np.minimum(np.maximum(last - far, 0.0) / np.maximum(near, 1.0), 1.0 - from_memory)
    soon = 1.0 if follows else np.where(nest.ahead <= SOON, asked, 0.0) if keeps_up else asked
    in_time: Value = from_memory * asked + from_last * soon + (1.0 - from_memory - from_last)
    return in_time


def _rows_abreast(nest: NestAnalysis) -> Value:
    """Says how many rows the straight code of a nest of one stage goes along side by side."""
    (stage, _), *_ = nest.work
    rows: Value = 1.0
    vectors = {loop.axis for loop in stage.straight if loop.kind is LoopKind.VECTOR}
    for loop in stage.straight:
        rows = rows * (1.0 if loop.axis in vectors else real(loop.extent))
    return rows


def _late_share(nest: NestAnalysis) -> Value:
    """Returns the share of the lines that come into the second cache of which nobody sees in time that they will be needed."""
    moved = nest.moved[min(1, len(nest.moved) - 1)]
    share: Value = np.minimum(nest.late * LINE / np.maximum(moved.read + moved.written, 1.0), 1.0)
    return share


def _from_memory(nest: NestAnalysis) -> Value:
    """Returns the share of the bytes that come into the first cache from memory."""
    share: Value = np.minimum(nest.moved[-1].read / np.maximum(nest.moved[0].read, 1.0), 1.0)
    return share


def keeps_up(target: Target, threads: int, ceilings: Ceilings) -> bool:
    """Says whether the last cache is so fast that cores hardly wait for what they read from it in order."""
    sizes = [cache.bytes * -(-threads // cache.shared_by) for cache in target.caches]
    if len(sizes) < 3:
        return False
    return ceilings.bandwidth_at(sizes[-1] * SHARE * 0.5) >= KEEPS_UP * ceilings.bandwidth_at(sizes[1] * 0.5 / 2)


def _norm(terms: list[Value], power: float = NORM) -> Value:
    """Joins terms to a number between their maximum and their sum."""
    total: Value = 0.0
    for term in terms:
        total = total + term**power
    return total ** (1.0 / power)


def stage_cycles(work: InstructionCounts, target: Target, ports: float = NORM_PORTS) -> Value:
    """Cycles of one core for a whole stage, if all data lay in the first-level cache.

    Loads may get into the way of arithmetic before they fill their own ports: multiply-adds on registers alone run at 219
    GFLOP/s on a core of a Sapphire Rapids, at 197 with one load of a vector for each four of them, at 172 with one for two;
    on an EPYC 9004 such loads cost nothing. `ports`: the norm of both (ports_norm). A stage on the matrix unit has no other
    arithmetic.
    """
    arithmetic, loading, *others, tiles = resources(work, target)
    bound: Value = tiles + loading if work.on_matrix else _norm([arithmetic, loading], ports)
    for resource in others:
        bound = np.maximum(bound, resource)
    return bound + EXIT * work.exits


def ports_norm(target: Target, ceilings: Ceilings) -> float:
    """The norm of arithmetic and loads with which multiply-adds that load every second operand are as fast as measured.

    Where a port loads a whole vector that says nothing: loads of the first cache then cost nothing, and what makes few loads
    is what waits little for caches further out. With 4 in place of 2 an EPYC of Zen 3 left both operands of 2048 x 2048 x 2048
    to the last cache (235 ms, with rows packed 197), and those of 128 x 768 x 3072 as they lay (13.7 ms, packed 7.6).
    """
    if LOADED not in ceilings.flops or target.vector_bits <= WHOLE:
        return NORM_PORTS
    measured, loading = ceilings.flops["f32"] / ceilings.flops[LOADED], 0.5 * target.fma_ports / target.load_ports
    low, high = 1.0, APART_PORTS
    while high - low > 0.01:
        middle = (low + high) / 2
        slower = (1.0 + loading**middle) ** (1.0 / middle)
        low, high = (middle, high) if slower > measured else (low, middle)
    return high


def resources(work: InstructionCounts, target: Target) -> tuple[Value, Value, Value, Value, Value, Value]:
    """Cycles that a stage keeps each resource busy: arithmetic, loads, stores, instructions, chains of additions, the matrix
    unit."""
    arithmetic = _per_cycle(target.fma_ports, work.width)
    loading = _per_cycle(target.load_ports, work.width)
    scalars = max(SCALAR_LOADS, float(target.load_ports))
    storing = float(target.store_ports)
    crossing = min(target.vector_bits / 8 / target.caches[0].line, 1.0)  # the part of the vectors, wherever they begin
    in_flight = work.instructions * work.length / np.maximum(work.steps, 1.0)
    overlap = 1.0 + WINDOW / np.maximum(in_flight, 1.0)
    return (
        work.operations / arithmetic,
        (work.loads - work.broadcasts + SPLIT * crossing * work.unaligned + MASKED * work.masked) / loading
        + (work.broadcasts + APART * work.apart) / scalars,
        work.stores / storing,
        work.instructions / ISSUE,
        work.steps * LATENCY / overlap,
        work.products * work.product_cycles,
    )


def _per_cycle(ports: int, width: Value) -> Value:
    """Instructions per cycle: a core that splits full vectors runs narrower ones at the full number of its ports."""
    return np.minimum(ports / width, max(SCALAR_PORTS, float(ports)))


def clock_of(target: Target, ceilings: Ceilings) -> float:
    """Cycles per second and core, from the fastest arithmetic that was seen."""
    lanes = target.vector_bits / 32 * target.fma_ports * (2 if target.has(FUSED) else 1)
    return ceilings.flops["f32"] / (ceilings.threads * lanes)


def matrix_clock_of(ceilings: Ceilings, clock: float) -> float:
    """The same where a matrix unit is at work, for which some cores run slower."""
    flops = ceilings.threads * BF16_TILES.speed  # in a cycle; MATRIX is of these, whatever else the unit multiplies
    return ceilings.flops.get(MATRIX, clock * flops) / flops


def memory_seconds(
    nest: NestAnalysis, analysis: Analysis, target: Target, threads: int, ceilings: Ceilings
) -> list[Value]:
    """Seconds that the traffic of a nest with each cache takes, nearest first, all threads together.

    What does not survive from run to run comes from memory, even where the last cache is larger: see `SHARE`. What is fetched
    again and again within a run costs as much as where that cache still holds everything.
    """
    sizes = [cache.bytes * -(-threads // cache.shared_by) for cache in target.caches[: len(nest.moved)]]
    seconds = [
        moved.total / ceilings.bandwidth_at(size * 0.5) for moved, size in zip(nest.moved[:-2], sizes[1:], strict=False)
    ]
    outer = nest.moved[-1]
    far = _cost(outer, far_costs(ceilings, MEMORY))
    if len(nest.moved) == 1:
        return [far]
    inner = nest.moved[-2]
    again = Moved(np.maximum(inner.read - outer.read, 0.0), np.maximum(inner.written - outer.written, 0.0), 0.0)
    return [*seconds, _cost(again, far_costs(ceilings, np.minimum(analysis.touched, sizes[-1] * SHARE * 0.5))), far]


def visit_seconds(ceilings: Ceilings) -> tuple[float, float]:
    """Seconds more for a line that nobody asks for in time, and for one in a page whose address is not remembered any more."""
    followed, late, walked = (ceilings.visit_at(pages) for pages in VISITED)
    return max(late - followed, 0.0), max(walked - late, 0.0)


def again_seconds(target: Target, ceilings: Ceilings) -> float:
    """Seconds until a line has left the caches that is stored past them right after it was brought in: what storing where was
    read takes longer than storing elsewhere."""
    if OWN_PAST not in ceilings.streams:
        return 0.0
    own, copy = ceilings.streams[OWN_PAST][-1][1], ceilings.streams["copy" + PAST][-1][1]
    return max(1.0 / own - 2.0 / copy, 0.0) * target.caches[0].line * ceilings.threads


def _cost(moved: Moved, costs: tuple[Value, Value, Value]) -> Value:
    read, written, past = costs
    return moved.read * read + moved.written * written + moved.past * past


def far_costs(ceilings: Ceilings, bytes: Value) -> tuple[Value, Value, Value]:
    """Seconds for a byte that is read, one that is written, and one that is stored past the caches, where `bytes` are touched.

    A loop that copies takes as long as its reads and its writes by themselves: so the last two follow from copies.
    """
    if "copy_past" not in ceilings.streams:
        slow = 1.0 / _speed(ceilings.bandwidth, bytes)
        return slow, 2.0 * slow, 1.0 / ceilings.bandwidth[-1][1]
    read, copy, past = (1.0 / _speed(ceilings.streams[name], bytes) for name in ("read", "copy", "copy" + PAST))
    return read, np.maximum(2.0 * copy - read, LEAST * read), np.maximum(2.0 * past - read, LEAST * read)


def _speed(curve: Curve, bytes: Value) -> Value:
    """Works as Ceilings.bandwidth_at, for many sizes at once."""
    sizes, speeds = np.log(np.asarray(curve, dtype=np.float64)).T
    found: Value = np.exp(np.interp(np.log(np.maximum(bytes, 1.0)), sizes, speeds))
    return found
