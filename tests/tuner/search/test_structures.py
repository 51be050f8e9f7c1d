from itertools import product

from tilesmith.schedules.space import ConfigSpace
from tilesmith.schedules.task import Task
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.effort import Draft
from tilesmith.tuner.search.structures import looked_at

SETTINGS = Draft(walked=256, further=4)
COSTS = (3.0, -2.0, 5.0, -4.0, 0.5, 1.0)  # of the second option of each variant


def sketches(stages: int) -> list[ConfigSpace]:
    """All combinations of two options for each variant, those with few second options first; a nest without variants before."""
    chosen = sorted(product((False, True), repeat=len(COSTS)), key=sum)
    found = [ConfigSpace(str(c), str(c), (), tuple((f"v{n}", x) for n, x in enumerate(c)), stages) for c in chosen]
    return [ConfigSpace("default", "default", (), (), stages), *found]


def seconds(space: ConfigSpace) -> float:
    return 100.0 + sum(cost for cost, (_, second) in zip(COSTS, space.variants, strict=False) if second)


def test_many_large_sketches_are_looked_at_once_for_each_option_and_the_best_is_among_them() -> None:
    spaces = sketches(SETTINGS.walked)
    found = looked_at(spaces, SETTINGS, lambda number: seconds(spaces[number]), float)
    assert len(found) == 1 + 1 + len(COSTS) + SETTINGS.further
    assert min(found.values()) == min(map(seconds, spaces))


def test_what_there_is_room_for_is_looked_at() -> None:
    spaces = sketches(10)
    assert len(looked_at(spaces, SETTINGS, lambda number: seconds(spaces[number]), float)) == SETTINGS.walked // 10


def test_few_or_small_sketches_are_all_looked_at_in_their_order() -> None:
    spaces = sketches(1)
    assert list(looked_at(spaces, SETTINGS, lambda number: seconds(spaces[number]), float)) == list(range(len(spaces)))


def test_an_option_without_a_valid_candidate_brings_no_combination() -> None:
    spaces = sketches(SETTINGS.walked)

    def found_by(number: int) -> float:
        broken = ("v1", True) in spaces[number].variants
        return float("inf") if broken else seconds(spaces[number])

    found = looked_at(spaces, SETTINGS, found_by, float)
    assert min(found.values()) == min(map(found_by, range(len(spaces))))


def test_options_that_follow_from_others_cost_nothing_of_their_own() -> None:
    base = ConfigSpace("0", "0", (), (("inline", False),), SETTINGS.walked)
    inlined = ConfigSpace("1", "1", (), (("inline", True), ("pack", True)), SETTINGS.walked)
    other = ConfigSpace("2", "2", (), (("inline", True), ("pack", False)), SETTINGS.walked)
    seen: list[int] = []

    def look(number: int) -> float:
        seen.append(number)
        return (9.0, 5.0, 7.0)[number]

    assert looked_at([base, inlined, other], SETTINGS, look, float) == {0: 9.0, 1: 5.0, 2: 7.0}
    assert seen == [0, 1, 2]


def test_config_spaces_tell_the_options_and_the_stages_of_their_sketches() -> None:
    program = parse("""
        input x: f32[64, 64]
        a[i: 64] = sum[j: 64](x[i, j])
        b[i: 64] = exp(a[i])
        c[i: 64, j: 64] = x[i, j] * b[i] + 1
        return c
    """)
    task = Task.of(program, parse_target("x86:avx2"), 1)
    for sketch in task.sketches:
        inlined = sum(step.op == "inline" for step in sketch.steps)
        space = sketch.config_space(task.body, task.target)
        assert (space.variants, space.stages) == (sketch.variants, len(task.body.stages) - inlined)
