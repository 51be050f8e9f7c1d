"""Hand-made sketches, where an algorithm differs and not a loop order."""
