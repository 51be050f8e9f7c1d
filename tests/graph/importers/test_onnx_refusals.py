"""What cannot be a program is one clear error that lists all of it, with its nodes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from helpers.onnx_models import written  # noqa: E402
from tilesmith import from_onnx  # noqa: E402
from tilesmith.common.errors import ArgumentError, UserError  # noqa: E402


def refused(source: Any, **options: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        from_onnx(source, **options)
    return str(caught.value)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for content in (b"", b"this is no model", bytes(range(256)) * 8):
        path.write_bytes(content)
        assert "is no ONNX model" in refused(path)
    assert "cannot read" in refused(tmp_path / "nothing.onnx")
    assert "a path or an onnx.ModelProto" in refused(3)


def test_missing_external_data(tmp_path: Path) -> None:
    proto = written("g (float[4] x) => (float[4] y) <float[4] w> { y = Add(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    path = tmp_path / "model.onnx"
    onnx.save(proto, str(path), save_as_external_data=True, location="values", size_threshold=0)
    (tmp_path / "values").unlink()
    assert "external data" in refused(path)
    assert "external data" in refused(onnx.load(str(path), load_external_data=False))


NAMED = """g (float[BATCH, 4] x) => (float[BATCH, 4] y) <float[4] w> {
    middle = Add(x, w)
    yes = Cast <to = 9> (size)
    chosen = If (yes) <then_branch = a () => (float[BATCH, 4] left) { left = Relu(middle) },
                       else_branch = b () => (float[BATCH, 4] right) { right = Neg(middle) }>
    y = own.Outer(chosen)
}"""


@pytest.mark.parametrize("name", ["g", "BATCH", "x", "y", "w", "middle", "Add", "own", "left", "a", "then_branch"])
def test_names_that_are_no_text(name: str, tmp_path: Path) -> None:
    proto = written(NAMED)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "w"))
    content = proto.SerializeToString()
    before = bytes([len(name)]) + name.encode()
    assert before in content
    wrong = content.replace(before, bytes([len(name)]) + b"\xff" * len(name))
    (tmp_path / "model.onnx").write_bytes(wrong)
    for source in (tmp_path / "model.onnx", onnx.ModelProto.FromString(wrong)):
        said = refused(source)
        assert "names that are no text" in said and repr(b"\xff" * len(name))[1:] in said and "UTF-8" in said


def test_names_in_other_scripts_are_text() -> None:
    proto = written("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "größe_入力"
    assert len(from_onnx(proto).program.inputs) == 1


def test_sizes_left_open() -> None:
    proto = written("g (float[batch, tokens] x, float[batch, ?] z) => (float[batch, tokens] y) { y = Relu(x) }")
    said = refused(proto, sizes={"batch": 2})
    assert "'tokens': ..." in said and "'z.1': ..." in said and "'batch': ..." not in said
    assert "no positive integer" in refused(proto, sizes={"batch": 0, "tokens": 1, "z.1": 1})
    assert "does not have" in refused(proto, sizes={"batch": 1, "tokens": 1, "z.1": 1, "heads": 2})
    for sizes in (2, [2], "batch"):
        assert "sizes have names" in refused(proto, sizes=sizes)


def test_all_operators_that_are_not_covered() -> None:
    proto = written(
        """g (float[4] x) => (float[4] y) {
            a = own.First(x) b = own.Second(a) c = own.First(b) d = Relu(c) e = NonZero(x) y = own.Third(d, e)
        }"""
    )
    said = refused(proto)
    assert "own:First: a, c" in said and "own:Second: b" in said and "own:Third: y" in said
    assert "NonZero (a shape that depends on the data of x): e" in said and "Relu" not in said


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        ("g (float[4] x, int64[2] s) => (float[2, 2] y) { y = Reshape(x, s) }", "depends on the data of s"),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "strings"),
        ("g (complex64[2] x) => (complex64[2] y) { y = Identity(x) }", "complex numbers"),
        ("g (float8e5m2[2] x) => (float8e5m2[2] y) { y = Identity(x) }", "the dtype float8_e5m2"),
        ("g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }", "sequences"),
        ("g (float[2] x) => (float[2] y) { y = RandomUniformLike(x) }", "RandomUniformLike"),
        (
            "g (bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = a () => (float[2] t) { t = Relu(x) }, "
            "else_branch = b () => (float[2] e) { e = Neg(x) }> }",
            "a branch that depends on data",
        ),
        (
            "g (int64 n, float[2] x) => (float[2] y) { y = Loop(n, , x) <body = b (int64 i, bool c, float[2] s) => "
            "(bool d, float[2] r) { d = Identity(c) r = Add(s, x) }> }",
            "a number of steps that depends on data",
        ),
    ],
)
def test_what_is_no_tensor_program(graph: str, why: str) -> None:
    assert why in refused(written(graph))


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ("g (float[4] x) => (float[4] y) { y = Add(x) }", "ValueError"),
        ('g (float[4] x) => (float[4] y) { y = Softmax<axis = "a">(x) }', "ValueError"),
        (
            "g (float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,4,4] y) { y = Conv<strides = [0, 0]>(x, w) }",
            "ZeroDivision",
        ),
        ('g (float[4, 4] x) => (float[4] y) { y = Einsum<equation = "ii->q">(x) }', "KeyError"),
    ],
)
def test_nodes_that_are_wrong_themselves(graph: str, found: str) -> None:
    said = refused(written(graph))
    assert "inputs or attributes are none that it has" in said and found in said and ": y" in said


def test_constants_whose_values_do_not_fit() -> None:
    for change in ({"raw_data": b"abc"}, {"dims": [1 << 40]}, {"data_type": 77}):
        proto = written("g (float[4] x) => (float[4] y) <float[4] w> { y = Add(x, w) }")
        tensor = onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")
        for name, value in change.items():
            if name == "dims":
                tensor.dims[:] = value
            else:
                setattr(tensor, name, value)
        proto.graph.initializer.append(tensor)
        assert "the values of w cannot be read" in refused(proto)


def test_old_operators() -> None:
    proto = written("g (float[2, 1] x) => (float[2] y) { y = Squeeze<axes = [1]>(x) z = Relu(x) }", 11)
    assert "Squeeze of opset 11, older than 13" in refused(proto)


def test_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError) as caught:
        from_onnx("model.onnx")
    assert "pip install 'tilesmith[onnx]'" in str(caught.value)
