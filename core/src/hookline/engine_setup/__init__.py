"""Makes an engine of a configuration: its parts, facts, recorder and executor."""
