"""What a profile is drawn as: a timeline for Chrome and Perfetto, and a flame graph by the path of modules.

Imports common.
"""
