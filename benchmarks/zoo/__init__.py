"""Whole models: how they are made, what files hold them, and what is said of a race (models.py)."""
