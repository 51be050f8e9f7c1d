"""The lists of rules: which rule schedules which stage, and that a rule is added by a line in a list."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.emission.loops import HOST
from helpers.lowering.derived import assert_runs, body_of, some_configs
from tilesmith.common.errors import InternalError
from tilesmith.schedules.auto import derive
from tilesmith.schedules.rules.cpu.stream import STREAM
from tilesmith.schedules.rules.cpu.table import CPU
from tilesmith.schedules.rules.gpu.table import GPU
from tilesmith.schedules.rules.rule import Decided, Rule, Rules
from tilesmith.schedules.schedule import Schedule, trace
from tilesmith.targets.matrix_instructions import BF16_TILES, MatrixInstruction
from tilesmith.targets.target import parse_target
from tilesmith.tensor import ops
from tilesmith.tensor.expr import Op
from tilesmith.tensor.program import Origin, Program, Stage
from tilesmith.tensor.text.parse import parse

EMPTY = Rule("")
GPU_TARGET = parse_target("cuda:sm_90a")
TABLES = {"cpu": CPU, "gpu": GPU}
PREPARED = """
input x: f32[64]
constant c: f32[64]
d[i: 64] = exp(c[i])
y[i: 64, j: 64] = x[i] * d[j] + d[i]
return y
"""
FILTERED = """
input x: f32[32, 64]
a[i: 32, j: 62] = x[i, j] + x[i, j + 1] * 2 + x[i, j + 2]
b[i: 30, j: 62] = a[i, j] + a[i + 1, j] * 2 + a[i + 2, j]
return b
"""
FINISHED = """
input A: f32[64, 64]
input B: f32[64, 64]
C[i: 64, j: 64] = sum[k: 64](A[i, k] * B[k, j])
D[i: 64, j: 64] = max(C[i, j], 0)
return D
"""
FEW_COLUMNS = """
input x: f32[64, 32]
constant w: f32[32, 3]
y[i: 64, j: 3] = sum[k: 32](x[i, k] * w[k, j])
return y
"""
ROWS_OF_WORDS = """
input Q: bf16[64, 32]
input K: bf16[64, 32]
input V: bf16[64, 32]
S[i: 64, j: 64] = sum[d: 32](f32(Q[i, d]) * f32(K[j, d]))
m[i: 64] = max[j: 64](S[i, j])
P[i: 64, j: 64] = bf16(exp(S[i, j] - m[i]))
O[i: 64, d: 32] = sum[j: 64](f32(P[i, j]) * f32(V[j, d]))
return O
"""
WEIGHTS = """
input x: f32[64]
constant w: u8[32, 64]
constant s: f32[4, 64]
W[k: 64, j: 64] = f32(select(k % 2 == 0, i32(w[k // 2, j]) % 16, i32(w[k // 2, j]) // 16) - 8) * s[k // 16, j]
y[j: 64] = sum[k: 64](x[k] * W[k, j])
return y
"""


def rules_of(
    program: Program, rules: Rules = CPU, instructions: tuple[MatrixInstruction, ...] = (), first: object = None
) -> list[str]:
    """The rules that schedule the roots of a program, from its outputs back. `first`: the first variant's option, or those of
    the first ones."""
    options = first if isinstance(first, tuple) else () if first is None else (first,)
    schedule = Schedule(body_of(program), options, gpu=GPU_TARGET.gpu)  # type: ignore[arg-type]
    return [name for _, name in rules.run(schedule, Decided(instructions=instructions))]


def convolved(layout: str = "nchw", channels: int = 64) -> Program:
    return ops.conv2d(1, channels, 28, 28, channels, padding=1, layout=layout, constants=("W",))


def test_each_rule_for_processors_schedules_what_it_is_for() -> None:
    attention, finished = ops.attention(2, 64, 64, 32), parse(FINISHED.strip())
    expected = {
        "online": rules_of(ops.attention(1, 64, 4096, 32), first=256),
        "rows": rules_of(attention),
        "prepared": rules_of(parse(PREPARED.strip())),
        "fold": rules_of(ops.cumsum((64, 64))),
        "scatter": rules_of(ops.bincount((64,), bins=64)),
        "products": rules_of(finished, instructions=(BF16_TILES,)),
        "matrix rows": rules_of(parse(ROWS_OF_WORDS.strip()), instructions=(BF16_TILES,)),
        "choice": rules_of(convolved(), first=4),
        "filters": rules_of(convolved(channels=256), first=(4, True)),
        "groups": rules_of(parse(WEIGHTS.strip())),
        "window": rules_of(convolved("nhwc"), first=0),
        "overlap": rules_of(parse(FILTERED.strip()), first="tiles"),
        "narrow": rules_of(parse(FEW_COLUMNS.strip())),
        "slide": rules_of(ops.depthwise_conv2d(1, 8, 16, 16, padding=1)),
        "tile": rules_of(finished),
        "stream": rules_of(ops.softmax(64, 256)),
    }
    assert all(name in found for name, found in expected.items()), expected
    assert expected["rows"] == ["rows"], "one root takes in everything"
    assert expected["tile"] == ["tile"], "the product with what finishes it"
    assert expected["products"] == ["products", "packed", "packed"]
    assert {"exceptional", "transform", "prepared"} <= {*expected["choice"]}
    used = {name for found in expected.values() for name in found}
    assert used == {rule.name for rule in CPU.roots}, "each rule has a program here that needs it"


def test_each_rule_for_gpus_schedules_what_it_is_for() -> None:
    assert rules_of(ops.matmul_bias_relu(512, 512, 512), GPU) == ["tile"]
    assert rules_of(ops.cumsum((64, 64)), GPU) == ["fold"]
    assert rules_of(ops.softmax(64, 256), GPU) == ["stream"]
    convolution = Schedule(body_of(ops.conv2d(1, 64, 28, 28, 64, padding=1)), gpu=GPU_TARGET.gpu)
    ((root, name),) = GPU.run(convolution, Decided())
    assert name == "tile"
    assert "im2col" in convolution.sketch("").text
    assert {stage.name for stage in convolution.program.stages} == {"copy0", "copy1", root}, "a copy makes the columns"


@pytest.mark.parametrize("kind", TABLES)
def test_lists_are_whole(kind: str) -> None:
    rules = TABLES[kind]
    both = {id(rule): rule for rule in (*rules.preparing, *rules.roots)}.values()
    assert len({rule.name for rule in both}) == len(both), "two rules of one name"
    assert all(len({*listed}) == len(listed) for listed in (rules.preparing, rules.roots)), "a rule stands twice"
    for rule in both:
        assert (rule.prepare is not EMPTY.prepare) == (rule in rules.preparing), f"{rule.name} and its preparation"
        assert (rule.matches is not EMPTY.matches) == (rule in rules.roots), f"{rule.name} and its roots"
        assert (rule.matches is EMPTY.matches) == (rule.apply is EMPTY.apply), f"{rule.name} has one half of a rule"


@pytest.mark.parametrize("kind", TABLES)
def test_the_last_rule_takes_any_stage(kind: str) -> None:
    for program in (
        ops.cumsum((5, 6)),
        ops.matmul(8, 8, 8),
        ops.add(7),
        parse("input x: f32[3]\ny[] = x[1]\nreturn y"),
    ):
        for stage in body_of(program).stages:
            assert TABLES[kind].roots[-1].matches(body_of(program), stage, Decided()) == stage.name


# ---- a rule of one's own -----------------------------------------------------------------------------------------------


def _prepare(s: Schedule, decided: Decided) -> Decided:
    """Stages that are doubled stay as they are."""
    return decided.keeping(frozenset(stage.name for stage in s.program.stages if _doubles(stage)))


def _doubles(stage: Stage) -> bool:
    body = stage.bodies[0]
    return len(stage.axes) == 1 and isinstance(body, Op) and body.name == "add" and body.args[0] == body.args[1]


def _matches(program: Program, stage: Stage, decided: Decided) -> str | None:
    return stage.name if _doubles(stage) else None


def _apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
    pieces = s.split(
        s.stage(root).loops[0],
        s.factor(f"{root}.made_up", default=3),
        s.lanes(s.stage(root).definition.tensors[0].dtype),
    )
    s.vectorize(pieces[2])
    return {root}


MADE_UP = Rule("made up", _prepare, _matches, _apply)
WITH_IT = Rules((MADE_UP, *CPU.preparing), (MADE_UP, *CPU.roots))
DOUBLED = parse("input x: f32[61]\nt[i: 61] = x[i] + x[i]\ny[i: 61] = exp(t[i])\nreturn y")


def test_a_rule_that_is_put_in_a_list_prepares_and_schedules() -> None:
    assert rules_of(DOUBLED) == ["stream"], "what is cheap is written where it is read"
    assert rules_of(DOUBLED, WITH_IT) == ["stream", "made up"]
    assert rules_of(ops.matmul(64, 64, 64), WITH_IT) == rules_of(ops.matmul(64, 64, 64)), "others are as they were"


def test_sketches_of_a_new_rule_are_sketches_like_any_other() -> None:
    program = body_of(DOUBLED)
    sketches = trace(lambda s: _run(s, WITH_IT), program, "auto")
    (sketch,) = [one for one in sketches if ".made_up" in one.text]
    for number, values in enumerate(some_configs(program, sketch, 3)):
        assert_runs(program, sketch.apply(program, HOST, values), number)
    assert all(".made_up" not in one.text for one in derive(program))


def _run(s: Schedule, rules: Rules) -> None:
    rules.run(s, Decided())


def test_the_first_rule_that_matches_has_the_stage() -> None:
    later = replace(WITH_IT, roots=(*CPU.roots, MADE_UP))
    assert rules_of(DOUBLED, later) == ["stream", "stream"]


def test_what_a_rule_has_taken_is_no_root_and_what_stands_alone_is_taken_by_its_own_rule_only() -> None:
    seen: list[frozenset[str]] = []

    def matches(program: Program, stage: Stage, decided: Decided) -> str | None:
        seen.append(decided.taken)
        return stage.name

    def prepare(s: Schedule, decided: Decided) -> Decided:
        return replace(decided, alone=frozenset({s.program.stages[0].name}))

    def apply(s: Schedule, root: str, anchor: str, decided: Decided) -> set[str]:
        return {root, s.program.stages[1].name}

    program = body_of(
        parse("input x: f32[8]\na[i: 8] = exp(x[i])\nb[i: 8] = a[i] * 2\nc[i: 8] = b[i] + a[i]\nreturn c, b, a")
    )
    names = [stage.name for stage in program.stages]
    rule = Rule("all", prepare, matches, apply)
    found = Rules((rule,), (rule,)).run(Schedule(program), Decided())
    assert found == ((names[2], "all"), (names[0], "all"))
    assert seen == [{names[0]}, {*names}]


def test_a_list_that_leaves_a_stage_over_is_a_defect() -> None:
    with pytest.raises(InternalError, match="no rule schedules the stage"):
        Rules((), CPU.roots[:-1]).run(Schedule(body_of(ops.add(64))), Decided())
    with pytest.raises(InternalError, match="matches no stage"):
        Rules((), (replace(STREAM, apply=EMPTY.apply),)).run(Schedule(body_of(ops.add(64))), Decided())


def test_rules_do_not_see_where_a_stage_comes_from() -> None:
    for program in (convolved(), ops.attention(2, 64, 64, 32), ops.softmax(64, 256)):
        body = body_of(program)
        bare = replace(body, stages=tuple(replace(stage, origin=Origin()) for stage in body.stages))
        for target in (parse_target("x86:avx512+amx"), GPU_TARGET):
            assert [one.text for one in derive(bare, target)] == [one.text for one in derive(body, target)]
