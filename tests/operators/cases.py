"""All cases of all operators."""

from operators import plain, windows

CASES = [*plain.CASES, *windows.CASES]
