"""`tune inspect` prints every stage; `tune diff` says where two records, or two logs, part."""

import json
import re
import shutil
from pathlib import Path

import pytest

from helpers.command_line.records import Call, fill
from tilesmith.codegen.ir.parsing import parse_loops
from tilesmith.codegen.ir.printing import print_loops
from tilesmith.schedules.sketch import parse_sketch
from tilesmith.targets.target import parse_target
from tilesmith.tensor.text.parse import parse
from tilesmith.tuner.stages import stages_for

LAYERS = """\
input x: f32[64, 96]
constant a: f32[96, 128]
constant b: f32[128, 96]
y[i: 64, j: 128] = sum[k: 96](x[i, k] * a[k, j])
r[i: 64, j: 128] = max(y[i, j], 0)
z[i: 64, j: 96] = sum[k: 128](r[i, k] * b[k, j])
e[i: 64, j: 96] = exp(z[i, j]) * 2
w[i: 64, j: 64] = sum[k: 96](e[i, k] * e[j, k])
return w
"""


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    path = tmp_path / "layers.tensor"
    path.write_text(LAYERS)
    return path


def test_each_stage_is_text(call: Call, layers: Path) -> None:
    says = {
        "program": "input x: f32[64, 96]", "rewritten": "input x: f32[64, 96]", "kernels": "# kernel 1\n",
        "sketch": "sketch ", "outline": "for ", "loops": "for ", "llvm": "define ", "asm": "ret",
    }  # fmt: skip
    assert tuple(says) == stages_for(parse_target("host"))
    for stage, said in says.items():
        answer = call("inspect", layers, "--stage", stage, "--threads", "1")
        assert answer.code == 0 and said in answer.out, (stage, answer.err)
    assert set(stages_for(parse_target("cuda:sm_90a"))) >= {"ptx", "sass"}


def test_programs_parse_again(call: Call, layers: Path) -> None:
    assert parse(call("inspect", layers, "--stage", "rewritten").out).outputs == ("w",)
    kernels = call("inspect", layers, "--stage", "kernels").out.split("# kernel ")[1:]
    assert len(kernels) > 1 and [text.partition("\n")[0] for text in kernels] == [str(n) for n in range(len(kernels))]
    for number, text in enumerate(kernels):
        one = parse(text.partition("\n")[2])
        alone = call("inspect", layers, "--stage", "program", "--kernel", number).out
        assert parse(alone.partition("\n")[2]) == one


def test_schedules_and_loops_parse_again(call: Call) -> None:
    small = "matmul", "m=32", "n=32", "k=32", "--constant", "B"
    for target, what in (("host", small), ("cuda:sm_90a", small)):
        for stage, read, written in (
            ("sketch", parse_sketch, lambda sketch: sketch.text),
            ("loops", parse_loops, print_loops),
        ):
            options = "--stage", stage, "--target", target, "--threads", "1"
            text = call("inspect", *what, *options).out.rstrip("\n")
            text = text.partition("\n")[2] if text.startswith("# kernel") else text
            assert text and written(read(f"{text}\n")).rstrip("\n") == text


def test_a_graph_has_kernels_and_stages_with_their_times(call: Call, layers: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.dot"
    answer = call("inspect", layers, "--graph", path, "--threads", "1")
    assert answer.code == 0, answer.err
    text = path.read_text()
    kernels = re.findall(r'label="\d: (\w+)\\n[\d.]+ us, ([\d.]+)%"', text)
    assert len(kernels) > 1 and 95 < sum(float(share) for _, share in kernels) <= 100.5
    assert '"y" -> ' in text and '"in x" -> "y"' in text and "in a" not in text
    clusters = text.split("subgraph cluster_")[1:]
    colours = {
        float(re.findall(r"([\d.]+)%", one)[0]): re.findall(r"fillcolor=\"#(..)(..)", one)[0] for one in clusters
    }
    assert colours[max(colours)] == ("ec", "5c")
    elsewhere = call("inspect", layers, "--graph", path, "--target", "aarch64:neon")
    assert elsewhere.code == 0 and " us, " not in path.read_text()


@pytest.mark.skipif(shutil.which("dot") is None, reason="no graphviz")
def test_a_graph_is_laid_out(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    assert call("inspect", "row_sum", "rows=64", "columns=64", "--graph", path, "--threads", "1").code == 0
    assert "row_sum_f32_64x64" in path.read_text() and "</svg>" in path.read_text()


def test_without_graphviz_it_says_what_to_install(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    answer = call("inspect", "relu", "shape=64", "--graph", tmp_path / "out.svg")
    assert answer.code != 0 and "apt install graphviz" in answer.err
    assert ".svg" in call("inspect", "relu", "shape=64", "--graph", "out.png").err


def test_a_stage_for_another_machine(call: Call) -> None:
    answer = call(
        "inspect", "row_sum", "rows=64", "columns=64", "--target", "aarch64:neon", "--stage", "asm", "--threads", "1"
    )
    assert answer.code == 0 and "fadd" in answer.out


def test_what_is_not_there_is_said(call: Call, layers: Path) -> None:
    for words, said in (
        (["--stage", "ast"], "there is no stage 'ast'"), (["--kernel", "9"], "there is no kernel 9"),
        (["--kernel", "-1"], "there is no kernel -1"), (["--target", "z80"], "z80"),
    ):  # fmt: skip
        answer = call("inspect", layers, *words)
        assert answer.code == 2 and said in answer.err and answer.out == ""


def test_diff_of_records(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    fill(path)
    answer = call("diff", 1, 2, "--db", path)
    assert answer.code == 0 and answer.out.startswith("--- record 1\n+++ record 2\n@@ ")
    changed = [line for line in answer.out.splitlines() if line[:1] in "+-" and line[1:].startswith("# i.tile")]
    assert {line[0] for line in changed} == {"+", "-"}
    assert call("diff", 1, 1, "--db", path, "--stage", "loops").out == "records 1 and 1 have the same loops\n"
    for words, said in (
        ([1, 99], "no record 99"),
        ([1, 3], "record 3 failed"),
        ([1, 2, "--stage", "ptx"], "no stage 'ptx'"),
    ):
        failed = call("diff", *words, "--db", path)
        assert failed.code == 2 and said in failed.err


def test_diff_of_two_stages_of_a_record(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    fill(path)
    answer = call("diff", "1:outline", "1:loops", "--db", path)
    assert answer.code == 0 and answer.out.startswith("--- record 1, outline\n+++ record 1, loops\n@@ ")
    gone, new = ({line[1:] for line in answer.out.splitlines() if line[0] == sign} for sign in "-+")
    for lines, stage in ((gone, "outline"), (new, "loops")):
        whole = call("diff", f"1:{stage}", "2:program", "--db", path).out
        assert {line for line in lines if line.strip()} - {f"-- record 1, {stage}", f"++ record 1, {stage}"} <= {
            line[1:] for line in whole.splitlines()
        }
    mixed = call("diff", "1:loops", 1, "--db", path, "--stage", "loops")
    assert mixed.out == "records 1 and 1 have the same loops\n"
    assert call("diff", "1:program", "2:program", "--db", path).out.startswith("--- record 1\n+++ record 2\n")
    for words, said in (
        (["1:outlin", 1], "did you mean outline?"), (["1:", 1], "there is no stage ''"), (["1:loops:llvm", 1], "no stage"),
        (["99:loops", 1], "no record 99"), (["1:loops", tmp_path / "old.jsonl"], "cannot be compared"),
    ):  # fmt: skip
        failed = call("diff", *words, "--db", path)
        assert failed.code == 2 and said in failed.err


def test_diff_of_logs(call: Call, tmp_path: Path) -> None:
    database, old, new = tmp_path / "records.sqlite", tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    fill(database)
    call("log", "export", new, "--db", database)
    lines = new.read_text().splitlines(keepends=True)
    fastest = min((line for line in lines if '"ok"' in line), key=lambda line: min(json.loads(line)["times"]))
    old.write_text("".join(line for line in lines if line != fastest))
    answer = call("diff", old, new)
    assert answer.code == 0 and "1 tasks differ, 0 are the same" in answer.out
    (row,) = [line for line in answer.out.splitlines() if "row_sum" in line or "[24]" in line]
    assert re.search(r" 0 +1 +5 +2 ms +1 ms +2.00 times as fast", row), row
    assert re.search(r" 1 +0 +5 +1 ms +2 ms +2.00 times as slow", call("diff", new, old).out)
    assert call("diff", new, new).out == "0 tasks differ, 1 are the same\n"
    for words, said in (([new, 1], "cannot be compared"), ([new, tmp_path / "none.jsonl"], "cannot be read")):
        failed = call("diff", *words, "--db", database)
        assert failed.code == 2 and said in failed.err
    new.write_text("nonsense\n")
    assert call("diff", old, new).code == 2
