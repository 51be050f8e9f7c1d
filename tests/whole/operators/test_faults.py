"""Operator x dtype x fault: what a kernel may do wrong, the checker finds, or nobody can (`why_invisible` says why)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from helpers.operators.case import Case
from helpers.operators.cases import CASES
from helpers.operators.faults import outputs_of, reduction_faults, stored, whole_faults, why_invisible
from tilesmith.common.errors import TilesmithError
from tilesmith.measure.checking.bench import telling_inputs
from tilesmith.measure.checking.verify import Checker
from tilesmith.tensor import ops
from tilesmith.tensor.program import Program

FIRST = list({case.operator: case for case in reversed(CASES)}.values())  # of each operator
OFTEN = ("f32", "bf16", "f16", "i32", "i8")
SELDOM = ("f64", "i64", "i16", "u8", "bool")
# They ask what no random number is, but for bools.
NEVER_TRUE = {"is_nan", "is_inf"}

# Reductions as long as real ones, and how many terms a kernel skips that leaves out a block of them.
LONG: list[tuple[str, dict[str, object], int]] = [
    ("row_sum", {"rows": 8, "columns": 4096}, 256),
    ("column_sum", {"rows": 4096, "columns": 8}, 256),
    ("row_mean", {"rows": 8, "columns": 4096}, 256),
    ("total", {"size": 4096}, 256),
    ("variance", {"shape": (8, 1024), "axes": (1,)}, 256),
    ("deviation", {"shape": (8, 1024), "axes": (1,)}, 256),
    ("norm1", {"shape": (8, 1024), "axes": (1,)}, 256),
    ("norm2", {"shape": (8, 1024), "axes": (1,)}, 256),
    ("prod", {"shape": (8, 300), "axes": (1,)}, 16),
    ("log_sum_exp", {"shape": (8, 1024), "axes": (1,)}, 256),
    ("softmax", {"rows": 8, "columns": 1024}, 256),
    ("layer_norm", {"rows": 8, "columns": 1024}, 256),
    ("rms_norm", {"rows": 8, "columns": 1024}, 256),
    ("mse_loss", {"shape": (64, 64)}, 16),
    ("cosine_similarity", {"rows": 8, "columns": 1024}, 256),
    ("matmul", {"m": 8, "n": 8, "k": 4096}, 256),
    ("matmul_softmax", {"m": 8, "n": 512, "k": 64}, 16),
    ("attention", {"heads": 1, "queries": 8, "keys": 512, "width": 16}, 64),
    ("cumsum", {"shape": (4, 256), "axis": 1}, 32),
]


def undetected(program: Program, many: int = 0) -> Iterator[tuple[str, str]]:
    """The faults of a program that are not found: (fault, why that cannot be, or "")."""
    inputs, checker = telling_inputs(program, 3)
    others, _ = telling_inputs(program, 4)
    right = outputs_of(program, inputs)
    dtypes = [program.tensors[name].dtype for name in program.outputs]
    assert checker.check([stored(*one) for one in zip(right, dtypes, strict=True)]) is None
    faults = [*whole_faults(right, outputs_of(program, others)), *reduction_faults(program, inputs, many)]
    for name, wrong in faults:
        if checker.check([stored(*one) for one in zip(wrong, dtypes, strict=True)]) is None:
            yield name, why_invisible(program, right, wrong)


def programs(cases: Sequence[Case], dtype: str) -> Iterator[tuple[str, Program]]:
    """The cases' programs in a dtype, of operators that take it."""
    for case in cases:
        try:
            yield case.name, case.program(dtype=dtype)
        except TilesmithError:
            continue


def check_table(named: Iterator[tuple[str, Program]]) -> int:
    """Asserts that each fault that is not found is one that nobody can find; the number of programs."""
    count, missed = 0, []
    for name, program in named:
        count += 1
        missed += [(name, fault) for fault, why in undetected(program) if not why]
    assert not missed
    return count


@pytest.mark.parametrize("dtype", OFTEN)
def test_faults_of_every_operator_are_found(dtype: str) -> None:
    assert check_table(programs(FIRST, dtype)) > 40


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OFTEN + SELDOM)
def test_faults_of_every_case_are_found(dtype: str) -> None:
    assert check_table(programs(CASES, dtype)) > 5


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_zeros_never_pass(dtype: str) -> None:
    for name, program in programs(FIRST, dtype):
        _, checker = telling_inputs(program, 5)
        assert bool(checker.remark) == (name.split("-")[0] in NEVER_TRUE), f"{name}: {checker.remark}"


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(("operator", "sizes", "many"), LONG, ids=lambda value: value if isinstance(value, str) else "")
def test_faults_of_long_reductions_are_found(operator: str, sizes: dict[str, object], many: int, dtype: str) -> None:
    program = ops.find_operator(operator)(**sizes, dtype=dtype)
    missed = dict(undetected(program, many))
    assert all(missed.values()), missed
    summed = next(stage.name for stage in reversed(program.stages) if stage.reduction)
    assert not {fault for fault in missed if f" {many} of {summed} " in fault}, missed


def test_what_cannot_be_told_is_said() -> None:
    program = ops.find_operator("is_nan")(size=50)
    inputs, checker = telling_inputs(program, 0)
    assert "zeros would pass for out" in checker.remark
    assert Checker(program, inputs).remark == checker.remark
