"""Which sums of products are given to a matrix unit, and how their operands become words."""

from __future__ import annotations

from functools import lru_cache

from .....common.errors import ProgramError
from .....targets.matrix_instructions import InstructionScope, MatrixInstruction, tile_instruction
from .....tensor.program import Program, Stage
from .....tensor.rewrites.dot_words import guarded_dot_of_stage
from .....tensor.rewrites.pad_reads import can_pad_reads, guarded_reads
from .....tensor.rewrites.registry import apply_rewrite
from ....access import depends, element_stride, output_stride, plain_dimension
from ....prepared import constant_tensors
from ....schedule import Schedule
from ...rule import Decided
from .merged import steps_to_merged, steps_to_windows
from .rows import chain_of

LEAST = {"rows": 4, "columns": 16, "depth": 32}  # extents from which on the unit may pay
LEAST_ROWS_IN_PARTS = 8  # of products of parts, six of which make one
Units = tuple[MatrixInstruction, ...]


def prepare(s: Schedule, decided: Decided) -> Decided:
    """Gives, perhaps, all products that fit to the unit of the target."""
    units = tuple(row for row in decided.instructions if row.scope is InstructionScope.TILES)
    if units:
        _rewrite(s, units)
    return decided


def _rewrite(s: Schedule, units: Units) -> None:
    """Gives, perhaps, each sum of products that fits to the unit. Of several, only the usual structures are tried."""
    if _next_rewrite(s, units) is None or not s.variant("matrix unit", [True, False]):
        return
    few = sum(_fitting(s, s.program, stage, units) is not None for stage in s.program.stages) > 1
    if not few:
        _merge_rows(s, units)
    while (found := _next_rewrite(s, units)) is not None:
        name, arguments = found
        if name == "bf16_products":
            s.rewrite(name, **arguments, **({"flat": []} if few else _in_parts(s, arguments)))
        elif few and _follows(s.program, name, arguments) and s.variant(f"{arguments['stage']} by rows", [True, False]):
            s.rewrite(name, **arguments, **_turned(s, arguments), flat=["rows"])
        elif name == "pad_reads":
            s.rewrite(name, **arguments)
        else:
            s.rewrite(name, **arguments, **_turned(s, arguments), **_inside(s, arguments, few))


def _merge_rows(s: Schedule, units: Units) -> None:
    """Makes, perhaps, the rows of an image those of one product, where that is the only one for the unit."""
    found = [stage.name for stage in s.program.stages if _way(s, stage, units) is not None]
    if len(found) != 1:
        return
    sliding = steps_to_windows(s.program, found[0]) if s.allows("window_rows") else ()
    slides = sliding and s.variant("windows slide", [False, True])
    merged = steps_to_merged(s.program, found[0], units[0].m) if not slides and s.allows("im2col") else ()
    if slides or (merged and s.variant("rows merged", [False, True])):
        for name, arguments in sliding if slides else merged:
            s.rewrite(name, **arguments)


def _follows(program: Program, name: str, arguments: dict[str, str]) -> bool:
    """Says whether rows of a product are made of rows of products before it, so that all run by blocks of rows."""
    return name != "pad_reads" and chain_of(apply_rewrite(program, name, {**arguments, "flat": ["rows"]})) is not None


def _turned(s: Schedule, arguments: dict[str, str]) -> dict[str, bool]:
    """Says that words of columns are turned, where they lie along the depth and are not packed ahead."""
    stage, depth = s.program.stage(arguments["stage"]), arguments["depth"]
    read = next(r for r in stage.reads() if depends(r, arguments["columns"]))
    lie = plain_dimension(read, depth) is not None and element_stride(s.program, read, depth) == 1
    return {"turned": True} if lie and read.tensor not in constant_tensors(s.program) else {}


def _inside(s: Schedule, arguments: dict[str, str], few: bool) -> dict[str, list[str]]:
    """Says, perhaps, that each block of products packs its own rows, where they lie one behind the other: what one core has
    packed another one gets late (49 rows of 2048 bytes, two threads of a Granite Rapids: 40 us packed once, 25 by each)."""
    stage = s.program.stage(arguments["stage"])
    read = next(r for r in stage.reads() if depends(r, arguments["rows"]))
    plain = not few and plain_dimension(read, arguments["rows"]) is not None
    return {"flat": ["rows"]} if plain and s.variant("rows packed inside", [False, True]) else {}


def _in_parts(s: Schedule, arguments: dict[str, str]) -> dict[str, list[str] | bool]:
    """Chooses the operands of which each block of products packs its own part, where that stays in a near cache. Constant
    columns then stay numbers of four bytes, where words of all parts take six."""
    stage, ready = s.program.stage(arguments["stage"]), constant_tensors(s.program)
    sides = {side: next(r.tensor for r in stage.reads() if depends(r, arguments[side])) for side in ("rows", "columns")}
    can = [side for side, tensor in sides.items() if side == "columns" or tensor not in ready]
    flat = [side for side in can if s.variant(f"{stage.name} {side} packed inside", [False, True])]
    return {"flat": flat, **({"numbers": True} if "columns" in flat and sides["columns"] in ready else {})}


def _next_rewrite(s: Schedule, units: Units) -> tuple[str, dict[str, str]] | None:
    """Returns the next rewrite for the unit."""
    ways = (_way(s, stage, units) for stage in s.program.stages)
    return next((way for way in ways if way is not None), None)


def _way(s: Schedule, stage: Stage, units: Units) -> tuple[str, dict[str, str]] | None:
    """Returns the next rewrite of a stage for the unit. One that reads its data under guards gets a border for them first."""
    program = s.program
    found = _fitting(s, program, stage, units)
    if found is not None:
        return found
    for tensor in dict.fromkeys(read.tensor for read in stage.reads()):
        if stage.combiner == "sum" and guarded_reads(stage, tensor) and can_pad_reads(program, stage, tensor):
            arguments = {"stage": stage.name, "tensor": tensor}
            padded = apply_rewrite(program, "pad_reads", arguments)
            if _fitting(s, padded, padded.stage(stage.name), units) is not None:
                return "pad_reads", arguments
    return None


def _fitting(s: Schedule, program: Program, stage: Stage, units: Units) -> tuple[str, dict[str, str]] | None:
    """Returns how the words of a stage are made; None where the unit does not multiply its elements, or it is too small."""
    name = _rewrite_for(stage, units)
    axes = None if name is None or not s.allows(name) else _axes(program, stage.name, name)
    if name is None or axes is None:
        return None
    return name, {"stage": stage.name, **dict(zip(("rows", "columns", "depth"), axes, strict=True))}


def _rewrite_for(stage: Stage, units: Units) -> str | None:
    """Returns the rewrite that makes words of what a sum multiplies, if the unit has an instruction for these."""
    if stage.combiner != "sum" or len(stage.reads()) != 2:
        return None
    found = guarded_dot_of_stage(stage)
    if found is None:
        return None if tile_instruction(units, "bf16", "bf16") is None else "bf16_products"
    x, y = found[1]
    if tile_instruction(units, x.dtype.name, y.dtype.name) is None:
        return None
    return "bf16_tile_dots" if found[0].name == "bf16_dot" else "tile_dots"


@lru_cache(maxsize=256)  # each combination of variants asks again
def _axes(program: Program, name: str, rewrite: str) -> tuple[str, str, str] | None:
    """Returns rows, columns and depth of a stage that the unit may take by a rewrite, or None.

    Columns lie along memory if they can. Of axes that make equally many rows, the one that lies next to them is taken.
    """
    stage = program.stage(name)
    if name in constant_tensors(program):
        return None
    wide = sorted((a for a in stage.axes if a.extent >= LEAST["columns"]), key=lambda a: output_stride(stage, a.name))
    depths = sorted((a for a in stage.reduction if a.extent >= LEAST["depth"]), key=lambda a: -a.extent)
    least = LEAST_ROWS_IN_PARTS if rewrite == "bf16_products" else LEAST["rows"]
    for columns in wide:
        others = [a for a in reversed(stage.axes) if a.extent >= least and a != columns]
        high = sorted(others, key=lambda a: -a.extent)
        for rows in high:
            for depth in depths:
                arguments = {"stage": name, "rows": rows.name, "columns": columns.name, "depth": depth.name}
                try:
                    apply_rewrite(program, rewrite, arguments)
                except ProgramError:
                    continue
                return rows.name, columns.name, depth.name
    return None
