"""What a traced server reports."""

import msgspec

from hookline_testing.structure.calls import Calls


class Traces(msgspec.Struct, frozen=True):
    """What was called.

    Attributes:
    front_end: Name of the thread of the front end and the server.
        engine: Name of the engine's thread.
        prompts: Of a prompt each, from the server's first call to the model runner.
        forms: Types that carried a prompt, each with the field that had it.
        steps: By step of a decode, with nothing in flight around it.
    """

    front_end: str
    engine: str
    prompts: list[Calls]
    forms: dict[str, str]
    steps: list[Calls]
