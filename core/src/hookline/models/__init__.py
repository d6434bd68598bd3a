"""Models: described, loaded, and fitted with paged attention."""
