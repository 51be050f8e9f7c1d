"""Quantising models: products of data and weights, found by their structure, in fewer bits.

May import what `graph` may; nothing of the importers.
"""
