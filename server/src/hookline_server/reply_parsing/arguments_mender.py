"""Makes the JSON of an object of what a model wrote for the arguments of a call."""

import json

from hookline_metrics.front_end_parts import RepairKind
from hookline_server.reply_parsing.json_mender import JsonMender
from hookline_server.reply_parsing.reader import decoded_string


class ArgumentsMender:
    """Makes the JSON of an object of what a model wrote for a call's arguments.

    Attributes:
        repairs: Which slips were mended, in their order.
    """

    def __init__(self) -> None:
        self.repairs: list[RepairKind] = []
        self._object: JsonMender | None = None
        self._is_other = False
        self._held: list[str] = []

    def push(self, text: str) -> str:
        """Reads on; returns the JSON that is certain so far."""
        if self._object is None:
            self._held.append(text)
            start = text.lstrip()
            if not start or self._is_other:
                return ""
            if start[0] != "{":
                self._is_other = True
                return ""
            self._object, text = JsonMender(self.repairs), start
        return self._object.push(text)

    @property
    def rest(self) -> str:
        """What follows the object in the text that was pushed last."""
        return "" if self._object is None else self._object.rest

    def finish(self) -> str:
        """Returns the end of the object."""
        if self._object is None:
            return self._of_other("".join(self._held).strip())
        return self._object.finish()

    def _of_other(self, text: str) -> str:
        """Returns an object for what is none: one in a string, or another value."""
        if text == "":
            return "{}"
        self.repairs.append("shape")
        mender = JsonMender(self.repairs)
        value = mender.push(text) + mender.finish()
        if mender.rest.strip():
            value = json.dumps(text, ensure_ascii=False)
        if value.startswith('"'):
            inner = decoded_string(value).strip()
            if inner.startswith("{"):
                mender = JsonMender(self.repairs)
                return mender.push(inner) + mender.finish()
        return "{}" if value in ("null", '""', "[]") else f'{{"value": {value}}}'
