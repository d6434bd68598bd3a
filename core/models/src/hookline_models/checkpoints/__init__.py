"""Models of `transformers` from folders of weights, whole or one rank's part."""
