"""What a person says by torch.compile(..., options={...})."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from ...common.errors import ArgumentError
from ...common.near import did_you_mean
from ...tensor.accuracy import Accuracy, accuracy_named


@dataclass(frozen=True)
class Options:
    """Says how graphs are compiled.

    Attributes:
        trials: measurements to make before each graph is compiled; 0: what is known is taken.
        db: the tuning database, or a log of records; by default that of the settings.
        threads: of the kernels; by default as many as torch uses.
        accuracy: as `tilesmith.compile` takes it.
        freeze: parameters of graphs for inference are constants, prepared once, and again where they were changed.
    """

    trials: int = 0
    db: str | Path | None = None
    threads: int | None = None
    accuracy: Accuracy = "default"
    freeze: bool = False

    @staticmethod
    def of(given: Mapping[str, object] | None) -> Options:
        """Checked. Errors: ArgumentError for what no option is called, and for values that no option has."""
        known = [field.name for field in fields(Options)]
        given = dict(given or {})
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ArgumentError(
                f"the backend has no option {', '.join(map(repr, unknown))}", expected="options among " + ", ".join(known),
                found=", ".join(map(str, given)), advice=did_you_mean(str(unknown[0]), known),
            )  # fmt: skip
        for name in ("trials", "threads"):
            _check_number(name, given.get(name))
        if not isinstance(given.get("db"), str | Path | None):
            raise ArgumentError("the option db is no path", found=repr(given["db"]))
        if not isinstance(given.get("freeze", False), bool):
            raise ArgumentError("the option freeze is neither True nor False", found=repr(given["freeze"]))
        accuracy_named(given.get("accuracy", "default"))  # type: ignore[arg-type]
        return Options(**given)  # type: ignore[arg-type]


def _check_number(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ArgumentError(f"the option {name} is no number", expected="a whole number from 0", found=repr(value))
