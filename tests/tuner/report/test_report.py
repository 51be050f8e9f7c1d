"""The page of `tune report`: its structure and its data; and that nothing of a record can be more than text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import tilesmith
from helpers.command_line.records import PROGRAM, SKETCH, Call, caller, fill, identity
from helpers.reports import EVENTS, EVIL, fill_kernels, fill_strange
from tilesmith.common.errors import EnvironmentFailure
from tilesmith.common.printable import printable
from tilesmith.cost_model.analytic import predict
from tilesmith.schedules.task import normalised
from tilesmith.targets.ceilings import Ceilings, default_ceilings
from tilesmith.targets.target import parse_target
from tilesmith.tuner.models.tasks import model_tasks
from tilesmith.tuner.records.data import Run
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.report import report as report_module
from tilesmith.tuner.report.modelled import Setting, modelled, numbers_of_config
from tilesmith.tuner.report.page import data_text
from tilesmith.tuner.report.roof import roof_of
from tilesmith.tuner.report.trials import seconds_before
from tilesmith.tuner.roofline import program_work

DRAWS = "window.Plotly = {}; // Plotly's script: <\u2192>"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setattr(report_module, "plotly_script", lambda: DRAWS)
    return caller(monkeypatch, capsys)


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and what stands in each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.title = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        self.title += data if self._inside == "title" else ""

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def page_of_database(call: Call, folder: Path, *words: object) -> Page:
    out = folder / "out.html"
    answer = call("report", *words, "-o", out, "--db", folder / "r.sqlite")
    assert answer.code == 0, answer.err
    assert str(out) in answer.out.replace("\n", "")
    return Page(out.read_text(encoding="utf-8"))


def test_the_page_is_one_file_that_runs_its_own_scripts_only(call: Call, tmp_path: Path) -> None:
    fill(tmp_path / "r.sqlite")
    page = page_of_database(call, tmp_path)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "img", "object", "base")
        assert not {"src", "srcset", "action"} & set(attributes)
        assert not (attributes.get("href") or "#").strip("#").startswith(("http", "/", "javascript"))
    data, plotly, ours = page.scripts
    assert gzip.decompress(base64.b64decode(plotly)).decode() == DRAWS
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; ") and "http" not in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    for script in (ours, DRAWS):
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "://" not in ours.replace("http://www.w3.org", "") and json.loads(data)


def test_the_data_are_those_of_the_records(call: Call, tmp_path: Path) -> None:
    fill(tmp_path / "r.sqlite")
    data = page_of_database(call, tmp_path, "row_sum", "rows=24", "columns=40").data
    (task,) = data["tasks"]
    trials = task["trials"]
    assert trials["id"] == [1, 2, 3, 4, 5, 6] and trials["seconds"] == [2e-3, 1e-3, None, None, None, 4e-3]
    assert [task["statuses"][n] for n in trials["status"]] == ["ok", "ok", "crash", "crash", "invalid", "ok"]
    assert [task["sketches"][n]["title"] for n in trials["sketch"]][-2:] == ["rows(inner=true)", "unscheduled nest"]
    assert trials["config"] == [[1], [2], [3], [4], [5], []] and task["sketches"][0]["names"] == ["i.tile"]
    assert [(one["status"], one["count"]) for one in task["failures"]] == [("crash", 2), ("invalid", 1)]
    assert task["failures"][0]["command"] == "tune replay 3" and str(tmp_path) not in json.dumps(data)
    assert task["best"]["id"] == 2 and "split(out.i0, i.tile)" in task["best"]["outline"]
    assert task["unit"] == "GB/s" and task["amount"] == pytest.approx(3936 / 1e9)
    assert data["models"] == [] and {"report", "database"} <= {fact["name"] for fact in data["facts"]}
    (run,) = task["runs"]
    assert run["wall"] == 1.0 and run["compile"] == pytest.approx(0.15) and run["trials"] == 6


def test_the_model_says_of_each_trial_what_it_says_of_it_alone(tmp_path: Path) -> None:
    fill(tmp_path / "r.sqlite")
    target = parse_target("x86:avx2")
    setting = Setting(PROGRAM, target, 1, default_ceilings(target, 1))
    with Database(tmp_path / "r.sqlite") as database:
        records = database.records(identity().key)
    found = modelled(records, {SKETCH.key: SKETCH}, setting)
    assert sorted(found) == [1, 2, 3, 4, 5]  # the last one is of no sketch that is known
    for record in records[:5]:
        tree = SKETCH.apply(normalised(PROGRAM), target, record.config)
        assert found[record.id].seconds == pytest.approx(float(predict(tree, target, 1, setting.ceilings, 1)[0]))
        assert len(found[record.id].moved) == 3 and found[record.id].moved[0] >= 0
    assert numbers_of_config(SKETCH, {"i.tile": "x"}) is None and numbers_of_config(SKETCH, {}) is None


def test_nothing_of_a_record_is_more_than_text(call: Call, tmp_path: Path) -> None:
    fill_strange(tmp_path / "r.sqlite")
    page = page_of_database(call, tmp_path)
    assert len(page.scripts) == 3 and not [tag for tag, _ in page.elements if tag in ("img", "b")]
    assert [attributes["href"] for tag, attributes in page.elements if tag == "a"] == ["#main"]
    assert re.search(r"[<>&\x00-\x08\x0b-\x1f\x7f-\uffff]", page.scripts[0]) is None
    (task,) = page.data["tasks"]
    assert printable(EVIL) in {one["message"] for one in task["failures"]}
    assert {printable(EVIL), printable(EVENTS)} <= {name for sketch in task["sketches"] for name in sketch["names"]}
    assert printable(EVIL) in {fact["text"] for fact in page.data["facts"]} and task["best"]["outline"] == ""
    assert page.title == printable(page.data["title"]) and "<b>" in page.title


def test_no_text_ends_the_element_that_it_stands_in() -> None:
    for text in ("</script>", "<!--<script>", "]]>", "\u2028", "\x1b[2J", "a\x00b"):
        made = data_text({"one": text, text: [text]})
        assert made.isascii() and not set("<>&") & set(made) and json.loads(made)["one"] == printable(text)
    with pytest.raises(ValueError, match="not JSON compliant"):
        data_text({"one": float("nan")})


def test_a_missing_plotly_is_told_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "r.sqlite")
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(EnvironmentFailure, match=r"tilesmith\[report\]"):
        tilesmith.report(PROGRAM, tmp_path / "out.html", db=tmp_path / "r.sqlite")
    assert sorted(path.name for path in tmp_path.glob("*.html")) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("row_sum", "rows=8", "columns=8"), "no records of row_sum rows=8 columns=8"),
        (("ffffff",), "no records of ffffff"),
        (("-o", "FOLDER"), "needs the name of a file"),
        (("-o", "FOLDER/nowhere/r.html"), "cannot write the page"),
    ],
)
def test_mistakes_are_told(call: Call, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    fill(tmp_path / "r.sqlite")
    answer = call("report", *(one.replace("FOLDER", str(tmp_path)) for one in words), "--db", tmp_path / "r.sqlite")
    assert answer.code == 2 and problem in answer.err and not list(tmp_path.glob("*.html"))


def test_a_program_of_several_kernels_has_its_layers(call: Call, tmp_path: Path) -> None:
    """The second record of the one kernel that both calls share is the best: 3 ms instead of 8, twice."""
    product = "[i: 64, j: 64] = sum[k: 64]"
    text = f"input A: f32[64, 64]\nB{product}(A[i, k] * A[k, j])\nC{product}(B[i, k] * B[k, j])\n"
    text += f"D{product}(C[i, k] * C[k, j])\nreturn D\n"
    (tmp_path / "three.tensor").write_text(text)
    kernels = model_tasks(tilesmith.parse(text), parse_target("host"), 1, "default")
    fill_kernels(tmp_path / "r.sqlite", kernels[:1], (8e-3, 3e-3))
    data = page_of_database(call, tmp_path, tmp_path / "three.tensor").data
    (model,) = data["models"]
    known = [layer for layer in model["layers"] if layer["now"]]
    assert [(one["task"], one["trials"]) for one in known] == [(data["tasks"][0]["key"], 2)]
    assert known[0]["now"] == pytest.approx(3e-3 * known[0]["calls"]) and known[0]["least"] > 0
    assert known[0]["before"] == pytest.approx(8e-3 * known[0]["calls"])
    assert sum(layer["calls"] for layer in model["layers"]) == 3


def test_runs_follow_one_another_without_their_pauses(tmp_path: Path) -> None:
    fill(tmp_path / "r.sqlite")
    with Database(tmp_path / "r.sqlite") as database:
        records = database.records(identity().key)
    run = records[0].trial.run
    assert seconds_before([Run(run, "t", "", 50.0, 7.0), Run("none", "t", "", 1.0, 9.0)], records) == {run: 0.0}


def test_the_roof_is_that_of_the_ceilings() -> None:
    target = parse_target("x86:avx2")
    ceilings = Ceilings({"f32": 100e9}, ((1 << 10, 200e9), (1 << 30, 20e9)), 1)
    roof = roof_of(program_work(PROGRAM), target, 1, ceilings)
    assert roof.peak == roof.highest == pytest.approx(100e9) and roof.flops == 960 and roof.bytes == 3936
    assert [slope.into for slope in roof.slopes] == ["L1", "L2", "L3"] and roof.slopes[-1].source == "memory"
    assert roof.slopes[-1].speed == 20e9 < roof.slopes[0].speed < 200e9
