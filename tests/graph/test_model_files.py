"""A model in a folder is read back as it was, and what is no model is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.common.errors import ArgumentError, ProgramError
from tilesmith.graph.model import Model
from tilesmith.graph.safetensors import Arrays, read_arrays, write_arrays
from tilesmith.tensor.dtype import DTYPES
from tilesmith.tensor.origins import originating
from tilesmith.tensor.program import Origin


def small() -> Model:
    """A product of bf16 with a scale of f64, whose stages have origins."""
    x, w, s = ts.placeholder((2, 3), "bf16", "x"), ts.constant((3, 4), "bf16", "w"), ts.constant((), "f64", "s")
    k = ts.reduce_axis(3, "k")
    with originating(Origin("linear", "encoder.0", "model.py", 12)):
        dots = ts.compute((2, 4), lambda i, j: ts.sum(x[i, k] * w[k, j], k), name="dots")
    with originating(Origin("mul", "encoder", "model.py", 13)):
        y = ts.compute((2, 4), lambda i, j: ts.cast(dots[i, j], "f64") * s[()], name="y")
    values = {"w": np.arange(12, dtype=np.uint16).reshape(3, 4), "s": np.array(0.5)}
    return Model(ts.program(y, inputs=[x, w, s]), values, "small")


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = small()
    model.save(tmp_path / "new" / "folder")
    found = ts.load(tmp_path / "new" / "folder")
    assert found.program == model.program and found.name == "small"
    assert [stage.origin for stage in found.program.stages] == [stage.origin for stage in model.program.stages]
    for name, value in model.constants.items():
        assert found.constants[name].dtype == value.dtype
        np.testing.assert_array_equal(found.constants[name], value)


def test_one_file_holds_all_of_it(tmp_path: Path) -> None:
    model, path = small(), tmp_path / "new" / "small.safetensors"
    model.save(path)
    model.save(path)
    found = ts.load(path)
    assert list(path.parent.iterdir()) == [path]
    assert found.program == model.program and found.name == "small"
    assert [stage.origin for stage in found.program.stages] == [stage.origin for stage in model.program.stages]
    for name, value in model.constants.items():
        np.testing.assert_array_equal(found.constants[name], value)


def test_arrays_alone_are_no_model(tmp_path: Path) -> None:
    write_arrays(tmp_path / "weights.safetensors", Arrays({"x": (DTYPES["f32"], np.arange(3, dtype=np.float32))}))
    with pytest.raises(ArgumentError, match="no saved model"):
        ts.load(tmp_path / "weights.safetensors")


def test_it_is_written_over_another(tmp_path: Path) -> None:
    small().save(tmp_path)
    small().save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["constants.safetensors", "model.json", "program.tensor"]


def test_arrays_of_several_dtypes_are_aligned(tmp_path: Path) -> None:
    """Otherwise a kernel refuses them: 3 elements of 4 bytes before one of 8."""
    arrays = {
        "odd": (DTYPES["f32"], np.arange(3, dtype=np.float32)),
        "wide": (DTYPES["i64"], np.arange(2, dtype=np.int64)),
        "byte": (DTYPES["u8"], np.arange(5, dtype=np.uint8)),
        "last": (DTYPES["f32"], np.arange(3, dtype=np.float32)),
    }
    write_arrays(tmp_path / "a.safetensors", Arrays(arrays))
    for name, (_, array) in read_arrays(tmp_path / "a.safetensors").arrays.items():
        assert array.flags.aligned and not array.flags.writeable, "it lies in the mapped file"
        np.testing.assert_array_equal(array, arrays[name][1])


def test_arrays_that_others_wrote_out_of_line_are_aligned(tmp_path: Path) -> None:
    header = b'{"odd":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"wide":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}'
    header += b" " * (-len(header) % 8)
    values = np.array([1.5, -2], np.float32)
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header + b"\x07" + values.tobytes())
    found = read_arrays(tmp_path / "a").arrays["wide"][1]
    assert found.flags.aligned
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_arrays_of_every_dtype(tmp_path: Path, dtype: str) -> None:
    kind = DTYPES[dtype]
    arrays = {
        "matrix": (kind, np.arange(6).reshape(2, 3).astype(kind.numpy)),
        "turned": (kind, np.arange(6).reshape(2, 3).astype(kind.numpy).T),
        "one": (kind, np.ones((), kind.numpy)),
    }
    write_arrays(tmp_path / "a.safetensors", Arrays(arrays, {"note": "of a test"}))
    found = read_arrays(tmp_path / "a.safetensors")
    assert found.texts == {"note": "of a test"} and list(found.arrays) == list(arrays)
    for name, (_, array) in arrays.items():
        assert found.arrays[name][0] == kind
        np.testing.assert_array_equal(found.arrays[name][1], array)


def test_others_read_what_we_write(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    write_arrays(tmp_path / "a", Arrays({"x": (DTYPES["f32"], np.arange(3, dtype=np.float32))}))
    np.testing.assert_array_equal(safetensors.load_file(tmp_path / "a")["x"], [0, 1, 2])


@pytest.mark.parametrize(
    "header",
    [
        b"no json",
        b"[1, 2]",
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}',
        b'{"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "F32", "shape": [2]}}',
        b'{"__metadata__": 3}',
        b'{"__metadata__": {"a": 3}}',
    ],
)
def test_files_that_are_none_are_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "bad"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ArgumentError, match="no file of arrays"):
        read_arrays(path)


@pytest.mark.parametrize("content", [b"", b"1234567", (1 << 40).to_bytes(8, "little") + b"{}"])
def test_files_without_a_header_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ArgumentError, match="no header"):
        read_arrays(tmp_path / "bad")


def test_folders_that_are_no_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no saved model"):
        Model.load(tmp_path)
    small().save(tmp_path)
    (tmp_path / "constants.safetensors").unlink()
    with pytest.raises(ArgumentError, match="cannot read"):
        ts.load(tmp_path)
    small().save(tmp_path)
    (tmp_path / "program.tensor").write_text("return nothing\n")
    with pytest.raises(ProgramError):
        ts.load(tmp_path)
    small().save(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ArgumentError, match="format"):
        ts.load(tmp_path)


def test_constants_of_another_dtype_are_refused(tmp_path: Path) -> None:
    small().save(tmp_path)
    text = (tmp_path / "program.tensor").read_text().replace("w: bf16", "w: f16").replace("x: bf16", "x: f16")
    (tmp_path / "program.tensor").write_text(text)
    with pytest.raises(ArgumentError, match="w is bf16"):
        ts.load(tmp_path)


def test_origins_that_are_none_do_no_harm(tmp_path: Path) -> None:
    small().save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    about["origins"] = {"dots": ["a", 3], "y": None}
    (tmp_path / "model.json").write_text(json.dumps(about))
    assert {stage.origin for stage in ts.load(tmp_path).program.stages} == {Origin()}


def test_the_table_has_a_row_for_each_layer() -> None:
    lines = str(small()).splitlines()
    assert lines[0].split() == ["layer", "operator", "result", "stages", "FLOPs", "bytes"]
    assert lines[1].split() == [
        "encoder.0",
        "linear",
        "bf16[2,",
        "4]",
        "1",
        "48",
        "52",
    ]  # 24 products and sums; 12+24+16
    assert lines[2].split() == ["encoder", "mul", "f64[2,", "4]", "1", "8", "88"]  # 16 + 8 + 64
    assert lines[3] == "small: 2 stages, 56 FLOP, 32 B of constants"
    assert repr(small()) == "<Model small (x: bf16[2, 3]) -> y: f64[2, 4], 2 stages, 2 constants>"
