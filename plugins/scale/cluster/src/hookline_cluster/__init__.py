"""Several engines behind a front end, several front ends, machines and their links."""
