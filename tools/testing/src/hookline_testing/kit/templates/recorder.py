"""Recorder `sample`: counts steps, for a program that reads the number itself.

`LLM` asks the entry point `metrics`. To take its place, rename this entry point and
remove hookline-metrics.
"""

from hookline import hookimpl
from hookline.frontend.observing import RecorderContext
from hookline.payloads import StepFinished


class SampleRecorder:
    """Counts steps.

    Attributes:
        num_steps: Number of steps so far.
    """

    def __init__(self) -> None:
        self.num_steps = 0

    @hookimpl
    def step_finished(self, step: StepFinished) -> None:
        """Runs without a lane, in the front end's thread: it must be fast."""
        del step
        self.num_steps += 1


@hookimpl
def create_recorder(context: RecorderContext) -> SampleRecorder:
    """Returns what is called with every payload."""
    del context
    return SampleRecorder()
