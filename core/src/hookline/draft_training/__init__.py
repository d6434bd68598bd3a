"""Training of draft models, with the target model as the teacher.

How a method is trained is its plugin's own affair (hook `train_draft`). Imports torch
only where it is used.
"""

from hookline.draft_training.session import train_draft
from hookline.draft_training.settings import TrainingSettings

__all__ = ["TrainingSettings", "train_draft"]
