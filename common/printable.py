"""Texts of others on a terminal: what would move its cursor, change its title or turn the line around is shown as an escape."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every character that is not shown as itself, but for line ends and tabs, as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
