"""Metrics for people: the catalogue, pages of servers, and their differences."""
