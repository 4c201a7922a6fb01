"""Runs anthropic-python, as published, against a live server; prints one line per check.

usage: anthropic_python.py URL KEYED_URL KEY
URL is a server of ossian-tiny without a key, KEYED_URL one that wants KEY.
"""

import json
import sys
import traceback

import anthropic

url, keyed_url, key = sys.argv[1:]
client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)
messages = client.messages
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def ask(question, **more):
    return {"model": "ossian-tiny", "max_tokens": 400, "extra_body": {"temperature": 0}, "messages": [{"role": "user", "content": question}], **more}


WEATHER = ask("What is the weather in Paris?")
WEATHER["tools"] = [
    {
        "name": "get_weather",
        "description": "Get the weather in a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]


def plain(message):
    """The content without the ids of calls, which differ between two replies."""
    return [{k: v for k, v in b.to_dict().items() if k != "id" and v is not None} for b in message.content]


def fails(kind, call, status, type_, words):
    """The exception of call has this class, status and type."""
    try:
        call()
    except kind as e:
        assert (type(e), e.status_code, e.body["error"]["type"]) == (kind, status, type_), (type(e), e.status_code, e.body)
        assert words in e.body["error"]["message"] and e.request_id, (e.body, e.request_id)
        return
    raise AssertionError(f"no {kind.__name__}")


def models():
    assert [m.id for m in client.models.list()] == ["ossian-tiny"]
    assert client.models.retrieve("ossian-tiny").type == "model"


def create():
    m = messages.create(**ask("12+30"))
    assert (m.type, m.role, m.model, m.stop_reason, m.stop_sequence) == ("message", "assistant", "ossian-tiny", "end_turn", None), m
    assert plain(m) == [{"type": "text", "text": "42"}] and m.id.startswith("msg_") and m._request_id, m
    short = messages.create(**{**ask("12+30"), "max_tokens": 3})
    assert (short.stop_reason, short.usage.output_tokens) == ("max_tokens", 3), short
    stopped = messages.create(**ask("Hello!", stop_sequences=["!"]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "!") and "!" not in stopped.content[0].text, stopped


def thinking():
    m = messages.create(**ask("12+30", **THINK))
    assert [b.type for b in m.content] == ["thinking", "text"] and m.content[0].thinking and m.content[1].text == "42", m
    again = ask("12+30", **THINK)
    again["messages"] += [{"role": "assistant", "content": m.content}, {"role": "user", "content": "1+1"}]
    assert messages.create(**again).content[-1].text == "2"


def stream():
    for request in ask("Hello!", **THINK), {**WEATHER, **THINK}:
        want = messages.create(**request)
        with messages.stream(**request) as s:
            events = list(s)
            got = s.get_final_message()
        assert plain(got) == plain(want) and got.stop_reason == want.stop_reason, (got, want)
        assert got.usage.output_tokens == want.usage.output_tokens, (got.usage, want.usage)
        text = "".join(e.text for e in events if e.type == "text")
        assert text == "".join(b.text for b in want.content if b.type == "text"), text
        assert len([e for e in events if e.type == "thinking"]) > 1, "all thinking at once"


def tools():
    first = messages.create(**WEATHER)
    (call,) = [b for b in first.content if b.type == "tool_use"]
    assert first.stop_reason == "tool_use" and call.id.startswith("toolu_"), first
    assert (call.name, call.input) == ("get_weather", {"city": "Paris"}), call
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": '{"temperature":18}'}]}
    history = [*WEATHER["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    answer = messages.create(**{**WEATHER, "messages": history})
    assert answer.stop_reason == "end_turn" and "18" in answer.content[0].text, answer


def tools_stream():
    with messages.stream(**WEATHER) as s:
        events = list(s)
        (call,) = [b for b in s.get_final_message().content if b.type == "tool_use"]
    assert call.input == {"city": "Paris"}, call
    assert json.loads("".join(e.partial_json for e in events if e.type == "input_json")) == {"city": "Paris"}


def tool_runner():
    cities = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the weather in a city.

        Args:
            city: The city.
        """
        cities.append(city)
        return '{"temperature":18}'

    request = {k: v for k, v in WEATHER.items() if k != "tools"}
    last = client.beta.messages.tool_runner(**request, tools=[get_weather]).until_done()
    assert cities == ["Paris"] and "18" in last.content[-1].text, (cities, last)


def choices():
    (tool,) = WEATHER["tools"]
    schema = {**tool["input_schema"], "properties": {"city": {"type": "string", "maxLength": 20}}}  # the small model would go on
    for choice in {"type": "any"}, {"type": "tool", "name": "get_weather"}:
        m = messages.create(**{**WEATHER, "tools": [{**tool, "input_schema": schema}], "tool_choice": choice, "messages": [{"role": "user", "content": "Hello!"}]})
        assert m.stop_reason == "tool_use" and isinstance(m.content[-1].input["city"], str), m
    m = messages.create(**{**WEATHER, "tool_choice": {"type": "none"}})
    assert all(b.type == "text" for b in m.content), m


def structured():
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}}, "required": ["name", "age"], "additionalProperties": False}
    m = messages.create(**ask("name: Ada. age: 36.", output_config={"format": {"type": "json_schema", "schema": schema}}))
    assert set(json.loads(m.content[0].text)) == {"name", "age"}, m


def counts():
    request = {k: v for k, v in WEATHER.items() if k not in ("max_tokens", "extra_body")}
    counted = messages.count_tokens(**request).input_tokens
    used = messages.create(**WEATHER).usage
    assert counted == used.input_tokens + used.cache_read_input_tokens, (counted, used)


def errors():
    fails(anthropic.NotFoundError, lambda: messages.create(**{**ask("x"), "model": "claude-x"}), 404, "not_found_error", "--served-model-name")
    fails(anthropic.BadRequestError, lambda: messages.create(**{**ask("x"), "extra_body": {"temperature": 9}}), 400, "invalid_request_error", "temperature")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    fails(anthropic.BadRequestError, lambda: messages.create(**ask([image])), 400, "invalid_request_error", "reads text only")
    stranger = anthropic.Anthropic(base_url=keyed_url, api_key="wrong", max_retries=0)
    fails(anthropic.AuthenticationError, lambda: stranger.messages.create(**ask("x")), 401, "authentication_error", "key")
    known = anthropic.Anthropic(base_url=keyed_url, api_key=key, max_retries=0)
    assert known.messages.create(**ask("1+1")).content[0].text == "2"


for check in models, create, thinking, stream, tools, tools_stream, tool_runner, choices, structured, counts, errors:
    result = "pass"
    try:
        check()
    except Exception:
        result = "fail"
        traceback.print_exc()
    print("anthropic-python", anthropic.__version__, check.__name__, result, flush=True)
    if result == "fail":
        status = 1
sys.exit(globals().get("status", 0))
