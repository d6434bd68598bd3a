"""The endpoint plugin: the loggers' pages, and what HTTP tells of each request."""

from typing import Any

from hookline_vllm.attachment import ATTACHMENT
from hookline_vllm.middleware import Middleware
from hookline_vllm.shapes import attach


class Endpoints:
    """What vLLM attaches to its application.

    Attributes:
        name: As in `VLLM_PLUGINS`.
        required_tasks: None: it is for any.
    """

    name = "hookline"
    required_tasks = None

    def attach_router(self, app: Any) -> None:
        attach("pages", lambda: app.add_middleware(Middleware, attachment=ATTACHMENT))

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """There is none: the loggers start with the stat logger."""
