"""The null executor: a device that answers at once."""
