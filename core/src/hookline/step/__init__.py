"""The types of a step, which the scheduler plans and a worker computes.

Both import this package and neither imports the other.
"""

from hookline.step.capabilities import ExecutorCapabilities
from hookline.step.model_shape import ModelShape
from hookline.step.plan import AdmittedSequence, StepPlan, StepResult
from hookline.step.sleep_level import SleepLevel

__all__ = [
    "AdmittedSequence",
    "ExecutorCapabilities",
    "ModelShape",
    "SleepLevel",
    "StepPlan",
    "StepResult",
]
