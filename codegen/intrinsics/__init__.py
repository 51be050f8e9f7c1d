"""Matrix-unit and dot-product instructions as tensorized tiles."""
