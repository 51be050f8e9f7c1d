"""What stands beyond the points of a row is garbage, perhaps denormal: a hundred times as slow to calculate with."""

from __future__ import annotations

from tilesmith.codegen.ir.loop_ir import Allocate, Scope, statements
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

AVX512 = parse_target("x86:avx512")


def test_lanes_do_not_read_beyond_what_a_reduction_has_stored() -> None:
    program = canonical(
        parse("""
        input x: f32[64, 50, 100]
        top[i: 64, j: 100] = max[k: 50](x[i, k, j])
        powers[i: 64, k: 50, j: 100] = exp(x[i, k, j] - top[i, j])
        total[i: 64, j: 100] = sum[k: 50](powers[i, k, j])
        out[i: 64, k: 50, j: 100] = powers[i, k, j] / total[i, j]
        return out
        """)
    )
    looked_at = 0
    for sketch in derive(program):
        config_space = sketch.config_space(program, AVX512)
        tree = sketch.apply(program, AVX512, {p.name: p.values[p.default] for p in config_space.parameters})
        copies = {stage.stage for stage in tree.stages if stage.tiled}
        for statement in (s for nest in loop_ir(tree, AVX512).nests for s in statements(nest.body)):
            if isinstance(statement, Allocate) and statement.buffer.scope in (Scope.STACK, Scope.SCRATCH):
                looked_at += 1
                assert not statement.buffer.padded or statement.buffer.name in copies, sketch.title
    assert looked_at
