"""Pre-tuned records that are shipped with the project, as JSON lines.

Imports nothing: it is data.
"""
