"""The same code makes the same of the same candidates; what differs is named."""

from __future__ import annotations

import json
from pathlib import Path

import fingerprint
from typer.testing import CliRunner


def test_the_same_candidates_are_made_again(tmp_path: Path) -> None:
    file = tmp_path / "before.jsonl"
    runner = CliRunner()
    assert runner.invoke(fingerprint.app, ["record", str(file), "--count", "3"]).exit_code == 0
    found = runner.invoke(fingerprint.app, ["compare", str(file)])
    assert (found.exit_code, found.output.splitlines()[-1]) == (0, "0 of 3 candidates differ: nothing")
    head, first, *rest = file.read_text().splitlines()
    changed = {**json.loads(first), "predicted": "1.0e+00", "llvm": "another"}
    file.write_text("\n".join([head, json.dumps(changed), *rest]))
    found = runner.invoke(fingerprint.app, ["compare", str(file)])
    assert found.exit_code == 1
    assert f"{changed['program']} on x86:avx512: llvm, predicted" in found.output
    assert "1 of 3 candidates differ: llvm 1, predicted 1" in found.output


def test_a_candidate_without_a_counterpart_differs() -> None:
    kept, gone = {"place": "0.0", "llvm": "a"}, {"place": "0.1", "llvm": "b"}
    assert fingerprint.differences([kept, gone], [kept]) == [(gone, ["candidate"])]
    assert fingerprint.differences([kept], [kept, gone]) == [(gone, ["candidate"])]
