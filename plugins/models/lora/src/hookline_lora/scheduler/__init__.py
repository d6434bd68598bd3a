"""The scheduler's side: which adapters there are, and which of them have a slot."""
