"""The table of matrix instructions: rows are right in themselves, targets have those that fit, nobody else knows a shape."""

from __future__ import annotations

import re

import pytest

from helpers.source import ROOT, modules
from tilesmith.targets.ceilings import default_ceilings
from tilesmith.targets.matrix_instructions import MATRIX_INSTRUCTIONS, WORD_BITS, MatrixInstruction
from tilesmith.targets.target import parse_target
from tilesmith.tensor.dots import SMALL
from tilesmith.tensor.dtype import DTYPES

# Who may name an instruction of the matrix unit of x86: its row, its permission, what writes its code, and targets as people
# write them.
KNOWING = {
    "targets/isa.py", "targets/host.py", "targets/in_c.py", "targets/matrix_instructions.py", "targets/matrix_unit.py",
    "codegen/emit/matrix/amx.py", "codegen/emit/statements.py", "measure/calibrate/loops.py",
}  # fmt: skip
NAMES = re.compile(r"(?i:\bamx|\btdp|tileload|tilestore|tilezero)|\bSIDE\b|\bROW_BYTES\b|\bTILE_CYCLES\b|\b16 x 16\b")


@pytest.mark.parametrize("row", MATRIX_INSTRUCTIONS.values(), ids=lambda row: row.name)
def test_a_row_is_right_in_itself(row: MatrixInstruction) -> None:
    a, b = DTYPES[row.a], DTYPES["i8" if row.b == SMALL else row.b]
    assert a.bits * row.group == b.bits * row.group == WORD_BITS == DTYPES[row.sum].bits
    assert row.k % row.group == 0 and row.n * WORD_BITS == row.vector_bits, "a row of sums is a vector"
    assert row in parse_target(row.example).matrix_instructions


def test_a_target_has_the_rows_whose_features_and_vectors_it_has() -> None:
    assert [row.name for row in parse_target("x86:avx512+amx").matrix_instructions] == [
        "amx_bf16", "amx_u8_i8", "amx_u8_u8", "amx_i8_i8", "amx_i8_u8", "vpmaddwd_avx512bw_512",
        "vpmaddubsw_avx512bw_512",
    ]  # fmt: skip
    assert [row.a for row in parse_target("x86:avx512+amx-tile+amx-int8").matrix_instructions] == [
        "u8",
        "u8",
        "i8",
        "i8",
        "i16",
        "u8",
    ]
    assert [(row.a, row.b, row.n) for row in parse_target("x86:avx512+avx512vnni+avx512bf16").matrix_instructions] == [
        ("u8", "i8", 16), ("i16", "i16", 16), ("u8", SMALL, 16), ("bf16", "bf16", 16),
    ]  # fmt: skip
    assert [(row.a, row.n) for row in parse_target("x86:avx2+avxvnni").matrix_instructions] == [
        ("u8", 8), ("i16", 8), ("u8", 8),
    ]  # fmt: skip
    assert not parse_target("x86:avx512+avx512vnni").has_matrix_unit
    for text, bits in (("x86:avx512", 512), ("x86:avx512+amx;vector=256", 256), ("x86:avx2", 256), ("x86:sse2", 128)):
        row, *small = parse_target(text).matrix_instructions
        assert [(one.a, one.b, one.adds) for one in small] == ([("u8", SMALL, False)] if bits > 128 else [])
        assert (row.a, row.b, row.vector_bits, row.adds) == ("i16", "i16", bits, False)
        assert not parse_target(text).has_matrix_unit
    for text in ("aarch64:neon", "cuda:sm_90a"):
        assert parse_target(text).matrix_instructions == () and not parse_target(text).has_matrix_unit


def test_of_two_instructions_for_the_same_a_target_has_the_first() -> None:
    names = [row.name for row in parse_target("x86:avx2+avxvnni").matrix_instructions]
    assert names == ["vpdpbusd_avxvnni_256", "vpdpwssd_avxvnni_256", "vpmaddubsw_avx2_256"]


def test_beside_a_matrix_unit_words_of_bfloat16_take_longer() -> None:
    """Half as many products as multiply-adds do there, twice as many elsewhere; words of bytes are alike."""
    found = {}
    for text in ("avx512+avx512bf16+avx512vnni", "avx512+avx512bf16+avx512vnni+amx"):
        target = parse_target(f"x86:{text}")
        rows = {row.name: row for row in target.matrix_instructions}
        found[text] = rows["vdpbf16ps_avx512bf16_512"].speed, rows["vpdpbusd_avx512vnni_512"].speed
        floats = default_ceilings(target, 1).flops
        assert floats["bf16_bf16_dots"] / floats["f32"] == (0.5 if target.has_matrix_unit else 2.0)
    (elsewhere, bytes_), (beside, alike) = found.values()
    assert elsewhere == 4 * beside and bytes_ == alike


def test_rows_are_found_by_the_names_that_sketches_say() -> None:
    assert all(name == row.name for name, row in MATRIX_INSTRUCTIONS.items())


def test_only_the_table_and_what_writes_code_name_an_instruction() -> None:
    found = {str(path.relative_to(ROOT)) for path in modules().values() if NAMES.search(path.read_text("utf-8"))}
    assert found - KNOWING == set()
    assert len(found) >= 4, "the names are looked for"
