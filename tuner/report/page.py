"""The page around the data: one file without a network, in which nothing runs but the scripts of this package and Plotly's.

Three walls stand between a record of a stranger and the reader's browser: the data are JSON whose markup characters are
escaped, scripts write them as text only, and the page's policy names the scripts that may run by their hashes, and no address.
These may make functions of text (`unsafe-eval`), for Plotly does so of its own shaders; no text of a record comes near that.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from ...common.printable import printable
from .document import Document

_SCRIPTS = ("theme.js", "words.js", "filters.js", "charts.js", "layers.js", "page.js")
_SHUT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}  # no text of a record ends a script or begins a tag


def page_of(document: Document, plotly: str) -> str:
    """The page. `plotly`: the script that draws."""
    ours = "\n".join(_part(name) for name in _SCRIPTS)
    packed = base64.b64encode(gzip.compress(plotly.encode(), 9, mtime=0)).decode()
    values = {
        "title": html.escape(printable(document.title)),
        "policy": _policy(ours, plotly),
        "style": _part("page.css"),
        "data": data_text(asdict(document)),
        "plotly": packed,
        "script": ours,
    }
    return _filled(_part("page.html"), values)


def data_text(data: Mapping[str, Any]) -> str:
    """The data as JSON in ASCII that can stand in a script element. ValueError for what is no number."""
    text = json.dumps(_shown(data), allow_nan=False, separators=(",", ":"))
    return "".join(_SHUT.get(character, character) for character in text)


def _shown(value: Any) -> Any:
    """The value with texts whose control characters are seen."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(name)): _shown(one) for name, one in value.items()}
    return [_shown(one) for one in value] if isinstance(value, list | tuple) else value


def _policy(*scripts: str) -> str:
    """Forbids to fetch anything from anywhere, and to run anything but these scripts."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return f"default-src 'none'; script-src 'unsafe-eval' {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with each `{{name}}` replaced once: what is put in is not looked at again."""
    parts = template.split("{{")
    rest = (part.partition("}}") for part in parts[1:])
    return parts[0] + "".join(values[name] + after for name, _, after in rest)
