"""Models: description, loading, and execution with paged attention."""
