"""Small recordings of all that a scheduler decides, which tests repeat."""
