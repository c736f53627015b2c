"""Trains the small networks that look at queries before an ensemble's models run."""
