"""Background compiler `sample`: chooses the forward pass that a worker starts with.

A worker asks the entry point `background_compiling`. To take its place, rename this
entry point and remove hookline-background-compiling.
"""

from typing import TYPE_CHECKING

from hookline import hookimpl

if TYPE_CHECKING:  # they need torch
    from hookline_models.forwards.first_forward import (
        ChooseForward,
        FirstForward,
        ModelToRun,
        StartForward,
    )


def start(model: "ModelToRun", choose: "ChooseForward") -> "FirstForward":
    """Compiles what is missing before the first step, and replaces nothing later."""
    from hookline_models.forwards.first_forward import FirstForward  # noqa: PLC0415

    return FirstForward(choose(may_compile=model.config.executor.may_compile))


@hookimpl
def background_compiler() -> "StartForward":
    """Called when a worker starts."""
    return start
