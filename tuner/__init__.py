"""What a search does, and what it leaves behind. Read tune.py first."""
