"""Says all that is known of a model folder before it is served."""
