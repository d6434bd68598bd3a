"""Experts that engines share, through memory that they share."""
