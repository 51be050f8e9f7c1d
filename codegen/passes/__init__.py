"""Passes over loop IR, one a file."""
