"""What perf is told of kernels is where they are, and what they are."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesmith as ts
from tilesmith.runtime.devices.cpu import perf
from tilesmith.runtime.devices.cpu.device import CpuDevice
from tilesmith.runtime.devices.cpu.object_file import ObjectFile

TEXT = """
input x: f32[64, 64]
y[i: 64, j: 64] = sum[k: 64](x[i, k] * x[k, j])
z[i: 64] = max[j: 64](y[i, j])
return y, z
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    """An object with lines of loop IR."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILESMITH_DEBUG_INFO", "loops")
        artifact = ts.compile(ts.parse(TEXT), threads=2).artifact
    return next(code for code in (artifact.code, *artifact.parts) if ObjectFile(code).lines)


def told(*command: object) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
def test_functions_and_lines_are_those_that_readelf_finds(code: bytes, tmp_path: Path) -> None:
    (tmp_path / "code.o").write_bytes(code)
    found = ObjectFile(code)
    rows = [line.split() for line in told("readelf", "-sW", tmp_path / "code.o").splitlines() if " FUNC " in line]
    expected = {(row[7], int(row[1], 16), int(row[2]), row[4] == "GLOBAL") for row in rows if row[6] != "UND"}
    assert {(one.name, one.start, one.size, one.is_global) for one in found.functions} == expected
    table = re.findall(
        r"^\S+\s+(\d+)\s+(0x[0-9a-f]+|0)\b", told("readelf", "--debug-dump=decodedline", tmp_path / "code.o"), re.M
    )
    assert {(line.line, line.start) for line in found.lines} == {(int(line), int(at, 16)) for line, at in table}
    assert len(found.lines) > 8 and found.lines[0].file.endswith(".loops")


def test_an_object_without_lines_has_none() -> None:
    assert not ObjectFile(ts.compile(ts.ops.relu(64), threads=1).artifact.code).lines


def test_a_map_and_a_dump_have_each_function_with_its_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_DEBUG_INFO", "loops")
    artifact = ts.compile(ts.parse(TEXT), threads=1).artifact
    monkeypatch.setenv("TILESMITH_PERF", "map,jitdump")
    monkeypatch.setenv("JITDUMPDIR", str(tmp_path))
    monkeypatch.setattr(perf, "_dumps", {})
    names = Path(f"/tmp/perf-{os.getpid()}.map")
    names.unlink(missing_ok=True)
    loaded = CpuDevice().load(artifact)
    try:
        rows = [line.split(" ", 2) for line in names.read_text().splitlines()]
    finally:
        names.unlink()
    placed = {name: (int(at, 16), int(size, 16)) for at, size, name in rows}
    assert placed[artifact.symbol][0] == loaded.address
    assert any(".nest" in name for name in placed)
    codes, lines = dumped(next(tmp_path.glob("jit-*.dump")).read_bytes())
    assert codes.keys() == placed.keys() and lines
    for name, (at, content) in codes.items():
        assert (at, len(content)) == placed[name] and content == ctypes.string_at(at, len(content))
    begins = [(at, at + size) for at, size in placed.values()]
    assert all(any(first <= at < end for first, end in begins) for at, _, _ in lines)
    assert all(Path(file).read_text().splitlines()[line - 1] for _, line, file in lines)
    (x, y, z) = np.eye(64, dtype=np.float32), np.empty((64, 64), np.float32), np.empty(64, np.float32)
    loaded.run([x, y, z])
    assert (z == 1).all()


def dumped(content: bytes) -> tuple[dict[str, tuple[int, bytes]], list[tuple[int, int, str]]]:
    """The functions and the lines of a dump."""
    magic, version, head, _, _, process = struct.unpack_from("<IIIIII", content)
    assert (magic, version, head, process) == (0x4A695444, 1, 40, os.getpid())
    codes, lines, at, seen = {}, [], head, 0
    while at < len(content):
        kind, size, when = struct.unpack_from("<IIQ", content, at)
        body, at = content[at + 16 : at + size], at + size
        assert when >= seen
        seen = when
        if kind == 0:
            _, _, _, address, length, _ = struct.unpack_from("<IIQQQQ", body)
            name, _, code = body[40:].partition(b"\0")
            assert len(code) == length
            codes[name.decode()] = address, code
        else:
            _, count = struct.unpack_from("<QQ", body)
            place = 16
            for _ in range(count):
                address, line, _ = struct.unpack_from("<Qii", body, place)
                end = body.index(b"\0", place + 16)
                lines.append((address, line, body[place + 16 : end].decode()))
                place = end + 1
    return codes, lines


def test_nothing_is_told_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILESMITH_PERF", raising=False)
    assert perf.names_to_export([b"no object at all"]) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("perf") is None, reason="no perf")
def test_perf_shows_kernels_and_lines(tmp_path: Path) -> None:
    script = (
        "import time, tilesmith as ts\n"
        "kernel = ts.compile(ts.ops.matmul(m=512, n=512, k=512), threads=1)\n"
        "arrays = kernel._random_inputs()\n"
        "end = time.time() + 2\n"
        "while time.time() < end: kernel(*arrays)\n"
    )
    setting = {"TILESMITH_PERF": "jitdump", "TILESMITH_DEBUG_INFO": "loops", "JITDUMPDIR": str(tmp_path)}
    record = ["perf", "record", "-e", "cpu-clock", "-k", "mono", "-o", "raw", sys.executable, "-c", script]
    done = subprocess.run(
        record, cwd=tmp_path, env={**os.environ, **setting}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"perf may not record here: {done.stderr[-200:]}")
    subprocess.run(
        ["perf", "inject", "--jit", "-i", "raw", "-o", "data"], cwd=tmp_path, check=True, capture_output=True
    )
    report = told("perf", "report", "-i", tmp_path / "data", "--stdio")
    symbol = re.search(r"\[\.\] (matmul_f32_512x512x512\.nest\S*)", report)
    assert symbol, report
    said = told("perf", "annotate", "-i", tmp_path / "data", "--stdio", "-l", "-s", symbol[1])
    assert re.search(r"\d+\.\d+ matmul_f32_512x512x512\.\S+\.loops:\d+", said)
