"""What carries commands to an engine and its outputs back."""
