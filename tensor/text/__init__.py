"""The text form: tokens, grammar, parser, and the canonical form with its keys. See docs/text-form.md.

Imports the core files of `tensor`; printing stands there, as errors need it before anything is parsed.
"""
