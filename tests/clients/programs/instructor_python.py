"""The package `instructor`, around the package `openai`."""

import asyncio
from typing import Annotated, Literal

import instructor
import openai
from harness import KEY, MODEL, V1, feature, raises, run_features
from instructor.core import InstructorRetryException
from pydantic import AfterValidator, BaseModel, Field

MODES = (
    instructor.Mode.TOOLS,
    instructor.Mode.JSON_SCHEMA,
    instructor.Mode.TOOLS_STRICT,
)


class Report(BaseModel):
    """What a reply is parsed into."""

    sky: Literal["sun", "rain"]
    degrees: int = Field(ge=-30, le=50)


def client(mode: instructor.Mode) -> instructor.Instructor:
    plain = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
    return instructor.from_openai(plain, mode=mode)


def given(kind: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "Hello"}]
    return {"model": MODEL, "messages": messages, "response_model": kind}


@feature
def structured() -> None:
    for mode in MODES:
        made = client(mode).chat.completions.create(**given(Report), max_retries=0)
        assert isinstance(made, Report)


@feature
def structured_streamed() -> None:
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        parts = list(client(mode).chat.completions.create_partial(**given(Report)))
        assert parts[-1].sky in ("sun", "rain")


@feature
def structured_again() -> None:
    seen: list[str] = []

    def wants_another(sky: str) -> str:
        seen.append(sky)
        if len(seen) == 1:
            raise ValueError("say it again")
        return sky

    class Careful(BaseModel):
        sky: Annotated[Literal["sun", "rain"], AfterValidator(wants_another)]

    made = client(instructor.Mode.TOOLS).create(**given(Careful), max_retries=2)
    assert isinstance(made, Careful)
    assert len(seen) == 2


@feature
def responses_parsed() -> None:
    made = client(instructor.Mode.RESPONSES_TOOLS).create(**given(Report))
    assert isinstance(made, Report)


@feature
def error_key() -> None:
    plain = openai.OpenAI(base_url=V1, api_key="wrong", max_retries=0)
    with raises((InstructorRetryException, openai.AuthenticationError), "key"):
        instructor.from_openai(plain).create(**given(Report), max_retries=0)


@feature
def asynchronous() -> None:
    async def ask_all() -> list[Report]:
        async with openai.AsyncOpenAI(base_url=V1, api_key=KEY) as plain:
            its = instructor.from_openai(plain)
            return await asyncio.gather(*(its.create(**given(Report)) for _ in "123"))

    assert all(isinstance(each, Report) for each in asyncio.run(ask_all()))


run_features()
