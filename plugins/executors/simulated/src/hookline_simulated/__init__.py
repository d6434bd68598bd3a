"""The simulated executor: a step-time model and a token source."""
