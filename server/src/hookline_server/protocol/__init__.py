"""The messages of the HTTP API as msgspec structs; knows no HTTP and no engine."""
