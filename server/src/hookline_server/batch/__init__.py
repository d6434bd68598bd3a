"""`hookline run-batch`: the requests of a file, through the server's own handlers."""
