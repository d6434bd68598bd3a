"""The paged KV cache: blocks, their content hashes and their references."""
