"""What the JSON files of a model folder say of the model; imports no torch."""
