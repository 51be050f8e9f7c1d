"""What the search benchmark has found so far: JSON lines, one for each finished piece of work, so that any call continues.

A line names its measure, what exactly was run (`key`), which code ran it (`code`: a hash of the search and the cost model)
and what was found, with the machine. Lines of other code or of another machine are kept and not looked at.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parents[1] / "results"
MODEL_FREE = (  # what decides what is proposed on a recorded space
    *(f"tuner/search/{name}.py" for name in ("surrogate", "encode", "evolution", "annealing", "grid", "random")),
    "cost_model/learned/gaussian.py",
    "schedules/space_ops.py",
)  # fmt: skip
ALL = (  # what decides how a search on this machine goes
    *("targets", "tensor", "schedules", "codegen"),
    *("cost_model", "runtime", "measure", "tuner"),
)


def code_key(places: Sequence[str], *numbers: object) -> str:
    """A hash of what these files and folders do, and of the numbers that they are given."""
    digest = hashlib.sha256()
    for place in places:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(instructions(file.read_text(encoding="utf-8")).encode())
    digest.update(repr(numbers).encode() if numbers else b"")
    return digest.hexdigest()[:12]


def instructions(text: str) -> str:
    """Says what a source text does: its syntax tree without docstrings. Better words and other lines make no figure wrong."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree)


def machine_of(found: Any) -> str:
    """The key of the machine that a line is of, "" where none matters."""
    return str(found.get("machine", "")) if isinstance(found, dict) else ""


@dataclass
class Store:
    """The lines of one file, by measure and key; `code` "" stands for what does not depend on ours (a peer).

    `machine`: the key that lines of a machine name, "" for what no machine changes. With `any_code` lines of other code count
    as well, the latest of each key: while developing, a hint is better than nothing.
    """

    path: Path
    code: str
    any_code: bool = False
    machine: str = ""
    _lines: dict[tuple[str, str, str], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists():
            for text in self.path.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if machine_of(line["found"]) != self.machine:
                    continue
                code = self.code if self.any_code and line["code"] else line["code"]
                self._lines[line["measure"], line["key"], code] = line["found"]

    def get(self, measure: str, key: str, *, peer: bool = False) -> Any:
        """Returns what was found, or None."""
        return self._lines.get((measure, key, "" if peer else self.code))

    def put(self, measure: str, key: str, found: Any, *, peer: bool = False) -> None:
        """Keeps it at once: a benchmark that is cut loses the piece in work."""
        code = "" if peer else self.code
        found = found | {"machine": self.machine} if self.machine else found
        self._lines[measure, key, code] = found
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"measure": measure, "key": key, "code": code, "found": found}) + "\n")

    def earlier(self, measure: str) -> Iterator[tuple[str, Any]]:
        """(key, found) of what other versions of the code found."""
        return (
            (f"{key}|{code}", found)
            for (m, key, code), found in self._lines.items()
            if m == measure and code not in ("", self.code)
        )

    def all(self, measure: str) -> Iterator[tuple[str, Any]]:
        """(key, found) of everything of this code and of peers."""
        return (
            (key, found) for (m, key, code), found in self._lines.items() if m == measure and code in ("", self.code)
        )

    def summary(self, measure: str) -> str:
        """A sentence on what the tables are made of."""
        found = [line for _, line in self.all(measure)]
        commits = sorted({str(line["commit"]) for line in found})
        code = f"{len(commits)} commits" if len(commits) > 1 else f"commit {', '.join(commits)}"
        return f"{len(found)} searches; {code} (hash {self.code}); machine {self.machine}."
