"""docs/functions.md is what its script writes."""

from __future__ import annotations

import importlib.util

from helpers.source import ROOT


def test_the_page_of_functions_is_as_the_table_is() -> None:
    spec = importlib.util.spec_from_file_location("write_functions", ROOT / "docs" / "write_functions.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run: python docs/write_functions.py"
