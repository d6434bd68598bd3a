"""An executor without a model: a step-time model and a token source."""
