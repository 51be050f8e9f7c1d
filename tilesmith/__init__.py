"""Tilesmith: an auto-tuning search framework for tensor programs."""
