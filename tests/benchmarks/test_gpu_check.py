"""The GPU check runs where there is no GPU, in the emulator, with NumPy and llvmlite alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
ABSENT = (
    "xgboost",
    "ray",
    "typer",
    "rich",
    "pydantic",
    "platformdirs",
    "sklearn",
    "scipy",
    "threadpoolctl",
    "torch",
    "click",
)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder in which these packages cannot be imported; children look there first too."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ABSENT:
        (folder / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name} here', name='{name}')\n")
    return folder


def test_it_needs_no_package_but_numpy_and_llvmlite(bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "check.json"
    script = (
        f"import sys; sys.path[:0] = [{str(bare)!r}, {str(FOLDER)!r}]; import gpu_check; "
        f"sys.exit(gpu_check.main(['--small', '--only', 'row sum', '--trials', '3', '--out', {str(out)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(out.read_text())
    assert report["device"] == "cuda:emulator" and report["checked"] >= 4 and not report["wrong"]
    assert [row["name"] for row in report["rows"]] == ["row sum"]
    (row,) = report["rows"]
    assert row["seconds"] > 0 and not row["problem"]
    assert row["copy_seconds"] > 0 and row["copy_share"] > 0, "a copy of this row's size, in the same rounds"


def test_bars_are_judged_by_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import gpu_check
    from gpu_rows import ROWS

    row, rounds = next(row for row in ROWS if row.name == "row sum"), 9
    program = row.make(**row.small)
    times = {
        "ours": [1.0] * rounds, "copy": [0.5] * 5 + [2.0] * 4,  # its best rounds say 200%, its median 50%
        "torch": [0.9] * 5 + [1.2] * 4, "torch.compile": [3.0] * rounds,
    }  # fmt: skip
    result = gpu_check.Result(row.name)
    gpu_check.judge(result, row, times, 1000, program, False)
    assert result.ratio is not None and result.ratio[1] == pytest.approx(0.9)
    assert result.copy_share == pytest.approx(0.5)
    assert result.bars == {">= 1.00x torch": False, ">= 90% of copy": False}


@pytest.mark.slow
def test_all_rules_are_right_in_the_emulator(bare: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(FOLDER / "gpu_check.py"),
        "--small",
        "--trials",
        "2",
        "--out",
        str(tmp_path / "all.json"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads((tmp_path / "all.json").read_text())
    assert done.returncode == 0, report["wrong"]
    assert len(report["rows"]) == 10 and not any(row["problem"] for row in report["rows"])


def test_without_a_gpu_it_says_what_to_do() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "gpu_check.py"), "--only", "nothing"], capture_output=True, text=True, check=False,
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1 and "--small" in done.stderr
