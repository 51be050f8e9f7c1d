"""A profile as a timeline and as a flame graph."""

from __future__ import annotations

import json
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tilesmith.graph.executor.profile import Cost, Profile, profile_of
from tilesmith.graph.executor.provenance import CallOrigin
from tilesmith.runtime.profiled import MeasuredRuns
from tilesmith.tensor.program import Origin

LAYERS = (("stem",), ("layer1.0.conv1", "layer1.0.bn1"), ("layer1.0.conv2",), ("head",))
RUNS = ((1e-6, 2e-6, 3e-6, 4e-6, 5e-6), (1e-6, 2e-6, 3e-6, 5e-6, 4e-6))


@pytest.fixture
def made() -> Profile:
    calls = [
        CallOrigin(f"kernel{n}", tuple(Origin("op", name, "/home/a<b>/net.py", 7 + n) for name in names), 1)
        for n, names in enumerate(LAYERS)
    ]
    counts = ({"cycles": 1000.0, "instructions": 2500.0, "cache misses": 7.0},) * 4
    return profile_of(calls, [Cost(1000, 2_000_000, 1e-6, "L2")] * 4, MeasuredRuns(RUNS[0], RUNS, counts), "net")


def test_a_table_has_bytes_lines_and_counters(made: Profile) -> None:
    head, first = str(made).splitlines()[:2]
    assert "MB" in head and "IPC" in head and first.split()[3] == "2.00"
    assert first.endswith("2.50        7  kernel3 (head) net.py:10")
    assert made.table(1).splitlines()[2].endswith("3 other calls") and "copies of results" in made.table(1)


def test_a_timeline_has_runs_kernels_and_modules_in_their_places(made: Profile) -> None:
    events = json.loads(made.trace())["traceEvents"]
    tracks = {one["args"]["name"]: one["tid"] for one in events if one["name"] == "thread_name"}
    slices = [one for one in events if one["ph"] == "X"]
    kernels = [one for one in slices if one["tid"] == tracks["kernels"]]
    assert [one["name"] for one in kernels] == [*(f"kernel{n}" for n in range(4)), "copies of results"] * 2
    for one, following in pairwise(kernels):
        assert one["ts"] + one["dur"] == pytest.approx(following["ts"])
    assert kernels[1]["args"]["lines"] == ["layer1.0.conv1 /home/a<b>/net.py:8", "layer1.0.bn1 /home/a<b>/net.py:8"]
    modules = {one["name"]: one for one in slices if one["tid"] == tracks["modules"] and one["ts"] < 15}
    assert (modules["layer1"]["ts"], modules["layer1"]["dur"]) == (1, 5) == (modules["0"]["ts"], modules["0"]["dur"])
    assert (modules["conv1, bn1"]["ts"], modules["conv2"]["dur"]) == (1, 3)
    assert [one["dur"] for one in slices if one["tid"] == tracks["runs"]] == [15, 15]


def test_stacks_add_up(made: Profile) -> None:
    lines = made.folded().splitlines()
    assert lines[1] == "net;layer1;0;conv1, bn1;kernel1 2000"
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 15000


def test_boxes_stand_on_those_that_hold_them(made: Profile) -> None:
    root = ElementTree.fromstring(made.flame())
    boxes = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        title, box, _ = group
        x, y, width = (float(box.attrib[name]) for name in ("x", "y", "width"))
        boxes[(title.text or "").partition(":")[0]] = (x, x + width, y)
    left, right, _ = boxes["net"]
    assert boxes["stem"][0] == left and boxes["copies of results"][1] == pytest.approx(right, abs=0.1)
    for inner, outer in (("layer1", "net"), ("0", "layer1"), ("conv2", "0"), ("kernel2", "conv2")):
        assert boxes[outer][0] <= boxes[inner][0] <= boxes[inner][1] <= boxes[outer][1] + 0.1
        assert boxes[inner][2] > boxes[outer][2]
    assert (boxes["layer1"][1] - boxes["layer1"][0]) == pytest.approx((right - left) / 3, rel=0.01)
