"""Load balancing: which of several engines gets a request."""
