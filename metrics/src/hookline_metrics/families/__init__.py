"""The metric definitions, one module per subject."""
