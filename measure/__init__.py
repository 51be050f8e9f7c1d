"""What a candidate really costs: builds, checks and times trials in processes that may die, and tells ceilings."""
