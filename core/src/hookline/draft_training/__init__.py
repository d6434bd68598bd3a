"""Training of what drafts: texts for it, the target as its teacher, the plugin's part.

How a method is trained is its plugin's own affair (hook `train_draft`). Imports torch
only where it is used.
"""

from hookline.draft_training.session import train_draft
from hookline.draft_training.settings import TrainingSettings

__all__ = ["TrainingSettings", "train_draft"]
