"""Models of a hub: found in the Hugging Face cache, or downloaded into it."""
