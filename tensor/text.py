"""The text form: the printer, the parser, the storage format and the identity of programs. See docs/text-form.md."""

from .canonical import canonical, canonical_names, family_key, program_key
from .parse import parse, parse_expr
from .printing import print_expr, print_program, print_stage

__all__ = [
    "canonical",
    "canonical_names",
    "family_key",
    "parse",
    "parse_expr",
    "print_expr",
    "print_program",
    "print_stage",
    "program_key",
]
