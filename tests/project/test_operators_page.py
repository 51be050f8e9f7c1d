"""docs/operators.md is what its script writes; speeds are as old as the page."""

from __future__ import annotations

import importlib.util
import json

from helpers.source import ROOT


def test_the_page_of_operators_is_as_the_code_is() -> None:
    spec = importlib.util.spec_from_file_location("write_operators", ROOT / "docs" / "write_operators.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = script.PAGE.read_text(encoding="utf-8")
    assert script.without_speed(written) == script.without_speed(script.page()), "run: python docs/write_operators.py"
    fastest = [
        path for path in (ROOT / "benchmarks" / "results").glob("cpu-*.json") if json.loads(path.read_text())["rows"]
    ]
    assert fastest and "x (" in written
