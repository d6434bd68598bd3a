"""Several clients of the same engines: one owns these, others attach to them."""
