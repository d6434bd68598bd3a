"""Replaces parts of a loaded model by faster ones that compute the same.

A part is recognised by its structure, never by a family's name, and replaced only after
a trial: the new part must agree with the old one on random numbers. Other parts stay as
`transformers` made them.
"""

from hookline.models.adapt.adapting import Adaptation, adapt

__all__ = ["Adaptation", "adapt"]
