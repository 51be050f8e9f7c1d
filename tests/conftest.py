"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# how long one example takes says how busy the machine is; whole tests have a limit of their own (pyproject.toml)
settings.register_profile("tilesmith", deadline=None, print_blob=True)
settings.load_profile("tilesmith")
