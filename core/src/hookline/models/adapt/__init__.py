"""Replaces parts of a loaded model by faster ones that compute the same.

What is replaced is told by its structure, never by a family's name, and only after a
trial: the new part must agree with the old one on random numbers. What does not fit
stays as `transformers` made it.
"""

from hookline.models.adapt.adapting import Adaptation, adapt

__all__ = ["Adaptation", "adapt"]
