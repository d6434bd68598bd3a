"""Scheduling: which requests compute how many tokens in each step."""

from hookline.scheduler.plan import AdmittedSequence, StepPlan, StepResult
from hookline.scheduler.scheduler import Scheduler

__all__ = ["AdmittedSequence", "Scheduler", "StepPlan", "StepResult"]
