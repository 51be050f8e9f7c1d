"""The command line on a cluster: searches, mistakes, status and check."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.command_line.records import Call
from helpers.warm.client import run_python
from tilesmith.common.errors import ArgumentError, EnvironmentFailure, MissingExtra
from tilesmith.measure.cluster import ray_runner
from tilesmith.measure.cluster.ray_runner import address_of, check_ray
from tilesmith.tuner.records.database import Database
from tilesmith.tuner.tune import tune

MATMUL = ("matmul", "m=32", "n=32", "k=32", "--threads", "1")


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert address_of("ray") == ""
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    assert address_of("ray") == "10.0.0.9:6379"
    assert address_of("ray://head:10001") == "ray://head:10001"
    file = tmp_path / "address"
    file.write_text("10.0.0.1:6379\n")
    assert address_of(str(file)) == "10.0.0.1:6379"
    file.write_text("nowhere")
    with pytest.raises(ArgumentError, match="no address of a Ray cluster"):
        address_of(str(file))
    with pytest.raises(ArgumentError, match="cannot be read"):
        address_of(str(tmp_path / "none"))
    with pytest.raises(ArgumentError, match="no address"):
        address_of("ray://head")


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        check_ray("")
    assert "tilesmith[ray]" in caught.value.advice


@pytest.mark.parametrize("words", [("run", *MATMUL, "--runner", "ray"), ("cluster", "check"), ("cluster", "status")])
def test_the_command_line_without_ray(words: tuple[str, ...], tmp_path: Path) -> None:
    code = "import sys; sys.modules['ray'] = None; from tilesmith.tuner.cli.main import main; main()"
    done = run_python("-c", code, *words, env={**os.environ, "TILESMITH_DB": str(tmp_path / "a.db")})
    assert done.returncode == 2 and "pip install 'tilesmith[ray]'" in done.stderr and "Traceback" not in done.stderr


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(ray_runner, "_ROOM", 1 << 60)
    with pytest.raises(EnvironmentFailure, match="not enough disk") as caught:
        check_ray("")
    assert str(tmp_path) in caught.value.expected
    check_ray("10.0.0.1:6379")  # the room of others is their business


@pytest.mark.parametrize("runner", ["rayy", "gpu", "ray:"])
def test_an_unknown_runner(runner: str, call: Call) -> None:
    result = call("run", *MATMUL, "--runner", runner)
    assert result.code == 2 and "unknown runner" in result.err and "ray://host:port" in result.err


def test_several_targets_need_a_cluster(call: Call) -> None:
    result = call("run", *MATMUL, "--target", "x86:avx2,x86:avx512")
    assert result.code == 2 and "several targets need a cluster" in result.err


def test_ray_is_imported_by_nobody_who_does_not_want_it() -> None:
    code = "import sys, tilesmith.tuner.cli.main, tilesmith.measure.cluster.ray_runner; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_search_on_a_ray_of_its_own(tmp_path: Path, kept_ceilings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    from tilesmith.measure.machine import machine_identity, machine_key
    from tilesmith.tensor.ops import matmul

    path = tmp_path / "a.db"
    result = tune(matmul(32, 32, 32), threads=1, trials=6, runner="ray", db=path, progress=False, strategy="random")
    assert result.best is not None and " on " in result.best.trial.measurement.device
    with Database(path) as database:
        records = database.records(result.tasks[0].task.key)
    assert {record.trial.machine for record in records} == {machine_key(machine_identity())}
    assert all(" cores " in r.trial.measurement.device for r in records if r.trial.measurement.ok)
