"""The server's log: one format, rate limits, and a thread that writes it."""
