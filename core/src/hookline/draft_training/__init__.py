"""Training of draft models, with the target model as the teacher.

Each method is trained by its plugin (hook `train_draft`). torch is imported lazily.
"""

from hookline.draft_training.session import train_draft
from hookline.draft_training.settings import TrainingSettings

__all__ = ["TrainingSettings", "train_draft"]
