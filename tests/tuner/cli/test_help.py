"""What `tune --help` costs and says, examples that work, and what a shell offers."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.command_line.at_once import AtOnce
from helpers.command_line.records import Call, fill
from helpers.source import ROOT
from tilesmith import ops, tune
from tilesmith.measure.compare import noise
from tilesmith.tuner.cli.main import COMMANDS
from tilesmith.tuner.cli.shell import completion
from tilesmith.tuner.cli.what import read_whats

HEAVY = {
    "numpy",
    "llvmlite",
    "rich",
    "xgboost",
    "sklearn",
    "sqlite3",
    "tilesmith.tensor",
    "tilesmith.tuner.cli.run",
    "tilesmith.codegen",
}


def test_a_list_of_commands_imports_nothing_heavy() -> None:
    code = (
        "import sys, json; sys.argv = ['tune', '--help']\nfrom tilesmith.tuner.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\nprint(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *said, modules = done.stdout.splitlines()
    assert not HEAVY & set(json.loads(modules))
    assert all(any(re.match(rf"  {name} +\S", line) for line in said) for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_an_example(name: str, call: Call) -> None:
    answer = call(name, "--help")
    assert answer.code == 0 and COMMANDS[name].examples
    assert all(f"\n    {line}\n" in answer.out for line in COMMANDS[name].examples), answer.out


def test_a_misspelt_command_is_told_the_near_one(call: Call) -> None:
    for wrong, near in (("rnu", "run"), ("bnech", "bench"), ("dcotor", "doctor")):
        answer = call(wrong)
        assert answer.code == 2 and f"Did you mean '{near}'" in answer.err


SLOW = ("run", "replay", "bench")  # children start; their own tests run them


def small(line: str) -> list[str]:
    """An example with sizes and budgets that take no time."""
    for there, here in (
        ("=512", "=12"), ("=64 ", "=12 "), ("columns=64", "columns=12"), ("--trials 128", "--trials 4"),
        ("--trials 64", "--trials 3"), ("--time 60s", "--trials 2"), ("numpy,torch", "numpy"),
    ):  # fmt: skip
        line = line.replace(there, here)
    words = shlex.split(line)[1:]
    if words[0] == "run":
        words += ["--effort", "quick", "--strategy", "random", "--threads", "1"]
    if words[0] == "bench":
        words += ["--rounds", "1", "--seconds", "0.001", "--threads", "1"]
    return words


def test_all_examples_work_one_after_the_other(
    call: Call, tmp_path: Path, kept_ceilings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the table, as somebody would try them who reads it. Those that start children are read."""
    monkeypatch.setenv("TILESMITH_CACHE", str(kept_ceilings))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    layer = (ROOT / "examples" / "layer.tensor").read_text()
    for there, here in (("512", "24"), ("384", "20"), ("64]", "8]"), (": 64", ": 8"), ("[64", "[8")):
        layer = layer.replace(there, here)
    (tmp_path / "examples" / "layer.tensor").write_text(layer)
    monkeypatch.setattr(noise, "steadiness", lambda: noise.Steadiness(0.01, 1.1, 0.0, 0.0))
    program = ops.matmul(m=12, n=12, k=12)
    tune(program, runner=AtOnce(), strategy="random", trials=4, progress=False)
    for name, entry in COMMANDS.items():
        if name in ("cluster", "quantize"):
            continue
        for line in entry.examples:
            words = small(line)
            if words[0] in SLOW:
                spoken = " ".join(words).partition(" --")[0].split()[1:]
                assert words[0] == "replay" or read_whats(spoken)
                continue
            answer = call(*words)
            assert answer.code == 0, f"{line}: {answer.err}{answer.out}"


def test_a_shell_is_offered_operators_sizes_tasks_and_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "known.sqlite"
    task = fill(path)
    monkeypatch.setenv("TILESMITH_DB", str(path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mat.tensor").write_text("")
    assert completion.complete_what("mat")[-1] == "mat.tensor" and "matmul" in completion.complete_what("mat")
    assert task.key[:8] in [key for key, _ in completion.complete_task(task.key[:3])]
    assert completion.complete_record("") == ["2", "1", "6"]
    assert completion.complete_peers("numpy,tor") == ["numpy,torch", "numpy,torch.compile"]
    assert "guided" in completion.complete_strategy("g") and "x86:avx2" in completion.complete_target("x86:av")
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "none.sqlite"))
    assert completion.complete_record("") == [] and completion.complete_task("zzz") == []


def test_completion_of_the_shell_itself_asks_these(tmp_path: Path) -> None:
    """As bash calls it: `tune run matmul m=4 tr<TAB>`."""
    settings = {"_TUNE_COMPLETE": "complete_bash", "COMP_WORDS": "tune run matmul m=4 tr", "COMP_CWORD": "4"}
    code = "import sys; sys.argv = ['tune']; from tilesmith.tuner.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **settings}, check=False
    )
    assert done.stdout.split() == ["transpose_a=", "transpose_b="], done.stderr
