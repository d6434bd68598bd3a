"""Products of adapters: B·(A·x), added to what the base model's products give."""
