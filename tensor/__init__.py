"""What to compute: programs as data, their text form, and the oracle that evaluates them."""
