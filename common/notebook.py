"""HTML for notebooks: small tables, and long texts that open when they are asked for. Whatever is shown is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .printable import printable


def facts_html(title: str, facts: Mapping[str, str], more: Mapping[str, str] | None = None) -> str:
    """A heading, names with values, and texts by their headings, which are folded."""
    rows = "".join(f"<tr><th style='text-align:left'>{_safe(n)}</th><td>{_safe(v)}</td></tr>" for n, v in facts.items())
    texts = "".join(
        f"<details><summary>{_safe(n)}</summary><pre>{_safe(v)}</pre></details>" for n, v in (more or {}).items()
    )
    return f"<div><b>{_safe(title)}</b><table>{rows}</table>{texts}</div>"


def rows_html(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table."""
    head = "".join(f"<th>{_safe(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{_safe(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><b>{_safe(title)}</b><table><tr>{head}</tr>{body}</table></div>"


def _safe(text: str) -> str:
    return escape(printable(text))
