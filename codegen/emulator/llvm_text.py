"""Reading LLVM IR line by line, as LLVM itself prints it: types, operands, and where a pointer comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAME = r'%(?:"[^"]*"|[-\w.$]+)'
_OPEN, _CLOSE = "([{<", ")]}>"
_SIMPLE = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
_ATTRIBUTES = re.compile(
    r"\b(?:noundef|nonnull|noalias|readonly|captures\(none\)|nocapture|align \d+|range\([^()]*\)|immarg) "
)


def split_top(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def typed(text: str) -> tuple[str, str]:
    """`TYPE VALUE` as its two parts; attributes of arguments are dropped."""
    text = _ATTRIBUTES.sub("", text)
    if text[0] not in _OPEN:
        kind, _, value = text.partition(" ")
        return kind, value.strip()
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if depth == 0:
            return text[: place + 1], text[place + 1 :].strip()
    raise ValueError(text)


def size_of(kind: str) -> int:
    """Bytes that a value of a type takes in memory. Raises ValueError for a type that kernels do not have."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if match := re.fullmatch(r"i(\d+)", kind):
        return -(-int(match[1]) // 8)
    if match := re.fullmatch(r"<(\d+) x (.+)>", kind):
        return -(-int(match[1]) * _bits(match[2]) // 8)
    if match := re.fullmatch(r"\[(\d+) x (.+)\]", kind):
        return int(match[1]) * size_of(match[2])
    raise ValueError(f"a type that kernels do not have: {kind}")


def _bits(kind: str) -> int:
    return int(kind[1:]) if re.fullmatch(r"i\d+", kind) else 8 * size_of(kind)


def arguments_of(call: str) -> list[tuple[str, str]]:
    """The (type, value) arguments of `call ... @name(...)`."""
    inside = call[call.index("(", call.index("@")) + 1 : call.rindex(")")]
    return [typed(part) for part in split_top(inside)] if inside.strip() else []


def pointer_roots(pointer: str, definitions: Mapping[str, str]) -> frozenset[str]:
    """Returns what a pointer is made from: names of arguments and allocas, `@globals`, or "?" for what cannot be followed."""
    found: set[str] = set()
    seen: set[str] = set()
    pending = [pointer]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if not one.startswith("%"):
            names = re.findall(r'@(?:"[^"]*"|[-\w.$]+)', one)
            found.update(names or {"?"})
            continue
        made = definitions.get(one)
        if made is None or made.startswith("alloca "):
            found.add(one)
        elif made.startswith(("getelementptr ", "addrspacecast ", "bitcast ")):
            pending.append(_first_pointer(made))
        elif made.startswith("select "):
            pending += [
                value for kind, value in map(typed, split_top(made.removeprefix("select "))[1:]) if kind == "ptr"
            ]
        elif made.startswith("phi ptr"):
            pending += [item.split(",")[0].strip("[ ") for item in split_top(made.removeprefix("phi ptr "))]
        elif made.startswith(("freeze ", "call ptr @llvm.ptrmask")):
            pending.append(_first_pointer(made))
        else:
            found.add("?")
    return frozenset(found)


def _first_pointer(made: str) -> str:
    """The first pointer operand of an instruction."""
    if made.startswith("getelementptr"):
        made = split_top(made)[1]
    place = made.index("ptr ")
    return (
        split_top(made[place + 4 :].removesuffix(" to ptr"))[0].rstrip(")")
        if made.startswith("call")
        else (made[place + 4 :].removesuffix(" to ptr").strip())
    )
