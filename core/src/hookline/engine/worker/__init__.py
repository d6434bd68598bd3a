"""The worker: turns a step's plan into tokens."""
