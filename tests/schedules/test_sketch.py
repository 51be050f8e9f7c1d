"""Sketches are data: they print and parse exactly, their keys depend on the steps alone, a wrong text is one clear error."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tilesmith.common.errors import ProgramError, ScheduleError
from tilesmith.schedules.extents import leaf
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.schedules.sketch import Sketch, broken_conditions, environment, parse_sketch, parse_step, valid
from tilesmith.schedules.space import config
from tilesmith.schedules.tunables import Factor
from tilesmith.targets.target import parse_target
from tilesmith.tensor.ops import matmul
from tilesmith.tensor.program import Program
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse

TARGET = parse_target("x86:avx512")
PROGRAM = canonical(matmul(100, 200, 300))


def tiled(s: Schedule) -> None:
    i, j, k = s.stage("t0").loops
    i0, i1 = s.split(i, s.factor("i.tile", at_most=16, default=6))
    j0, j1, j2 = s.split(
        j, s.factor("j.vectors", at_most=4, times=2, default=1), s.lanes(s.program.stage("t0").tensors[0].dtype)
    )
    s.reorder(i0, j0, k, i1, j1, j2)
    s.unroll(i1, j1)
    s.vectorize(j2)
    s.streaming("t0", s.flag("stream"))
    s.prefetch("x1", k, s.choice("ahead", [0, 4, 8], 4))
    s.require(i1.extent * j1.extent <= s.target("vector_registers") - 4, "accumulators stay in registers")
    s.require((i1.extent >= 2) | (j1.extent >= 2), "some reuse")


TEXT = """sketch tiled
factor i.tile of extent(t0.a0) at_most=16 default=6
factor j.vectors of ceildiv(extent(t0.a1), 2) at_most=4
flag stream default=0
choice ahead of [0, 4, 8] default=4
step split(t0.a0, i.tile)
step split(t0.a1, j.vectors * 2, lanes(f32))
step reorder(t0.a0.p0, t0.a1.p0, t0.a2, t0.a0.p1, t0.a1.p1, t0.a1.p2)
step unroll(t0.a0.p1, t0.a1.p1)
step vectorize(t0.a1.p2)
step streaming(t0, stream)
step prefetch(x1, t0.a2, ahead)
require i.tile * (j.vectors * 2) <= target(vector_registers) - 4 because accumulators stay in registers
require (i.tile >= 2) | (j.vectors * 2 >= 2) because some reuse
"""


def only(program: Program = PROGRAM) -> Sketch:
    (sketch,) = trace(tiled, program)
    return sketch


def test_text() -> None:
    assert only().text == TEXT
    again = parse_sketch(TEXT)
    assert again == only()
    assert again.text == TEXT
    assert hash(again) == hash(only())


def test_key_is_of_the_steps_alone() -> None:
    sketch = only()
    wider = replace(sketch.tunables[0], at_most=64, default=8)
    assert isinstance(wider, Factor)
    other = replace(
        sketch,
        name="other",
        tunables=(wider, *sketch.tunables[1:]),
        requires=((leaf("i.tile") >= 2, "new"),),
        variants=(("pack", True),),
    )
    assert other.key == sketch.key
    assert other != sketch
    assert replace(sketch, steps=sketch.steps[:-1]).key != sketch.key
    rewriting = parse_sketch(TEXT.replace("step split(t0.a0", "step rewrite(normalise)\nstep split(t0.a0", 1))
    assert rewriting.key != sketch.key


def test_key_does_not_depend_on_sizes_or_names() -> None:
    renamed = parse("""
        input left: f32[7, 5]
        input right: f32[5, 3]
        out[row: 7, column: 3] = sum[depth: 5](left[row, depth] * right[depth, column])
        return out""")
    assert only(canonical(renamed)).key == only().key
    assert only(canonical(renamed)).text == TEXT


def test_key_does_not_depend_on_the_process() -> None:
    program = f"from tilesmith.schedules.sketch import parse_sketch; print(parse_sketch({TEXT!r}).key)"
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert keys == {only().key}


def test_variants_and_rewrites_in_text() -> None:
    def template(s: Schedule) -> None:
        s.rewrite("split_k", stage="t0", axis="a2", parts=s.variant("parts", [2, 4]))
        s.variant("word", ["a = b", "it's"])
        s.rewrite("merge_axes", stage="t1", axes=["a0", "a1"])

    sketches = trace(template, PROGRAM)
    assert [sketch.title for sketch in sketches] == [
        'template(parts=2, word="a = b")',
        'template(parts=4, word="a = b")',
    ]
    assert sketches[0].text == (
        'sketch template\nvariant parts = 2\nvariant word = "a = b"\nstep rewrite(split_k, stage=t0, axis=a2, parts=2)\n'
        "step rewrite(merge_axes, stage=t1, axes=[a0, a1])\n"
    )
    for sketch in sketches:
        assert parse_sketch(sketch.text) == sketch
        assert parse_sketch(sketch.text).variants == sketch.variants
        assert parse_sketch(sketch.text).rewritten(PROGRAM) == sketch.rewritten(PROGRAM)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("banana split", "unknown word 'banana'"),
        ("step fuse(t0.a0, t0.a1)", "unknown step 'fuse'"),
        ("step split(t0.a0)", "split takes 2 arguments, found 1"),
        ("step vectorize(t0.a0, t0.a1)", "vectorize takes 1 arguments, found 2"),
        ("step split(t0.a0, __import__('os').system('true'))", "not an extent"),
        ("step split(t0.a0, factor=4)", "not a step"),
        ("step split(t0.a0, 4); 3", "invalid syntax"),
        ("step reorder(4)", "expected a name"),
        ("step rewrite('split_k')", "not a rewrite"),
        ("step split(t0.a0, 4)\nstep rewrite(normalise)", "rewrites come before all other steps"),
        ("factor i.tile of eval(1)", "not a tunable"),
        ("choice c of [1, 2]", "not a tunable"),
        ("flag f default=maybe", "not a tunable"),
        ("variant pack = yes", "Expecting value"),
        ("require a <= b < c because d", "not an extent"),
    ],
)
def test_a_wrong_text_is_one_clear_error(line: str, says: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_sketch(f"sketch wrong\n{line}\n")
    last = line.splitlines()[-1]
    assert says in caught.value.problem
    assert f"line {1 + len(line.splitlines())} of a sketch is wrong" in caught.value.problem
    assert last in caught.value.where
    assert caught.value.found == last


def test_step_text() -> None:
    for text in ("bind(block, 0, t0.a0, t0.a1)", "copy(copy0, x1, t0)", "copy(copy0, x1, t0, shared)", "inline(t0)"):
        assert parse_step(text).text() == text


def test_apply() -> None:
    sketch = only()
    numbers = {"i.tile": 6, "j.vectors": 2, "stream": 1, "ahead": 0}
    tree = sketch.apply(PROGRAM, TARGET, numbers)
    assert [(x.name, x.extent) for x in tree.by_stage["t0"].loops] == [
        ("t0.a0.p0", 17), ("t0.a1.p0", 4), ("t0.a2", 300), ("t0.a0.p1", 6), ("t0.a1.p1", 4), ("t0.a1.p2", 16),
    ]  # fmt: skip
    assert broken_conditions(tree) == []
    worse = sketch.apply(PROGRAM, TARGET, {**numbers, "i.tile": 16, "j.vectors": 4})
    assert broken_conditions(worse) == ["accumulators stay in registers"]


def test_a_config_that_lacks_a_number() -> None:
    with pytest.raises(ScheduleError, match=r"the config lacks j\.vectors, ahead") as caught:
        only().apply(PROGRAM, TARGET, {"i.tile": 6, "stream": 1})
    assert caught.value.expected


def test_a_sketch_of_another_program() -> None:
    with pytest.raises(ScheduleError, match=r"t0\.a2 is no loop of t0") as caught:
        only().apply(canonical(parse("input x: f32[4, 50]\ny[i: 4, j: 50] = x[i, j]\nreturn y")), TARGET, {
            "i.tile": 2, "j.vectors": 1, "stream": 0, "ahead": 0,
        })  # fmt: skip
    assert "t0: pointwise" in caught.value.where


def test_a_rewrite_that_does_not_apply() -> None:
    sketch = parse_sketch("sketch s\nstep rewrite(split_k, stage=t0, axis=a7, parts=2)\n")
    with pytest.raises(ProgramError, match="a7"):
        sketch.apply(PROGRAM, TARGET, {})


def test_population_is_every_config_at_once() -> None:
    sketch = only()
    config_space = sketch.config_space(PROGRAM, TARGET)
    generator = np.random.default_rng(3)
    choices = np.stack(
        [generator.integers(0, len(p.values), 500, dtype=np.int32) for p in config_space.parameters], axis=1
    )
    tree = sketch.apply_population(PROGRAM, TARGET, config_space, choices)
    good = valid(tree, 500)
    assert 0 < good.sum() < 500
    for row in range(0, 500, 7):
        alone = sketch.apply(PROGRAM, TARGET, config(config_space, choices[row]))
        assert good[row] == (not broken_conditions(alone))
        for stage in tree.stages:
            for loop, other in zip(stage.loops, alone.by_stage[stage.stage].loops, strict=True):
                assert np.broadcast_to(loop.extent, (500,))[row] == other.extent


def test_environment() -> None:
    numbers = environment(PROGRAM, TARGET)
    assert numbers["extent(t0.a2)"] == 300
    assert numbers["extent(x1.d1)"] == 200
    assert numbers["lanes(f32)"] == 16
    assert numbers["target(vector_registers)"] == 32
    assert numbers["target(l2)"] == 1024 * 1024
