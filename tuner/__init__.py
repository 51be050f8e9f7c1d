"""What a search does, and what it leaves behind. Read tune.py first.

Imports all other packages, and is imported by the public face alone.
"""
