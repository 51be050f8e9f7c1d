"""The ground: errors, settings, debugging.

Imports nothing of the project.
"""
