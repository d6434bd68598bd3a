"""The phase `load_model` of a worker."""
