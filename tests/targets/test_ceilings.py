"""Ceilings: interpolation, text form, and defaults that follow from a target's numbers."""

import pickle
from dataclasses import replace

import pytest

from tilesmith.targets.ceilings import MATRIX, PRODUCTS, Ceilings, default_ceilings
from tilesmith.targets.matrix_instructions import DOTS
from tilesmith.targets.target import named_targets, parse_target
from tilesmith.tensor.dtype import DTYPES

MEASURED = Ceilings({"f32": 4.5e11}, ((1024, 8.0e11), (4096, 2.0e11), (1 << 20, 2.0e10)), 2)


def test_bandwidth_lies_on_a_line_between_entries_and_is_flat_outside() -> None:
    assert MEASURED.bandwidth_at(1) == 8.0e11
    assert MEASURED.bandwidth_at(1024) == 8.0e11
    assert MEASURED.bandwidth_at(2048) == pytest.approx(4.0e11)  # the geometric middle
    assert MEASURED.bandwidth_at(1 << 30) == 2.0e10


def test_json_and_pickle_give_equal_ceilings() -> None:
    assert Ceilings.from_json(MEASURED.to_json()) == MEASURED
    assert pickle.loads(pickle.dumps(MEASURED)) == MEASURED
    more = replace(MEASURED, streams={"read": ((1024, 1.0e11),)}, visits=((16, 4e-9), (4096, 1e-8)))
    assert Ceilings.from_json(more.to_json()) == more and pickle.loads(pickle.dumps(more)) == more
    assert more.visit_at(16) == 4e-9 and more.visit_at(9999) == 1e-8 and MEASURED.visit_at(16) == 0.0


@pytest.mark.parametrize("entries", [(), ((2, 1.0), (1, 1.0)), ((1, 1.0), (1, 2.0)), ((0, 1.0),)])
def test_entries_must_ascend(entries: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Ceilings({}, entries, 1)


@pytest.mark.parametrize("name", named_targets())
def test_defaults_cover_every_dtype_and_fall_with_the_working_set(name: str) -> None:
    ceilings = default_ceilings(parse_target(name), 2)
    assert {name for name in ceilings.flops if not name.endswith((PRODUCTS, DOTS))} - {MATRIX} == set(DTYPES)
    speeds = [speed for _, speed in ceilings.bandwidth]
    assert speeds == sorted(speeds, reverse=True)
    assert ceilings.flops["f64"] * 2 == ceilings.flops["f32"]


def test_defaults_grow_with_threads_and_know_half_precision() -> None:
    target = parse_target("x86:avx512")
    one, two = default_ceilings(target, 1), default_ceilings(target, 2)
    assert two.flops["f32"] == 2 * one.flops["f32"] == 2 * 16 * 2 * 2 * 3.0e9
    assert one.flops["f16"] == one.flops["f32"]
    assert default_ceilings(parse_target("x86:avx512+avx512fp16"), 1).flops["f16"] == 2 * one.flops["f32"]


def test_a_matrix_unit_may_be_the_highest_for_f32() -> None:
    assert MATRIX not in default_ceilings(parse_target("x86:avx512"), 1).flops
    ceilings = default_ceilings(parse_target("x86:avx512+amx"), 1)
    assert ceilings.highest("f32") == ceilings.flops[MATRIX] / 6 > 2 * ceilings.flops["f32"]
    assert ceilings.highest("f64") == ceilings.flops["f64"]
    slow = Ceilings({"f32": 4e11, MATRIX: 1e12}, ((1024, 1e9),), 1)
    assert slow.highest("f32") == 4e11


def test_products_of_narrow_elements_have_the_speed_of_their_instruction_or_of_their_sums() -> None:
    with_dots = default_ceilings(parse_target("x86:avx512+avx512vnni+avx512bf16"), 1)
    f32, i32 = with_dots.flops["f32"], with_dots.flops["i32"]
    assert (with_dots.of("u8_i8_dots"), with_dots.of("bf16_bf16_dots")) == (4 * i32, 2 * f32)
    assert with_dots.highest("u8_i8_dots") == 4 * i32 and with_dots.highest("i32") == i32
    halves = default_ceilings(parse_target("x86:avx512"), 1)
    assert halves.of("i16_i16_dots") == halves.of("u8_i8_dots") == 2 * i32, "bytes are widened to halves"
    without = default_ceilings(parse_target("aarch64:neon"), 1)
    kinds = ("i16_i16_dots", "u8_i8_dots", "bf16_bf16_dots")
    assert [without.of(kind) for kind in kinds] == [without.flops[name] for name in ("i32", "i32", "f32")]


def test_a_matrix_unit_multiplies_twice_as_many_bytes_as_bfloat16() -> None:
    ceilings = default_ceilings(parse_target("x86:avx512+amx+avx512vnni"), 1)
    unit = ceilings.flops[MATRIX]
    assert ceilings.highest("bf16_bf16_dots") == ceilings.roof("bf16_bf16_dots") == unit > ceilings.of("bf16_bf16_dots")
    assert ceilings.roof("f32") == ceilings.of("f32") < ceilings.highest("f32"), "made of products of its parts"
    assert [ceilings.highest(f"{a}_{b}_dots") for a in ("i8", "u8") for b in ("i8", "u8")] == [2 * unit] * 4
    assert ceilings.highest("i16_i16_dots") == ceilings.of("i16_i16_dots")


def test_each_use_of_memory_has_a_ceiling_of_its_own() -> None:
    speeds = {"read": 9.0, "triad": 7.0, "triad_past": 8.0, "copy": 6.0, "copy_past": 5.0, "write": 4.0}
    both = Ceilings({}, ((1024, 9.0),), 1, {name: ((1024, speed),) for name, speed in speeds.items()})
    assert both.speed_of_use(2048, written=4) == 9.0
    hinted = Ceilings({}, ((1024, 9.0),), 1, {**both.streams, "read_ahead": ((1024, 10.0),)})
    assert hinted.speed_of_use(2048, written=4) == 10.0 and hinted.speed_of_use(2048, written=1024) == 6.0
    assert both.speed_of_use(3072, written=1024) == 8.0
    assert both.speed_of_use(2048, written=1024) == 6.0
    assert both.speed_of_use(2048, written=2000) == 4.0
    assert Ceilings.from_json(both.to_json()) == both
    assert pickle.loads(pickle.dumps(both)) == both
    assert MEASURED.speed_of_use(1024, written=512) == MEASURED.bandwidth_at(1024)  # kept by an older version


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '"x"', "{}", "[" * 100_000, '{"flops": [], "bandwidth": [[1, 1]], "threads": 1}',
     '{"flops": {"f32": -1}, "bandwidth": [[1, 1]], "threads": 1}', '{"flops": {}, "bandwidth": [[1, NaN]], "threads": 1}',
     '{"flops": {}, "bandwidth": [[1, 1]], "threads": 1e999}', '{"flops": {}, "bandwidth": [[1]], "threads": 1}',
     '{"flops": {}, "bandwidth": [[1, 1]], "threads": 1, "streams": []}'],
)  # fmt: skip
def test_what_are_no_ceilings_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Ceilings.from_json(text)
