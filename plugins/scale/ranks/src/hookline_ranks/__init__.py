"""A model divided among ranks: tensors, pipeline stages and experts."""
