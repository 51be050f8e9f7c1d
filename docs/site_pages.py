"""What the site of documents has beside the files of docs/: pages of the folder above, examples, and the help of all commands.

A hook of MkDocs (mkdocs.yml). Links are written for people who read the files where they lie; here they are turned to where the
site has them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ABOVE = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
HELP = "reference/command-line.md"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.S | re.M)


def on_files(files: Files, config: Any) -> Files:
    """Adds what does not lie in docs/."""
    for name in (
        *ABOVE,
        *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "examples").rglob("*")) if _is_shown(path)),
    ):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, HELP, content=help_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turns links to where the site has what they lead to."""
    source = page.file.src_uri
    place = source if source in ABOVE else f"docs/{source}"
    return turned(markdown, place, {file.src_uri for file in files})


def turned(markdown: str, place: str, known: set[str]) -> str:
    """The text with links to files of the site. `place`: of the text in the repository; `known`: the site's files.

    What the site does not have, such as a folder, is told by its name without a link.
    """

    def link(found: re.Match[str]) -> str:
        image, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        there = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        there = there.removeprefix("docs/")
        if there not in known:
            return found[0] if image or not (ROOT / there).exists() else text
        here = posixpath.dirname(place.removeprefix("docs/"))
        return f"{image}[{text}]({posixpath.relpath(there, here or '.')}{anchor})"

    parts = _CODE.split(markdown)  # code is left as it is
    return "".join(part if part.startswith("`") else _LINK.sub(link, part) for part in parts)


def help_page() -> str:
    """A page of what `--help` says of each command."""
    lines = ["# The command line", "", "`tune` is also called `tilesmith`, and `python -m tilesmith`.", ""]
    for name, text in _helps():
        lines += [f"## {name}", "", "```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def _helps() -> Iterator[tuple[str, str]]:
    import typer

    from tilesmith.tuner.cli.main import app

    found = [("tune", typer.main.get_command(app), None)]
    while found:
        name, command, above = found.pop(0)
        context: Any = command.make_context(name, [], parent=above, resilient_parsing=True)
        context.info_name = name.rpartition(" ")[2]
        yield name, command.get_help(context)
        below = command.list_commands(context) if hasattr(command, "list_commands") else ()
        found = [(f"{name} {one}", command.get_command(context, one), context) for one in below] + found


def _is_shown(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts
