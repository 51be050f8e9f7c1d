"""Rows of narrow elements: their programs, and how libraries compute them, one file a kind."""
