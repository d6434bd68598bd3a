"""A server with everything on, whose processes are killed while clients use it."""
