"""`tune profile` tells where time goes, and draws it."""

import json
from pathlib import Path

from helpers.command_line.records import Call


def test_a_table_a_timeline_and_a_flame_graph(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "two.tensor"
    path.write_text(
        "input x: f32[64, 64]\nconstant w: f32[64, 64]\ny[i: 64, j: 64] = sum[k: 64](x[i, k] * w[k, j])\n"
        "z[i: 64, j: 64] = sum[k: 64](y[i, k] * y[k, j])\nreturn z\n"
    )
    trace, flame = tmp_path / "out.json", tmp_path / "out.svg"
    answer = call("profile", path, "--trace", trace, "--flame", flame, "--threads", "1", "--limit", "1")
    assert answer.code == 0, answer.err
    assert "bound by" in answer.out and "two.tensor:" in answer.out and "other calls" in answer.out
    assert json.loads(trace.read_text())["traceEvents"] and flame.read_text().startswith("<svg ")


def test_what_is_no_flame_graph_is_refused_before_anything_runs(call: Call) -> None:
    answer = call("profile", "relu", "shape=64", "--flame", "out.png")
    assert answer.code == 2 and ".svg" in answer.err
