"""Whole models on the command line: each way in, each command, and one clear error for each mistake."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from helpers.command_line.records import Answer, Call
from helpers.warm.client import WarmPython, run_python
from tilesmith.common.errors import ArgumentError, UserError
from tilesmith.graph.model import Model
from tilesmith.tensor.dtype import boolean, f32, i64
from tilesmith.tuner.cli.named import models
from tilesmith.tuner.cli.named.input_specs import InputSpec, read_inputs_given
from tilesmith.tuner.cli.named.what import load_function, read_what
from tilesmith.tuner.records.database import Database

WIDTHS = (24, 20, 28, 16)


def layers() -> Model:
    """Three dense layers, which are cut into as many kernels."""
    value, constants = ts.placeholder((6, WIDTHS[0]), name="x"), {}
    for number, (width, to) in enumerate(pairwise(WIDTHS)):
        k, w = ts.reduce_axis(width, "k"), ts.constant((width, to), name=f"w{number}")
        product = ts.compute((6, to), lambda i, j, v=value, w=w, k=k: ts.sum(v[i, k] * w[k, j], k), axes=("i", "j"))
        value = ts.compute((6, to), lambda i, j, p=product: ts.tanh(p[i, j]), axes=("i", "j"))
        constants[w.name] = np.full(w.shape, 0.1, np.float32)
    return Model(ts.program(value), constants, "layers")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    layers().save(tmp_path / "layers.model")
    return tmp_path / "layers.model"


def tune(cache: Path, *words: object, cwd: Path | None = None) -> Answer:
    done = run_python("-m", "tilesmith", *words, env={**os.environ, "TILESMITH_CACHE": str(cache)}, cwd=cwd)
    return Answer(done.returncode, done.stdout, done.stderr)


def test_a_search_of_a_model_says_how_the_whole_stands(
    kept_ceilings: Path, tmp_path: Path, saved: Path, call: Call
) -> None:
    db = tmp_path / "records.sqlite"
    answer = tune(kept_ceilings, "run", saved, "--trials", 12, "--effort", "quick", "--threads", 1, "--db", db)
    assert answer.code == 0, answer.err
    last = answer.err.splitlines()[-1]
    assert re.fullmatch(
        r"layers: 12/12 trials, [\d.]+ .?s now \([\d.]+ .?s at first\), \d+% of it open, 0 failed", last
    )
    assert re.search(r"^now +[\d.]+ .?s: the best of its kernels, added up", answer.out, re.M)
    assert re.search(r"^open +\d+% of it", answer.out, re.M)
    lines = answer.out[answer.out.index("import tilesmith") :]
    names: dict[str, object] = {}
    exec(lines, names)
    kernel = names["kernel"]
    assert isinstance(kernel, ts.Kernel)
    assert {call.provenance.tier for call in kernel.provenance.calls} == {"exact"}  # type: ignore[attr-defined]

    shown = call("show", saved, "--db", db).out
    assert shown.startswith("layers on ") and len(re.findall(r"^[0-9a-f]{8} ", shown, re.M)) == 3
    assert "now " in call("best", saved, "--db", db).out and "tilesmith.load(" in call("best", saved, "--db", db).out
    explained = call("explain", saved).out
    assert "layers: 6 stages, cut into 3 calls of 3 kernels" in explained


def test_ctrl_c_keeps_what_was_found_and_the_same_command_goes_on(
    kept_ceilings: Path, tmp_path: Path, saved: Path
) -> None:
    db = tmp_path / "records.sqlite"
    words = ["run", str(saved), "--trials", "400", "--threads", "1", "--db", str(db)]
    environment = {**os.environ, "TILESMITH_CACHE": str(kept_ceilings)}
    process = WarmPython("-m", "tilesmith", *words, env=environment)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (db.exists() and _tasks(db)):
            time.sleep(0.2)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "interrupted: the same command continues it" in out and "Traceback" not in err
    assert "layers on " in out and "kernel = tilesmith.compile(model" in out
    assert _tasks(db) >= 1


def _tasks(db: Path) -> int:
    try:
        with Database(db, read_only=True) as database:
            return len(database.tasks())
    except ts.errors.TilesmithError:
        return 0


def test_a_model_without_records_says_what_to_do(tmp_path: Path, saved: Path, call: Call) -> None:
    with Database(tmp_path / "default.sqlite"):
        pass
    for command in ("show", "best"):
        answer = call(command, saved)
        assert answer.code == 2 and f"no records of {saved}" in answer.err and f"tune run {saved}" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.onnx"], "there is no nothing.onnx"),
        (["nothing.model"], "there is no nothing.model"),
        (["weights.pt"], "write a function that makes the module"),
        (["{saved}", "batch=1"], "has its sizes already"),
        (["{saved}", "--input", "6x23"], r"expected: x=f32\[6,24\]"),
        (["{saved}", "--input", "y=6x24"], "the model has other inputs"),
        (["{saved}", "--constant", "x"], "a model says itself what is constant"),
        (["{saved}", "--template", "os:getcwd"], "a template and inputs are of one kernel"),
        (["matmul", "m=2", "n=2", "k=2", "--input", "2x2"], "matmul is no model"),
        (["{saved}", "matmul", "m=2", "n=2", "k=2", "--input", "2x2"], "--input is of one model"),
    ],
)
def test_what_is_wrong_is_one_error(words: list[str], said: str, saved: Path, call: Call) -> None:
    answer = call("run", *(word.format(saved=saved) for word in words))
    assert answer.code == 2 and len(re.findall("^error:", answer.err, re.M)) == 1
    assert re.search(said, answer.err), answer.err


def test_a_folder_that_is_no_model_is_told(tmp_path: Path, call: Call) -> None:
    (tmp_path / "half.model").mkdir()
    answer = call("run", tmp_path / "half.model")
    assert answer.code == 2 and "is no saved model" in answer.err


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("1x3x8", InputSpec("", f32, (1, 3, 8))),
        ("i64[1, 128]", InputSpec("", i64, (1, 128))),
        ("mask=bool[2]", InputSpec("mask", boolean, (2,))),
        ("f32[]", InputSpec("", f32, ())),
        ("7", InputSpec("", f32, (7,))),
    ],
)
def test_inputs_are_read(text: str, spec: InputSpec) -> None:
    assert read_inputs_given([text]) == (spec,)
    assert read_inputs_given([str(spec)]) == (spec,)


@pytest.mark.parametrize(
    "text", ["", "x", "1x", "1x0", "1xA", "f33[1]", "f32[1", "f32[1,]", "a b=3", "x=", "99999999x99999999"]
)
def test_inputs_that_are_none_are_told(text: str) -> None:
    with pytest.raises(ArgumentError, match="--input"):
        read_inputs_given([text])


@pytest.mark.parametrize("texts", [["a=1", "a=2"], ["a=1", "2"]])
def test_inputs_that_do_not_go_together_are_told(texts: list[str]) -> None:
    with pytest.raises(ArgumentError, match=r"twice|behind one with a name"):
        read_inputs_given(texts)


MODULE = """
import tilesmith as ts
def net(width=8):
    import torch
    return torch.nn.Sequential(torch.nn.Linear(width, 6), torch.nn.ReLU())
def with_inputs():
    import torch
    return net(), (torch.ones(3, 8),)
def model():
    from tilesmith.graph.model import Model
    return Model(ts.ops.relu(shape=(8,)), {}, "mine")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "nets_of_mine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_of_mine", raising=False)
    return "nets_of_mine"


def test_a_function_may_give_a_model(module: str) -> None:
    what = read_what(f"{module}:model")
    assert what.made is not None and what.made.model.name == "mine" and what.program == what.made.model.program


@pytest.mark.parametrize(("words", "inputs"), [("net", ["3x8"]), ("net", ["input=3x8"]), ("with_inputs", [])])
def test_a_module_of_torch_and_the_lines_that_make_it_again(module: str, words: str, inputs: list[str]) -> None:
    pytest.importorskip("torch")
    what = read_what(f"{module}:{words}", [], [], read_inputs_given(inputs))
    assert what.made is not None and what.made.model.name == words
    assert [t.shape for t in what.program.dynamic_inputs] == [(3, 8)]
    names: dict[str, object] = {}
    exec("\n".join(["import tilesmith, torch, nets_of_mine", *what.made.lines]), names)
    assert isinstance(names["model"], Model) and str(names["model"].program) == str(what.program)


def test_a_module_needs_inputs_that_it_takes(module: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match="whose inputs are not known"):
        read_what(f"{module}:net")
    with pytest.raises(ArgumentError, match="does not take these inputs") as found:
        read_what(f"{module}:net", [], [], read_inputs_given(["3x9"]))
    assert "float32[3, 9]: RuntimeError" in found.value.found
    with pytest.raises(ArgumentError, match="cannot be called so"):
        read_what(f"{module}:net", ["depth=3"], [], read_inputs_given(["3x8"]))


def test_a_name_that_is_nearly_there_is_offered(module: str) -> None:
    with pytest.raises(ArgumentError) as found:
        load_function(f"{module}:nett")
    assert found.value.advice == f"did you mean {module}:net?"


def test_torch_that_is_missing_is_told_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "needs_torch.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError) as found:
        load_function("needs_torch:net")
    assert found.value.advice == "pip install 'tilesmith[torch]'"


def test_onnx_files_take_their_open_sizes_from_settings_or_inputs(tmp_path: Path, call: Call) -> None:
    onnx = pytest.importorskip("onnx")
    make, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="act")
    graph = onnx.helper.make_graph([node], "g", [make("x", kind, ["batch", 5])], [make("y", kind, ["batch", 5])])
    path = str(tmp_path / "net.onnx")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    for settings, inputs in ((["batch=3"], []), ([], ["3x5"]), ([], ["x=f32[3,5]"])):
        what = read_what(path, settings, [], read_inputs_given(inputs))
        assert what.program.inputs[0].tensor.shape == (3, 5)
        assert what.made is not None and "sizes={'batch': 3}" in what.made.lines[0]
    for words, said in [
        ([], "sizes are left open"),
        (["batch=x"], "the size batch is no positive number"),
        (["rows=3", "batch=2"], "sizes of what the model does not have"),
        (["--input", "3x4"], "the model has other inputs"),
        (["--input", "3x5x5"], r"expected: x\[batch, 5\]"),
        (["--input", "z=3x5"], "has other inputs"),
        (["--input", "i64[3,5]"], "the model has other inputs"),
    ]:
        answer = call("run", path, *words)
        assert answer.code == 2 and re.search(said, answer.err), answer.err


def test_a_file_of_another_kind_is_no_onnx_model(tmp_path: Path, call: Call) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "no.onnx").write_text("hello")
    answer = call("run", tmp_path / "no.onnx")
    assert answer.code == 2 and "is no ONNX model" in answer.err


def test_what_a_model_file_is(tmp_path: Path, saved: Path) -> None:
    assert models.is_model_file(str(saved)) and models.is_model_file("x.onnx") and models.is_model_file("x.pth")
    assert not models.is_model_file("matmul") and not models.is_model_file(str(tmp_path))
