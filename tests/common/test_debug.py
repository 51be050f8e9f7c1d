"""Debug levels and numbered dumps."""

from pathlib import Path

import pytest

from tilesmith.codegen.pipeline import build
from tilesmith.common.debug import DebugLevel, show, wanted
from tilesmith.common.errors import EnvironmentFailure
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.canonical import canonical
from tilesmith.tensor.text.parse import parse


@pytest.fixture(autouse=True)
def _silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILESMITH_DEBUG", raising=False)
    monkeypatch.delenv("TILESMITH_DUMP", raising=False)


@pytest.mark.parametrize("chosen", range(7))
def test_each_level_shows_what_the_lower_ones_show(
    chosen: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILESMITH_DEBUG", str(chosen))
    for level in DebugLevel:
        show(level, "matmul", f"text {level}")
        assert wanted(level) == (level <= chosen)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [level for level in DebugLevel if f"text {level}" in captured.err] == list(DebugLevel)[:chosen]


def test_a_text_that_nobody_wants_is_not_made() -> None:
    def expensive() -> str:
        raise AssertionError("was made")

    show(DebugLevel.ASSEMBLY, "matmul", expensive)
    assert not wanted(DebugLevel.ASSEMBLY)


def test_dumps_are_numbered_and_take_every_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "dumps"
    monkeypatch.setenv("TILESMITH_DUMP", str(folder))
    for level in DebugLevel:
        show(level, "matmul 64/a b", lambda level=level: f"text {level}")
    show(DebugLevel.LLVM, "matmul 64/a b", "again")
    assert sorted(path.name for path in folder.iterdir()) == [
        "0001-outline-matmul-64-a-b.txt",
        "0002-loops-matmul-64-a-b.txt",
        "0003-llvm-matmul-64-a-b.ll",
        "0004-assembly-matmul-64-a-b.s",
        "0005-llvm-matmul-64-a-b.ll",
    ]
    assert (folder / "0005-llvm-matmul-64-a-b.ll").read_text() == "again\n"
    assert capsys.readouterr().err == ""


def test_a_dump_goes_on_where_an_earlier_process_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0041-llvm-old.ll").touch()
    (tmp_path / "notes.txt").touch()
    monkeypatch.setenv("TILESMITH_DUMP", str(tmp_path))
    show(DebugLevel.LOOPS, "new", "text")
    assert (tmp_path / "0042-loops-new.txt").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TILESMITH_DUMP", str(tmp_path / "file"))
    with pytest.raises(EnvironmentFailure, match="cannot write a dump"):
        show(DebugLevel.LOOPS, "new", "text")


MARKS = {
    DebugLevel.OUTLINE: "vector t0.a0.p1: 4",
    DebugLevel.LOOPS: "nest t0:",
    DebugLevel.LLVM: "define",
    DebugLevel.ASSEMBLY: ".text",
}


def compiled() -> None:
    program = canonical(parse("input A: f32[16]\nB[i: 16] = A[i] + 1\nreturn B"))
    sketch = parse_sketch("sketch vectors\nstep split(t0.a0, 4)\nstep vectorize(t0.a0.p1)\n")
    build(program, sketch, {}, parse_target("x86:avx2"), 1)


@pytest.mark.parametrize("chosen", [0, 2, 3, 4, 5, 6])
def test_a_compile_shows_its_stages(
    chosen: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILESMITH_DEBUG", str(chosen))
    compiled()
    shown = capsys.readouterr().err
    titles = [line for line in shown.splitlines() if line.startswith("---- ")]
    assert titles == [f"---- {level.name.lower()}: pointwise_f32_16" for level in MARKS if level <= chosen]
    for level, mark in MARKS.items():
        assert (mark in shown) == (level <= chosen), level


def test_a_compile_dumps_its_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_DUMP", str(tmp_path))
    compiled()
    files = sorted(tmp_path.iterdir())
    assert [path.name.split("-")[1] for path in files] == ["outline", "loops", "llvm", "assembly"]
    for path, mark in zip(files, MARKS.values(), strict=True):
        assert mark in path.read_text()
