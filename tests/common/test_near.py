"""A name that is nearly right is answered with the one that was meant, wherever people give names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tilesmith
from tilesmith.common.errors import TilesmithError
from tilesmith.common.near import did_you_mean, near_file
from tilesmith.graph.quantization.quantize import _way
from tilesmith.targets.target import parse_target
from tilesmith.tensor.accuracy import accuracy_named
from tilesmith.tensor.functions import find_dtype
from tilesmith.tuner.bench.libraries import libraries_named
from tilesmith.tuner.cli.named.input_specs import read_inputs_given
from tilesmith.tuner.cli.named.what import read_what
from tilesmith.tuner.effort import effort_named
from tilesmith.tuner.inputs import packed_inputs
from tilesmith.tuner.runners import check_runner
from tilesmith.tuner.search.strategy import check_strategy
from tilesmith.tuner.stages import stage_text

HOST = parse_target("host")
PROGRAM = tilesmith.ops.matmul(m=4, n=4, k=4)
PLACES: dict[str, Callable[[], object]] = {
    "matmul": lambda: read_what("matmull"),
    "kernel": lambda: read_what("conv2d", ["kernle=3"]),
    "nchw": lambda: read_what("conv2d", ["n=1", "c=1", "h=4", "w=4", "o=1", "layout=nchv"]),
    "f32": lambda: read_what("matmul", ["m=4", "n=4", "k=4", "dtype=F32"]),
    "bf16": lambda: find_dtype("bf61"),
    "f16": lambda: tilesmith.parse("input x: ff16[4]\ny[i: 4] = x[i]\nreturn y"),
    "i64": lambda: read_inputs_given(["i46[1]"]),
    "bias": lambda: tilesmith.ops.matmul_bias_relu(4, 4, 4, constants=["bais"]),
    "A": lambda: packed_inputs(PROGRAM, {"a": 0}),
    "x86:avx512": lambda: parse_target("x86:avx51"),
    "avx512vnni": lambda: parse_target("x86:avx512+avx512vnn"),
    "guided": lambda: check_strategy("giuded"),
    "normal": lambda: effort_named("nromal"),
    "strict": lambda: accuracy_named("srtict"),
    "local": lambda: check_runner(HOST, "locl"),
    "outline": lambda: stage_text(PROGRAM, "outlin", HOST),
    "dynamic-int8": lambda: _way("dynamic-in8", 64, None),
    "openvino": lambda: libraries_named("opnvino"),
}  # fmt: skip


@pytest.mark.parametrize("meant", PLACES)
def test_it_is_named(meant: str) -> None:
    with pytest.raises(TilesmithError) as caught:
        PLACES[meant]()
    assert f"did you mean {meant}" in caught.value.advice


def test_nothing_is_guessed_where_nothing_is_like_it() -> None:
    assert did_you_mean("zzz", ["guided", "random"]) == ""


def test_a_file_that_is_not_there_has_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "layer.tensor").touch()
    (tmp_path / "model.onnx").touch()
    monkeypatch.chdir(tmp_path)
    assert near_file(Path("exmaples/layer.tensor")) == "did you mean examples/layer.tensor?"
    assert near_file(Path("examples/layr.tensor")) == "did you mean examples/layer.tensor?"
    assert near_file(Path("nowhere/at/all.tensor")) == ""
    assert near_file(Path("examples/layer.tensor")) == ""  # it is there: something else is wrong with it
    for wrong in ("examples/layr.tensor", "modl.onnx"):
        with pytest.raises(TilesmithError) as caught:
            read_what(wrong)
        assert "did you mean" in caught.value.advice
