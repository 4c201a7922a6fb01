"""Runs the OpenAI Agents SDK for Python, as published, against a live server; prints one line per check.

usage: agents_python.py URL
URL is a server of ossian-tiny without a key. Nothing else is contacted: tracing is off.
"""

import asyncio
import importlib.metadata
import json
import sys
import traceback
import typing

import agents
import openai
import pydantic

agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
MODELS = {"responses": agents.OpenAIResponsesModel("ossian-tiny", client), "chat": agents.OpenAIChatCompletionsModel("ossian-tiny", client)}
QUESTION = "What is the weather in Paris?"
STEPS = ["reasoning_item", "tool_call_item", "tool_call_output_item", "reasoning_item", "message_output_item"]


class Person(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=20)]
    age: typing.Annotated[int, pydantic.Field(ge=0, le=150)]
    pets: typing.Annotated[list[typing.Literal["cat", "dog"]], pydantic.Field(max_length=3)]


class Weather:
    """An agent that asks for the weather, and the cities for which it did."""

    def __init__(self, api, **settings):
        self.cities = []
        self.agent = agents.Agent(name="weather", model=MODELS[api], model_settings=agents.ModelSettings(temperature=0, **settings), tools=[agents.function_tool(self.get_weather)])

    def get_weather(self, city: str) -> str:
        """Get the weather in a city."""
        self.cities.append(city)
        return '{"temperature":18}'


def done(w, result):
    """The agent called its tool once and made an answer of what it gave."""
    assert w.cities == ["Paris"] and "18" in result.final_output, (w.cities, result.final_output)
    assert [item.type for item in result.new_items] == STEPS, result.new_items
    call, output = result.new_items[1].raw_item, result.new_items[2].raw_item
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"}), call
    assert call.call_id == output["call_id"], (call, output)
    assert result.context_wrapper.usage.requests == 2 and not result.interruptions, result


async def tools(api):
    # What is not stored is sent back as chat sends it; stored output goes on with the ids
    # that were sampled, as previous_response_id does.
    unstored = lambda api: Weather(api, store=False) if api == "responses" else Weather(api)
    w = unstored(api)
    result = await agents.Runner.run(w.agent, QUESTION, max_turns=2)
    done(w, result)
    # Both ways say the same to the model, with the reasoning behind the call.
    usage = result.context_wrapper.usage
    other = await agents.Runner.run(unstored("chat" if api == "responses" else "responses").agent, QUESTION)
    theirs = other.context_wrapper.usage
    assert (usage.input_tokens, usage.output_tokens) == (theirs.input_tokens, theirs.output_tokens), (usage, theirs)
    assert usage.output_tokens_details.reasoning_tokens > 0 and usage.input_tokens_details.cached_tokens > 0, usage


async def tools_stream(api):
    w = Weather(api)
    result = agents.Runner.run_streamed(w.agent, QUESTION, max_turns=2)
    events = [e async for e in result.stream_events()]
    done(w, result)
    raw = [e.data for e in events if e.type == "raw_response_event"]
    assert "".join(e.delta for e in raw if e.type == "response.output_text.delta") == result.final_output, raw
    assert "".join(e.delta for e in raw if e.type == "response.function_call_arguments.delta") == result.new_items[1].raw_item.arguments, raw
    assert sum(e.type == "response.completed" for e in raw) == 2, raw
    names = [e.name for e in events if e.type == "run_item_stream_event"]
    assert names == ["reasoning_item_created", "tool_called", "tool_output", "reasoning_item_created", "message_output_created"], names


async def required(api):
    """The first turn is made to call; the SDK takes that back, so that the second may answer."""
    w = Weather(api, tool_choice="required", parallel_tool_calls=False)
    result = await agents.Runner.run(w.agent, "What is the weather in Rome?", max_turns=2)
    assert len(w.cities) == 1 and result.final_output, (w.cities, result)


async def structured(api):
    agent = agents.Agent(name="reader", model=MODELS[api], model_settings=agents.ModelSettings(temperature=0), output_type=Person)
    result = await agents.Runner.run(agent, "name: Ada. age: 36. pets: cat and dog.")
    assert isinstance(result.final_output, Person), result
    streamed = agents.Runner.run_streamed(agent, "name: Ada. age: 36. pets: cat and dog.")
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == result.final_output, (streamed.final_output, result.final_output)


async def session(api):
    """A second run goes on from the items of the first, all of them sent back."""
    w, memory = Weather(api), agents.SQLiteSession("one")
    done(w, await agents.Runner.run(w.agent, QUESTION, session=memory))
    again = await agents.Runner.run(w.agent, "Hello!", session=memory)
    assert again.final_output and len(await memory.get_items()) > len(STEPS) + 1, again
    assert again.context_wrapper.usage.input_tokens_details.cached_tokens > 0, again


async def chained(api):
    """The server has the items; only what is new is sent."""
    w = Weather(api)
    result = await agents.Runner.run(w.agent, QUESTION, auto_previous_response_id=True)
    done(w, result)
    again = await agents.Runner.run(w.agent, "Hello!", previous_response_id=result.last_response_id)
    assert again.final_output and again.context_wrapper.usage.input_tokens_details.cached_tokens > 0, again


CHECKS = [("responses", c) for c in (tools, tools_stream, required, structured, session, chained)]
CHECKS += [("chat", c) for c in (tools, tools_stream, required, structured, session)]


async def main():
    failed = 0
    for api, check in CHECKS:
        result = "pass"
        try:
            await check(api)
        except Exception:
            result = "fail"
            failed += 1
            traceback.print_exc(limit=-3, chain=False)
        print("openai-agents-python", importlib.metadata.version("openai-agents"), f"{api}_{check.__name__}", result, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
