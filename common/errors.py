"""Every error a person can meet, sorted by who is at fault.

An error says what is wrong, what was expected, what was found and what to do next:

    raise ArgumentError(
        "argument 1 (B) has the wrong shape",
        expected="f32[1024, 1024]", found="f32[1024, 512]",
        advice="pass B with shape (1024, 1024), or tune the program for this shape",
    )

What goes wrong inside a *candidate* during a search is never raised: it is a value (`measure.result.Measurement`).
"""

from __future__ import annotations

from .printable import printable


class TilesmithError(Exception):
    """Base of all errors below.

    Args:
        problem: one sentence, without a full stop, that says what is wrong.
        expected: what would have been right.
        found: what was there instead.
        advice: what the reader can do now.
        where: the marked program text or the marked outline, several lines.
    """

    def __init__(self, problem: str, *, expected: str = "", found: str = "", advice: str = "", where: str = "") -> None:
        self.problem = problem
        self.expected = expected
        self.found = found
        self.advice = advice
        self.where = where
        super().__init__(problem)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.expected, self.found, self.advice, self.where)

    def __str__(self) -> str:
        lines = [self.problem]
        if self.where:
            lines += ["", self.where, ""]
        lines += [
            f"  {label:>8}: {text}"
            for label, text in (("expected", self.expected), ("found", self.found), ("advice", self.advice))
            if text
        ]
        return printable("\n".join(lines))  # parts of it are somebody else's text


def _rebuild(
    kind: type[TilesmithError], problem: str, expected: str, found: str, advice: str, where: str
) -> TilesmithError:
    """Makes the error again on the other side of a process boundary."""
    return kind(problem, expected=expected, found=found, advice=advice, where=where)


class UserError(TilesmithError):
    """The caller gave something that cannot work; nothing was changed. The command line ends with code 2."""


class ProgramError(UserError):
    """A tensor program is wrong: unknown name, rank, bounds, dtype, syntax."""


class ScheduleError(UserError):
    """A schedule step does not apply; `where` is the outline with the place marked."""


class TemplateError(UserError):
    """A template raised or left something that is no sketch."""


class TargetError(UserError):
    """A target's text is wrong, or this machine is not such a target."""


class ArgumentError(UserError):
    """Arrays or options handed to a function are of the wrong kind."""


class BudgetError(UserError):
    """A budget that allows nothing."""


class DatabaseError(UserError):
    """A database that cannot be used as asked."""


class NoRecordError(UserError):
    """`strict=True` and no exact record, or an unknown record id."""


class MissingExtra(UserError):
    """An optional part is asked for and its package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.arguments = (package, extra, purpose)
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            advice=f"pip install 'tilesmith[{extra}]'",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.arguments


class SearchFailed(UserError):
    """Every candidate of a search failed; `where` ranks the reasons."""


class EnvironmentFailure(TilesmithError):
    """The machine is at fault: a library that does not load, a full disk, a dead device."""


class DeviceLost(EnvironmentFailure):
    """A device answers nothing any more, and what is asked of it now is not to blame: something before it was."""


class OutOfDeviceMemory(EnvironmentFailure):
    """A device has no room for a buffer."""


class InternalError(TilesmithError):
    """Tilesmith is at fault: a broken invariant. Please report it with the text shown."""


class KernelFault(InternalError):
    """A compiled kernel did what no kernel may, and the device noticed: an illegal address, a race, a barrier not met."""
