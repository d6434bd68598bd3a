"""The plugin of a worker; importing it is cheap."""

from typing import TYPE_CHECKING

from hookline import hookimpl

if TYPE_CHECKING:  # it needs torch
    from hookline_models.forwards.first_forward import StartForward


@hookimpl
def background_compiler() -> "StartForward":
    from hookline_background_compiling.first_forward import (  # noqa: PLC0415
        first_forward,
    )

    return first_forward
