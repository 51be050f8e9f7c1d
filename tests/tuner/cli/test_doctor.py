"""`tune doctor`: it finds what is there and what is wrong, names what mends it, and its exit code says if tuning can work."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.command_line.records import Call, fill
from helpers.source import ROOT
from tilesmith.measure.compare import noise
from tilesmith.tuner import packages as packages_needed
from tilesmith.tuner.cli import doctor
from tilesmith.tuner.cli.doctor import BAD, GOOD, MISSING, NOTE, Finding, examined


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, kept_ceilings: Path) -> None:
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    look = noise.steadiness
    monkeypatch.setattr(noise, "steadiness", lambda: look(0.01))


def found(findings: list[Finding], area: str) -> Finding:
    return next(one for one in findings if one.area == area)


def test_here_tuning_works_and_json_says_the_same(call: Call, tmp_path: Path) -> None:
    fill(tmp_path / "default.sqlite")
    answer = call("doctor", "--json")
    told = json.loads(answer.out)
    assert answer.code == 0 and told["works"] is True
    areas = {one["area"]: one for one in told["findings"]}
    assert {
        "versions",
        "processor",
        "kernels",
        "search",
        "threads",
        "C compiler",
        "GPU",
        "ray",
        "torch",
        "onnx",
        "peers",
    } <= set(areas)
    assert {"database", "disk", "cache", "memory", "clock", "steadiness", "neighbours", "tune"} <= set(areas)
    assert areas["kernels"]["state"] == GOOD and "6 records" in areas["database"]["found"]
    for one in told["findings"]:
        assert one["state"] in (GOOD, NOTE, MISSING, BAD) and "could not be looked at" not in one["found"], one


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    look = doctor.find_spec
    for asks in (doctor, packages_needed):
        monkeypatch.setattr(asks, "find_spec", lambda name: None if name in packages else look(name))


def test_what_a_search_needs_and_is_not_there_is_wrong(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    without(monkeypatch, "xgboost", "sklearn")
    answer = call("doctor")
    assert answer.code == 1 and "tuning cannot work here: search" in answer.out
    assert packages_needed.install_command(["xgboost", "sklearn"]) in answer.out


def test_an_optional_part_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "torch", "ray", "plotly", "onnxruntime")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    findings = examined(tmp_path / "none.sqlite")
    for area, command in (
        ("torch", "pip install 'tilesmith[torch]'"),
        ("ray", "pip install 'tilesmith[ray]'"),
        ("report", "pip install 'tilesmith[report]'"),
        ("C compiler", "apt"),
    ):
        one = found(findings, area)
        assert one.state == MISSING and command in one.command
    assert "onnxruntime" in found(findings, "more peers").found
    assert not any(one.state == BAD for one in findings)


def test_folders_that_cannot_be_written_or_are_full_are_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_is_writable", lambda folder: folder != tmp_path)
    assert found(examined(tmp_path / "none.sqlite"), "disk").state == BAD
    monkeypatch.setattr(doctor, "_is_writable", lambda folder: True)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1e6))
    full = found(examined(tmp_path / "none.sqlite"), "disk")
    assert full.state == BAD and "1 MB free" in full.found


def test_a_file_that_is_no_database_is_wrong_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes, which are no database at all" * 40)
    assert found(examined(path), "database").state == BAD and path.read_text().startswith("my notes")


def test_what_disturbs_times_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(noise, "steadiness", lambda: noise.Steadiness(0.3, 4.0, 0.5, 0.1))
    findings = examined(tmp_path / "none.sqlite")
    assert found(findings, "steadiness").state == NOTE and "30.0%" in found(findings, "steadiness").found
    assert found(findings, "neighbours").state == NOTE and "10% of it the host" in found(findings, "neighbours").found


def test_a_look_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> list[Finding]:
        raise OSError("no such file")

    monkeypatch.setattr(doctor, "_memory", broken)
    assert "could not be looked at" in found(examined(tmp_path / "none.sqlite"), "broken").found


def test_each_extra_that_a_search_may_use_is_one_of_the_package() -> None:
    """So the command that adds it works."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(doctor._EXTRAS) == set(known) - {"cuda", "cuda-bindings", "docs", "bench", "test", "check"}
