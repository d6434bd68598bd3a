"""Training of draft models, with the target model as the teacher.

Each method is trained by its plugin (hook `train_draft`). torch is imported lazily.
"""

from hookline_drafting.training.session import train_draft
from hookline_drafting.training.settings import TrainingSettings

__all__ = ["TrainingSettings", "train_draft"]
