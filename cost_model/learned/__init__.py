"""Models that learn what the analytic one gets wrong, and how good a ranking is.

Imports nothing else of `cost_model`.
"""
