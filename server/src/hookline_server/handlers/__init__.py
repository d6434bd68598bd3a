"""The handlers of the HTTP API, one concept a file."""
