"""What the files of a model folder say of the model; needs neither torch nor files of
weights."""
