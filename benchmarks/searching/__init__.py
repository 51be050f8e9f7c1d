"""How good the search is: what search.py measures, keeps and draws."""
