"""What `tune --help` costs and says, examples that work, and what a shell offers."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer._completion_classes import BashComplete

from helpers.command_line.at_once import AtOnce
from helpers.command_line.records import Call, fill
from helpers.source import ROOT
from tilesmith import ops, tune
from tilesmith.measure.compare import noise
from tilesmith.tuner.cli.main import COMMANDS, app
from tilesmith.tuner.cli.named.what import read_whats
from tilesmith.tuner.cli.shell.completion import complete_size
from tilesmith.tuner.records.data import TaskIdentity

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
        "import sys, json; before = set(sys.modules); sys.argv = ['tune', '--help']\n"  # coverage imports sqlite3 itself
        "from tilesmith.tuner.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\nprint(json.dumps(sorted({*sys.modules} - before)))\n"
        "import tilesmith.tuner.cli.run\nprint(json.dumps(sorted({*sys.modules} - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *said, modules, of_run = done.stdout.splitlines()
    assert not HEAVY & set(json.loads(modules))
    assert HEAVY & set(json.loads(of_run)) == {"tilesmith.tuner.cli.run"}, "a shell that completes a line waits for it"
    assert all(any(re.match(rf"  {name} +\S", line) for line in said) for name in COMMANDS)


@pytest.mark.parametrize("name", ["tune", "tilesmith"])
def test_help_and_errors_call_the_command_as_the_reader_did(name: str, tmp_path: Path) -> None:
    """Where Ray is installed, `tune` may be Ray's."""
    said = []
    for words in (["replay", "--help"], ["replay", "1", "--db", str(tmp_path / "none.sqlite")]):
        code = f"import sys; sys.argv = {[name, *words]}\nfrom tilesmith.tuner.cli.main import main\nmain()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said.append(" ".join((done.stdout + done.stderr).split()))
    assert f"Usage: {name} replay" in said[0] and f"as `{name} show` prints it" in said[0]
    assert f"Example: {name} replay 1" in said[0] and f"`{name} run`" in said[1]


def commands() -> Iterator[tuple[tuple[str, ...], Any, tuple[str, ...]]]:
    """All commands, those of groups too: the words that call them, the command, and its examples."""
    context = typer.Context(typer.main.get_command(app))
    for name, entry in COMMANDS.items():
        command: Any = context.command.get_command(context, name)  # type: ignore[attr-defined]
        yield (name,), command, entry.examples
        for below, one in getattr(command, "commands", {}).items():
            yield (name, below), one, tuple(line for line in entry.examples if line.split()[1:3] == [name, below])


def test_each_command_shows_an_example_whose_words_it_takes(call: Call) -> None:
    seen = set()
    for words, command, examples in commands():
        answer = call(*words, "--help")
        assert answer.code == 0 and examples, words
        assert all(f"\n    {line}\n" in answer.out for line in examples), answer.out
        for line in examples:
            tune, *given = shlex.split(line)
            assert (tune, *given[: len(words)]) == ("tune", *words)
            command.make_context(words[-1], given[len(words) :])  # an unknown option, a missing word: UsageError
        seen.add(words)
    assert {("run",), ("report",), ("log", "ship"), ("cluster", "check")} <= seen


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


@pytest.mark.usefixtures("compiles_again")
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
    for log in ("old.jsonl", "new.jsonl"):
        call("log", "export", log)
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


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaskIdentity:
    """The task of a database with records, which is the default one; a program lies beside it."""
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "known.sqlite"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mat.tensor").write_text("")
    return fill(tmp_path / "known.sqlite")


def offered(line: str) -> list[str]:
    """The words that a shell would offer at the end of a line."""
    words = line.split()[1:]
    last = "" if line.endswith(" ") else words.pop()
    shell = BashComplete(typer.main.get_command(app), {}, "tune", "_TUNE_COMPLETE")
    return [item.value for item in shell.get_completions(words, last)]


def test_a_shell_is_offered_what_fits(records: TaskIdentity) -> None:
    key = records.key
    assert {"run", "report", "log"} <= set(offered("tune ")) and offered("tune wat") == ["watch"]
    assert offered("tune log ch") == ["check"]
    assert offered("tune run mat")[-1] == "mat.tensor" and "matmul" in offered("tune inspect mat")
    assert offered(f"tune show {key[:3]}") == [key[:8]] and offered("tune explain ")[:3] == ["2", "1", "6"]
    assert offered("tune bench matmul --against numpy,tor") == ["numpy,torch", "numpy,torch.compile"]
    assert offered("tune run matmul --strategy gu") == ["guided"]
    assert "x86:avx2" in offered("tune run matmul --target x86")
    assert offered("tune ops hist") == ["histogram"] and offered("tune replay ") == ["2", "1", "6"]
    assert offered("tune diff 1:lo") == ["1:loops"] and offered("tune diff 1 2:o") == ["2:outline"]


def test_sizes_are_offered_once_and_their_values_behind_the_sign(records: TaskIdentity) -> None:
    assert offered("tune run matmul m=4 tr") == ["transpose_a=", "transpose_b="]
    assert offered("tune run matmul transpose_a") == ["transpose_a=true", "transpose_a=false"]
    assert "m=" in offered("tune run matmul ") and "m=" not in offered("tune run matmul m=4 ")
    assert offered("tune run matmul transpose_a=t") == ["transpose_a=true"]
    assert offered("tune run matmul dtype=b") == ["dtype=bf16", "dtype=bool"] and offered(
        "tune run conv2d kernel="
    ) == ["kernel=3"]
    assert offered("tune run matmul m=") == ["m=64", "m=512", "m=1024"]
    assert offered("tune run matmul m=4 softmax ro")[0] == "rows=64"
    assert complete_size(SimpleNamespace(params={"what": "matmul"}), "transpose_a=t") == ["transpose_a=true"]


def test_where_nothing_is_known_nothing_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILESMITH_DB", str(tmp_path / "none.sqlite"))
    assert offered("tune replay ") == [] and offered("tune show zzz") == []
    (tmp_path / "none.sqlite").write_text("no database")
    assert offered("tune diff 1 ") == [] and offered("tune run nobody x") == []


def test_completion_of_the_shell_itself_asks_these(tmp_path: Path) -> None:
    """As bash calls it: `tune run matmul m=4 tr<TAB>`."""
    settings = {"_TUNE_COMPLETE": "complete_bash", "COMP_WORDS": "tune run matmul m=4 tr", "COMP_CWORD": "4"}
    code = "import sys; sys.argv = ['tune']; from tilesmith.tuner.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **settings}, check=False
    )
    assert done.stdout.split() == ["transpose_a=", "transpose_b="], done.stderr
