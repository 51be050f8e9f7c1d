"""WHAT on the command line: operators, files, functions, and one clear error for each mistake."""

from pathlib import Path

import pytest

import tilesmith
from tilesmith.common.errors import ArgumentError, ProgramError, UserError
from tilesmith.tuner.cli.named.what import read_what, read_whats

TEXT = "input A: f32[4, 8]\nB[i: 4] = sum[k: 8](A[i, k])\nreturn B\n"


def test_an_operator_with_sizes_gives_its_program_and_the_line_that_makes_it_again() -> None:
    what = read_what("matmul", ["m=8", "n=4", "k=16", "transpose_b=true", "dtype=f64"], ["B"])
    assert what.program == tilesmith.ops.matmul(m=8, n=4, k=16, transpose_b=True, dtype="f64", constants=["B"])
    assert eval(what.python, {"tilesmith": tilesmith}) == what.program


def test_a_file_gives_its_program(tmp_path: Path) -> None:
    path = tmp_path / "rows.tensor"
    path.write_text(TEXT)
    what = read_what(str(path))
    assert what.program == tilesmith.parse(TEXT)
    assert eval(what.python, {"tilesmith": tilesmith, "open": open}) == what.program


MODULE = """
from tilesmith import ops
def layer(rows, columns, kind="row_sum", constants=()):
    return getattr(ops, kind)(rows, columns)
def wrong():
    return 3
def broken():
    return 1 / 0
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "layers_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return "layers_of_mine"


def test_a_function_gives_what_it_returns(module: str) -> None:
    what = read_what(f"{module}:layer", ["rows=4", "columns=8"])
    assert what.program == tilesmith.ops.row_sum(4, 8)
    assert what.python == "layers_of_mine.layer(rows=4, columns=8)"


@pytest.mark.parametrize(
    ("function", "settings", "kind", "problem"),
    [
        ("layer", ["rows=4"], ArgumentError, "missing a required argument: 'columns'"),
        ("layer", ["rows=4", "columns=8", "depth=1"], ArgumentError, "depth"),
        ("layer", ["rows=4", "columns=-8"], UserError, "positive"),
        ("missing", [], ArgumentError, "no function 'missing'"),
        ("wrong", [], ArgumentError, "gave no program"),
        ("broken", [], ProgramError, "raised ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_work_is_told(
    module: str, function: str, settings: list[str], kind: type[UserError], problem: str
) -> None:
    with pytest.raises(kind, match=problem):
        read_what(f"{module}:{function}", settings)


@pytest.mark.parametrize(
    ("what", "settings", "problem"),
    [
        ("matmull", ["m=8"], "unknown operator 'matmull'"),
        ("matmul", ["m=8", "n=8"], "needs k"),
        ("matmul", ["m=8", "n=8", "k=0"], "positive integer"),
        ("matmul", ["m=8", "n=8", "k=-3"], "positive integer"),
        ("matmul", ["m=8", "n=8", "k=2.5"], "not an integer"),
        ("matmul", ["m=8", "n=8", "k=many"], "not an integer"),
        ("matmul", ["m=8", "n=8", "k"], "cannot read 'k'"),
        ("matmul", ["m=8", "m=9", "n=8", "k=8"], "m is given twice"),
        ("matmul", ["m=8", "n=8", "k=8", "q=8"], "no argument 'q'"),
        ("matmul", ["m=8", "n=8", "k=8", "dtype=f33"], "unknown dtype"),
        ("no_such_module:f", [], "cannot import"),
        ("nowhere/no.tensor", [], "cannot read the program file"),
    ],
)
def test_mistakes_get_one_clear_error(what: str, settings: list[str], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        read_what(what, settings)


def test_what_is_left_out_or_misread_is_told_with_what_to_write() -> None:
    with pytest.raises(ArgumentError) as caught:
        read_what("matmul", ["m=8", "n=8"])
    assert caught.value.expected.endswith("[transpose_b=false] [dtype=f32]"), "as the command line writes it"
    with pytest.raises(ArgumentError) as caught:
        read_what("own/template.py:register_tiles")
    assert caught.value.advice == "name the module, not the file: own.template:register_tiles"


def test_an_unknown_constant_is_told() -> None:
    with pytest.raises(ArgumentError, match="no operand is called 'Z'"):
        read_what("matmul", ["m=8", "n=8", "k=8"], ["Z"])


def test_a_file_says_its_sizes_and_constants_itself(tmp_path: Path) -> None:
    path = tmp_path / "rows.tensor"
    path.write_text(TEXT)
    with pytest.raises(ArgumentError, match="says its sizes itself"):
        read_what(str(path), ["m=4"])
    with pytest.raises(ArgumentError, match="says itself what is constant") as caught:
        read_what(str(path), [], ["A"])
    assert "constant A: ..." in caught.value.advice


def test_a_wrong_file_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "rows.tensor"
    path.write_text(TEXT.replace("A[i, k]", "A[i]"))
    with pytest.raises(ProgramError) as caught:
        read_what(str(path))
    assert "A[i]" in caught.value.where and str(path) in caught.value.problem
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="no UTF-8"):
        read_what(str(path))


def test_several_are_told_apart_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "a.tensor"
    file.write_text("input A: f32[4]\nB[i: 4] = A[i] * 2.0\nreturn B\n")
    first, second, third = read_whats([str(file), "matmul", "m=8", "n=8", "k=8", "softmax", "rows=4", "columns=8"])
    assert "parse(open(" in first.python and second.program.outputs == ("C",)
    assert third.python == "tilesmith.ops.softmax(rows=4, columns=8)"
    with pytest.raises(ArgumentError, match="cannot read '512'"):
        read_whats(["matmul", "512"])


def test_every_argument_of_an_operator_is_read_and_pasted() -> None:
    settings = ["n=1", "c=4", "h=9", "w=8", "o=6", "kernel=3x5", "padding=1", "layout=nhwc"]
    what = read_what("conv2d", settings, ["W"])
    assert what.program == tilesmith.ops.conv2d(1, 4, 9, 8, 6, (3, 5), padding=1, layout="nhwc", constants=["W"])
    assert eval(what.python, {"tilesmith": tilesmith}) == what.program
    what = read_what("concat", ["shapes=4x5,6x5"])
    assert eval(what.python, {"tilesmith": tilesmith}) == what.program == tilesmith.ops.concat(((4, 5), (6, 5)))
    what = read_what("einsum", ["equation=ij,jk->ki", "shapes=4x5,5x6", "dtype=f64"])
    assert eval(what.python, {"tilesmith": tilesmith}) == what.program
    what = read_what("leaky_relu", ["size=9", "alpha=0.25"])
    assert eval(what.python, {"tilesmith": tilesmith}) == what.program
