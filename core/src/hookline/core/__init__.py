"""The engine core: one scheduler, one executor, one loop."""
