"""Search strategies behind one ask/tell protocol; strategy.py says what that is."""
