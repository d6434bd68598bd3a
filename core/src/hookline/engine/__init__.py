"""The engine: core loop, front end, and the two ways between them."""
