"""What packing rows takes is what the code has of loads and stores."""

from __future__ import annotations

import pytest

from tilesmith.codegen.ir.index import known
from tilesmith.codegen.ir.loop_ir import For, LoopKind, Statement, Store, substatements
from tilesmith.codegen.passes.turn_copies import turn_copies
from tilesmith.codegen.pipeline import loop_ir, loop_tree
from tilesmith.cost_model.cpu.work import StageWork
from tilesmith.cost_model.levels import levels
from tilesmith.schedules.plan.stage import plan_of
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops

TARGET = parse_target("x86:avx2")
DEPTH = 32


def stored(node: Statement, buffers: str, times: int = 1) -> int:
    """How often code stores to buffers of a name that begins so, vectors at once."""
    if isinstance(node, Store):
        return times if node.buffer.startswith(buffers) else 0
    if isinstance(node, For) and node.kind is not LoopKind.VECTOR:
        extent = known(node.extent)
        times *= 1 if extent is None else extent
    return sum(stored(part, buffers, times) for part in substatements(node))


@pytest.mark.parametrize("rows", [1, 3, 4, 6, 8, 13])
def test_loads_and_stores_of_packed_rows_are_those_of_the_code(rows: int) -> None:
    task = Task.of(ops.matmul(4 * rows, 32, DEPTH), TARGET, 1)
    sketch = next(s for s in task.sketches if "pack rows=true" in s.title and "pack columns=false" in s.title)
    values = {p.name: 1 for p in sketch.config_space(task.body, TARGET).parameters} | {"t0.rows": rows}
    tree = loop_tree(task.program, sketch, values, TARGET)
    counted = levels(tree, plan_of(tree, False))
    (name,) = [n for n in counted.stages if n.startswith("copy")]
    work = StageWork(counted, counted.stages[name], TARGET).work()
    body = turn_copies(loop_ir(tree, TARGET)).nests[0].body
    moved = 4 * rows * DEPTH
    squares = stored(body, f"{name}_rows")
    assert float(work.loads) == (squares or moved) and (squares > 0) == (rows >= 4)
    assert float(work.stores) == stored(body, name) - squares
    assert float(work.broadcasts) == (0 if squares else moved)
