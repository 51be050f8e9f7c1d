"""The words of the text form, which no tensor or axis may be called."""

from __future__ import annotations

from .dtype import DTYPES
from .language import LOGIC, MATHEMATICS, WORDS
from .program import COMBINERS

KEYWORDS = ("input", "constant", "table", "return", "fold", "let", "inf", "nan", "true", "false")
FUNCTIONS = ("min", "max", "abs", "select", *MATHEMATICS, *WORDS)
RESERVED = frozenset((*KEYWORDS, *FUNCTIONS, *LOGIC, *COMBINERS, *DTYPES))
