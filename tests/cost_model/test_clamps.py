"""What a read at an edge costs: nothing inside of all borders, and much at the ends of pieces that are no whole blocks."""

from __future__ import annotations

import pytest

from tilesmith.cost_model.analytic import predict, resources
from tilesmith.cost_model.cpu.analysis import analyse
from tilesmith.cost_model.cpu.clamps import at_borders, inside, spanned
from tilesmith.cost_model.levels import levels
from tilesmith.cost_model.operations import guarded_reads
from tilesmith.cost_model.populations import one_plan
from tilesmith.schedules.auto import derive
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512")
CEILINGS = default_ceilings(TARGET, 1)


def halved(last: str) -> Program:
    """Every second point of a filter of three. `last`: how it reads the one in the middle."""
    return canonical(
        parse(f"""
        input x: f32[64, 2050]
        y[i: 64, j: 1008] = x[i, 2 * j] + x[i, 2 * j + 2] * 2 + x[i, {last}]
        return y
        """)
    )


def in_vectors(s: Schedule) -> None:
    """Rows in vectors."""
    pieces = s.split(s.stage(s.program.stages[-1].name).loops[-1], 16)
    s.vectorize(pieces[-1])


def seconds(program: Program, template: object = in_vectors) -> float:
    """What the model says."""
    (sketch,) = trace(template, program, "one")  # type: ignore[arg-type]
    return float(predict(sketch.apply(program, TARGET, {}), TARGET, 1, CEILINGS, 1)[0])


def test_a_bound_that_is_met_at_the_edge_costs_nothing() -> None:
    plain, clamped = halved("2 * j + 1"), halved("min(2 * j + 1, 2013)")
    assert inside(clamped.stages[0]) == plain.stages[0]
    assert seconds(clamped) == seconds(plain)


def test_places_that_data_choose_are_still_gathered() -> None:
    text = """
        input x: f32[64, 2050]
        input n: i32[1008]
        y[i: 64, j: 1008] = x[i, min(max(i64(n[j]), 0), 2047)]
        return y
        """
    assert seconds(canonical(parse(text))) > 1.5 * seconds(halved("2 * j + 1"))


def test_neighbours_share_the_vectors_they_are_picked_from() -> None:
    reads = halved("2 * j + 1").stages[0].reads()
    names = [spanned(read, 2) for read in reads]
    assert names[0] == names[2] != names[1]


def test_the_end_of_a_piece_asks_where_the_edge_is() -> None:
    """17 points of a member are a whole vector and one point, for which all lanes are asked about; 16 are none."""

    def cost(clamp: bool, more: int) -> float:
        place = f"min(j + {more}, 2047)" if clamp else f"j + {more}"
        program = canonical(
            parse(f"""
            input x: f32[64, 2048]
            a[i: 64, j: 2048] = x[i, {"min(j + 1, 2047)" if clamp else "j"}] * 2
            y[i: 64, j: 1024] = a[i, j] + a[i, {place}]
            return y
            """)
        )

        def in_pieces(s: Schedule) -> None:
            outer, inner = s.split(s.stage("t1").loops[-1], 16)
            s.vectorize(inner)
            member = s.compute_at("t0", outer)
            s.vectorize(s.split(member.loops[-1], 16)[-1])

        return seconds(program, in_pieces)

    assert cost(True, 1) > 1.5 * cost(False, 1)
    assert cost(True, 16) < 1.5 * cost(False, 16)


@pytest.mark.parametrize(("extent", "tile"), [(7, 2), (7, 7), (14, 4), (56, 4), (13, 5), (3, 1)])
@pytest.mark.parametrize(("window", "step", "padding"), [(3, 1, 1), (5, 1, 2), (3, 2, 1), (3, 1, 0)])
def test_tiles_at_borders_are_counted(extent: int, tile: int, window: int, step: int, padding: int) -> None:
    size = (extent - 1) * step + window - 2 * padding
    at = f"i * {step} + r - {padding}"
    program = canonical(
        parse(f"""
        input x: f32[{size}, 16]
        y[i: {extent}, c: 16] = sum[r: {window}](select({at} >= 0 and {at} < {size}, x[{at}, c], 0))
        return y
        """)
    )

    def tiled(s: Schedule) -> None:
        i, c, r = s.stage("t0").loops
        (tiles, rows), (blocks, vector) = s.split(i, tile), s.split(c, 8)
        s.reorder(tiles, blocks, r, rows, vector)
        s.unroll(rows)
        s.vectorize(vector)

    (sketch,) = trace(tiled, program, "one")
    tree = sketch.apply(program, TARGET, {})
    (stage,) = levels(tree, one_plan(tree, False)).roots
    guards = [guard for guards in guarded_reads(stage.definition).values() for guard in guards]
    starts = range(0, extent, tile)
    asking = [
        any(
            not 0 <= i * step + r - padding < size
            for i in range(start, min(start + tile, extent))
            for r in range(window)
        )
        for start in starts
    ]
    assert float(at_borders(stage, guards)) == pytest.approx(sum(asking) / len(asking))


def test_narrow_vectors_seldom_lie_across_two_lines() -> None:
    """Of vectors of a whole line that begin anywhere nearly all do, of those of half a line every second one."""

    def load_cycles(columns: int, name: str, lanes: int) -> float:
        def rows(s: Schedule) -> None:
            s.vectorize(s.split(s.stage(s.program.stages[-1].name).loops[-1], lanes)[-1])

        target = parse_target(name)
        program = canonical(parse(f"input x: f32[640, {columns}]\ny[i: 640, j: 960] = x[i, j] * 2\nreturn y"))
        (sketch,) = trace(rows, program, "one")
        ((_, work),) = analyse(sketch.apply(program, target, {}), target, 1).nests[0].work
        return float(resources(work, target)[1])

    wide, narrow = (
        load_cycles(961, name, lanes) / load_cycles(960, name, lanes) - 1
        for name, lanes in (("x86:avx512", 16), ("x86:avx2", 8))
    )
    assert wide > 0.5 and narrow == pytest.approx(wide / 2)


@pytest.mark.parametrize(("rows", "again"), [(13, True), (2, False)])
def test_steps_of_a_sum_that_fills_the_registers_load_anew(rows: int, again: bool) -> None:
    """Windows of 3 x 3 on a tile of 13 rows: with 16 registers all 117 vectors, with 32 fewer, as neighbours share them."""

    def loads(name: str) -> float:
        target = parse_target(name)
        program = canonical(ops.depthwise_conv2d(1, 4, 28, 66, kernel=3))
        (sketch,) = (one for one in derive(program) if ".rows" in one.text and "border" not in one.title)
        config = {p.name: p.values[p.default] for p in sketch.config_space(program, target).parameters}
        config = {n: rows if n.endswith(".rows") else 1 if n.endswith(".vectors") else v for n, v in config.items()}
        ((_, work),) = analyse(sketch.apply(program, target, config), target, 1).nests[0].work
        return float(work.loads - work.broadcasts)

    few, many = loads("x86:avx2"), loads("x86:avx512;vector=256")
    tiles = 4 * 26 // rows * 64 // 8
    assert few == (9 * rows if again else many / tiles) * tiles and many < 9 * rows * tiles
