"""The types of a step, which the scheduler plans and a worker computes.

Both import this package and neither imports the other.
"""

from hookline.step.model_shape import ModelShape
from hookline.step.plan import AdmittedSequence, StepPlan, StepResult

__all__ = ["AdmittedSequence", "ModelShape", "StepPlan", "StepResult"]
