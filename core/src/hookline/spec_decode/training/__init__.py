"""Training of what drafts: texts for it, the target as its teacher, the plugin's part.

How a method is trained is its plugin's own affair (hook `train_draft`). Imports torch
only where it is used.
"""

from hookline.spec_decode.training.session import train_draft
from hookline.spec_decode.training.settings import TrainingSettings

__all__ = ["TrainingSettings", "train_draft"]
