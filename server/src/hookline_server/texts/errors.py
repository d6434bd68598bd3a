"""Errors of text processes."""

from hookline.exceptions import OverloadedError, RequestError


class TextLimitError(RequestError):
    """A text that takes too much time or memory to render or tokenize.

    Attributes:
        is_time: Whether it took too much time; otherwise it ended its process.
    """

    def __init__(self, is_time: bool) -> None:
        limit = "takes too much time" if is_time else "ends the text process"
        super().__init__(
            f"the request {limit} in the chat template or the tokenizer: send less "
            "text, or check the model's chat template"
        )
        self.is_time = is_time


class TextQueueFullError(OverloadedError):
    """Too much text waits to be tokenized.

    Attributes:
        limit: Maximum number of waiting texts of the kind.
    """

    def _message(self, limit: int) -> str:
        return (
            f"too much text waits to be tokenized (at most {limit} texts); try again "
            "later"
        )
