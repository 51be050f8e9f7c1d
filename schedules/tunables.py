"""Tunables: the named open numbers and options of a sketch. A tunable owns its domain and its default.

A domain is a function of the sizes and the target, so one sketch serves every shape; `parameter` gives it at the sizes of a
task. Domains hold what hardware likes, never divisors alone:

    all numbers up to 16, then 2^n and 3 * 2^n, divisors and near-divisors (ceil(extent / n) for small n)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Union

from ..common.errors import TemplateError
from ..tensor.limits import EXTENT
from .extents import Environment, Extent, Sym, evaluate, leaf, parse_extent, to_text
from .space import Parameter

_SMALL = 16
_NEAR_DIVISORS = 8
_OPTIONS = 1024  # of a choice
_LONGEST = 5000  # characters of a line


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The number of trips of a loop. `of`: how many there can be at most in a useful config (an extent, rounded up).

    `at_most` caps it; `default` is what an untuned schedule would take (clamped into the domain).
    """

    name: str
    of: Extent
    at_most: int = 1 << 30
    at_least: int = 1
    default: int = 1

    @property
    def value(self) -> Sym:
        """Returns the tunable as an extent."""
        return leaf(self.name)

    def allows(self, number: int) -> bool:
        """Tells whether a number can be one of this tunable in any version: domains change, this does not."""
        return 1 <= number <= EXTENT

    def parameter(self, environment: Environment) -> Parameter:
        """Returns the domain at the sizes of a task."""
        extent = min(max(1, int(evaluate(self.of, environment))), EXTENT)
        values = factor_values(extent, max(self.at_least, min(self.at_most, extent)), self.at_least)
        nearest = min(range(len(values)), key=lambda i: (abs(values[i] - self.default), values[i]))
        return Parameter(self.name, tuple(values), nearest)

    def text(self) -> str:
        """Writes one line that parses back."""
        options = [f"at_most={self.at_most}"] if self.at_most != 1 << 30 else []
        options += [f"at_least={self.at_least}"] if self.at_least != 1 else []
        options += [f"default={self.default}"] if self.default != 1 else []
        return f"factor {self.name} of {to_text(self.of)}" + (" " + " ".join(options) if options else "")


def factor_values(extent: int, at_most: int, at_least: int = 1) -> list[int]:
    """Returns the numbers worth trying as a loop of at most `extent` useful trips, ascending."""
    liked = set(range(1, min(_SMALL, at_most) + 1))
    power = 1
    while power <= at_most:
        liked |= {power, 3 * power}
        power *= 2
    liked |= {at_least}
    liked |= {-(-extent // n) for n in range(1, _NEAR_DIVISORS + 1)}
    liked |= {d for n in range(1, int(extent**0.5) + 1) if extent % n == 0 for d in (n, extent // n)}
    return sorted(v for v in liked if at_least <= v <= at_most)


@dataclass(frozen=True, slots=True)
class Choice:
    """One number out of a list, whose numbers have no order."""

    name: str
    options: tuple[int, ...]
    default: int

    @property
    def value(self) -> Sym:
        """Returns the tunable as an extent."""
        return leaf(self.name)

    def allows(self, number: int) -> bool:
        """Tells whether a value can be one of this tunable in any version, as `Factor.allows` does."""
        return -EXTENT <= number <= EXTENT

    def parameter(self, environment: Environment) -> Parameter:
        """Returns the domain; it does not depend on the sizes."""
        return Parameter(self.name, self.options, self.options.index(self.default), ordered=False)

    def text(self) -> str:
        """Writes one line that parses back."""
        return f"choice {self.name} of {json.dumps(list(self.options))} default={self.default}"


@dataclass(frozen=True, slots=True)
class Flag:
    """A yes or no, as 1 or 0."""

    name: str
    default: bool = False

    @property
    def value(self) -> Sym:
        """Returns the tunable as an extent."""
        return leaf(self.name)

    def allows(self, number: int) -> bool:
        """Tells whether a value can be one of this tunable in any version, as `Factor.allows` does."""
        return number in (0, 1)

    def parameter(self, environment: Environment) -> Parameter:
        """Returns the domain, which is 0 and 1."""
        return Parameter(self.name, (0, 1), int(self.default), ordered=False)

    def text(self) -> str:
        """Writes one line that parses back."""
        return f"flag {self.name} default={int(self.default)}"


Tunable = Union[Factor, Choice, Flag]


def parse_tunable(line: str) -> Tunable:
    """Returns the tunable that a line stands for. ValueError for anything else."""
    try:
        return _parse(line)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a tunable: {line[:80]!r} ({error})") from None


def _parse(line: str) -> Tunable:
    kind, name, *rest = line.split(" ")
    if not name or len(line) > _LONGEST:
        raise ValueError(f"expected a name, and at most {_LONGEST} characters")
    options = {}
    while rest and "=" in rest[-1] and not rest[-1].startswith(("=", "<", ">", "!")):
        key, _, number = rest.pop().partition("=")
        options[key] = int(number)
    body = " ".join(rest[1:] if rest and rest[0] == "of" else rest)
    match kind:
        case "factor":
            most, least = options.get("at_most", 1 << 30), options.get("at_least", 1)
            return Factor(name, parse_extent(body), most, least, options.get("default", 1))
        case "choice":
            listed, default = tuple(int(v) for v in json.loads(body)), options["default"]
            if default not in listed or len(listed) > _OPTIONS:
                raise ValueError(f"expected at most {_OPTIONS} options, the default among them")
            return Choice(name, listed, default)
        case "flag":
            return Flag(name, bool(options["default"]))
    raise ValueError("expected factor, choice or flag")


def check_name(name: str) -> None:
    """Raises TemplateError unless the name is made of identifiers joined by dots."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise TemplateError(f"{name!r} cannot name a tunable", expected="identifiers joined by dots, such as 'i.tile'")
