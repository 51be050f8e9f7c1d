"""Settings: one table, typed values, one clear error each."""

import ast
from pathlib import Path

import pytest

from tilesmith.common.errors import ArgumentError
from tilesmith.common.settings import CACHE, DATABASE, DEBUG, DUMP, VARIABLES, unknown_variables

ROOT = Path(__file__).parents[2]


def test_defaults_hold_where_nothing_is_set_or_it_is_empty() -> None:
    for environment in ({}, {variable.name: " " for variable in VARIABLES}):
        assert DATABASE.value(environment).name == "tuning.sqlite"
        assert "tilesmith" in DATABASE.value(environment).parts and "tilesmith" in CACHE.value(environment).parts
        assert DEBUG.value(environment) == 0
        assert DUMP.value(environment) is None


def test_values_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"TILESMITH_DB": "~/records.sqlite", "TILESMITH_DEBUG": "4", "TILESMITH_DUMP": "out"}
    assert DATABASE.value(environment) == Path.home() / "records.sqlite"
    assert DEBUG.value(environment) == 4
    assert DUMP.value(environment) == Path("out")
    monkeypatch.setenv("TILESMITH_CACHE", "/somewhere")
    assert CACHE.value() == Path("/somewhere")


@pytest.mark.parametrize("text", ["7", "-1", "all", "1.5"])
def test_a_wrong_value_names_the_variable(text: str) -> None:
    with pytest.raises(ArgumentError, match="TILESMITH_DEBUG") as caught:
        DEBUG.value({"TILESMITH_DEBUG": text})
    assert caught.value.expected == "a number from 0 to 6" and text in caught.value.found


def test_misspelt_variables_are_found() -> None:
    assert unknown_variables({"TILESMITH_DEBUGG": "1", "TILESMITH_DB": "x", "HOME": "y"}) == ("TILESMITH_DEBUGG",)


def test_no_other_file_names_a_variable_of_ours() -> None:
    names = {variable.name for variable in VARIABLES}
    for folder in (
        "tilesmith",
        "targets",
        "tensor",
        "schedules",
        "codegen",
        "cost_model",
        "runtime",
        "measure",
        "tuner",
    ):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if "TILESMITH_" not in text:  # then no string is one, and it need not be parsed
                continue
            strings = {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)}
            assert not names & {s for s in strings if isinstance(s, str)}, f"{path} should use common/settings.py"
