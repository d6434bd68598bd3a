"""Scheduling: which requests compute how many tokens in each step."""

from hookline.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
