"""Commands that are imported when they are called: a list of all of them costs nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

NAME = "tune"  # of the command in all texts
OTHER_NAMES = ("tilesmith", "python -m tilesmith")


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command of the table. `place`: module:name of its function, or of its Typer where it has commands of its own.

    `examples`: lines that its --help ends with, each of which works.
    """

    place: str
    summary: str
    examples: tuple[str, ...] = ()


def examples_text(examples: tuple[str, ...]) -> str:
    """The end of a help text; the sign in front keeps its lines as they are."""
    noun = "Example" if len(examples) == 1 else "Examples"
    return "\n".join(["\b", f"{noun}:", *(f"  {line}" for line in examples)]) if examples else ""


def lazy_group(package: str, table: Mapping[str, CommandEntry]) -> type[TyperGroup]:
    """The class of a group of commands that stand in a table, in its order."""

    class LazyGroup(TyperGroup):
        """Imports a command when it is asked for."""

        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            for name, entry in table.items():
                self.commands.setdefault(name, TyperCommand(name, short_help=entry.summary, rich_markup_mode=None))
            self._listing = False

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if self._listing or cmd_name not in table:
                return self.commands.get(cmd_name)
            return spoken(loaded(package, cmd_name, table[cmd_name]), called_by(ctx.find_root().info_name))

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            self._listing = True
            try:
                super().format_commands(ctx, formatter)
            finally:
                self._listing = False

        def shell_complete(self, ctx: Any, incomplete: str) -> Any:
            self._listing = True
            try:
                return super().shell_complete(ctx, incomplete)
            finally:
                self._listing = False

    return LazyGroup


def called_by(name: str | None) -> str:
    """The command as the person who reads a text has called it: where Ray is installed, `tune` may be Ray's."""
    return name if name in OTHER_NAMES else NAME


def as_called(text: str, name: str) -> str:
    """A text that tells what to call, with the name by which the command was called."""
    return re.sub(rf"(^|`|  ){NAME} ", rf"\g<1>{name} ", text)


def spoken(command: Any, name: str) -> Any:
    """A command whose help calls it by a name. A command is made anew for each call."""
    if name != NAME:
        for one in (command, *getattr(command, "commands", {}).values()):
            one.help, one.epilog = (text and as_called(text, name) for text in (one.help, one.epilog))
            for parameter in one.params:
                parameter.help = as_called(getattr(parameter, "help", None) or "", name)
    return command


def loaded(package: str, name: str, entry: CommandEntry) -> Any:
    """The command itself, as typer makes it."""
    module, _, attribute = entry.place.partition(":")
    found = getattr(import_module(module, package), attribute)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_command(found)
        command.name, command.epilog = name, examples_text(entry.examples)
        for below, one in command.commands.items():
            one.epilog = examples_text(tuple(line for line in entry.examples if line.split()[2] == below))
        return command
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, epilog=examples_text(entry.examples), short_help=entry.summary)(found)
    return typer.main.get_command(app)
