"""The HTTP API's messages as msgspec structs; independent of HTTP server and engine."""
