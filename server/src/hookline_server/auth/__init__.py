"""API keys: who may send which requests, and how many."""
