"""The handlers of the HTTP API's endpoints."""
