"""`hookline route`: one address before prefill and decode instances."""
