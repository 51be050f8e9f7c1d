"""What stands beyond the points of a row is garbage, perhaps denormal: a hundred times as slow to calculate with.

But not in pieces of data, which are written in whole vectors.
"""

from __future__ import annotations

import numpy as np

from helpers.lowering.interpreter import Interpreter
from tilesmith.codegen.ir.loop_ir import Allocate, For, Scope, Store, statements
from tilesmith.codegen.pipeline import loop_ir
from tilesmith.schedules.auto import derive
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

AVX512, AVX2 = parse_target("x86:avx512"), parse_target("x86:avx2")


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


def test_pieces_are_written_in_whole_vectors() -> None:
    """Of rows of 18 elements in three vectors, whose end is read by whole tiles: zeros are there."""
    program = canonical(ops.depthwise_conv2d(1, 2, 14, 14, kernel=5, padding=2))
    looked_at = 0
    for sketch in derive(program):
        if "border=true" not in sketch.title:
            continue
        for vectors in (1, 2):
            config = {p.name: p.values[p.default] for p in sketch.config_space(program, AVX2).parameters}
            config = {name: vectors if name.endswith(".vectors") else value for name, value in config.items()}
            loops = loop_ir(sketch.apply(program, AVX2, config), AVX2)
            for nest in loops.nests:
                (piece,) = (
                    s.buffer for s in statements(nest.body) if isinstance(s, Allocate) and s.buffer.shape[-1] == 24
                )
                assert piece.padded and piece.scope in (Scope.STACK, Scope.SCRATCH)
                writing = [s for s in statements(nest.body) if isinstance(s, For) and isinstance(s.body, Store)]
                writing = [s for s in writing if isinstance(s.body, Store) and s.body.buffer == piece.name]
                assert writing and all(s.valid is None for s in writing)
                looked_at += 1
            x, w = (
                np.random.default_rng(n).standard_normal(b.shape).astype(np.float32)
                for n, b in enumerate(loops.arguments[:2])
            )
            y = np.zeros(loops.arguments[2].shape, np.float32)
            Interpreter(loops).run([x, w, y])
            rows = np.pad(x.reshape(2, 14, 14), ((0, 0), (2, 2), (2, 2)))
            taps = w.reshape(2, 5, 5)[..., None, None]
            right = sum(rows[:, r : r + 14, s : s + 14] * taps[:, r, s] for r in range(5) for s in range(5))
            np.testing.assert_allclose(y.reshape(2, 14, 14), right, rtol=1e-5, atol=1e-5)
    assert looked_at
