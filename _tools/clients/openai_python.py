"""Runs openai-python, as published, against a live server; prints one line per check.

usage: openai_python.py URL KEYED_URL KEY
URL is a server of ossian-tiny without a key, KEYED_URL one that wants KEY.
"""

import asyncio
import json
import math
import re
import sys
import time
import traceback
import typing
import urllib.request

import openai
import pydantic

url, keyed_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
chat, text = client.chat.completions, client.completions


def ask(question, **more):
    return {"model": "ossian-tiny", "temperature": 0, "messages": [{"role": "user", "content": question}], **more}


HELLO, SUM, WEATHER = ask("Hello!"), ask("12+30"), ask("What is the weather in Paris?")
PROMPT = {"model": "ossian-tiny", "prompt": "Hello", "temperature": 0, "max_tokens": 8}
WEATHER["tools"] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def reasoning(message):
    return (message.model_extra or {}).get("reasoning")


def fails(kind, call, status, param, code):
    """The exception of call has this class and these fields."""
    try:
        call()
    except kind as e:
        got = type(e), e.status_code, e.param, e.code, e.type
        assert got == (kind, status, param, code, "invalid_request_error"), got
        assert e.message and e.request_id, (e.message, e.request_id)
        return
    raise AssertionError(f"no {kind.__name__}")


def models():
    card = client.models.retrieve("ossian-tiny")
    assert (card.id, card.object, card.owned_by) == ("ossian-tiny", "model", "ossian"), card
    assert card in client.models.list().data


def chat_():
    r = chat.create(**SUM)
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-") and r.model == "ossian-tiny", r
    assert abs(r.created - time.time()) < 60 and r._request_id and r.system_fingerprint, r
    (choice,) = r.choices
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop", None), choice
    m = choice.message
    assert (m.role, m.content, m.refusal, m.tool_calls) == ("assistant", "42", None, None), m
    assert reasoning(m), m
    assert chat.create(**ask("4821+3977")).choices[0].message.content == "8798"
    short = chat.create(**SUM, max_completion_tokens=3)
    assert (short.choices[0].finish_reason, short.usage.completion_tokens) == ("length", 3), short


def stream():
    want = chat.create(**HELLO).choices[0].message
    chunks = list(chat.create(**HELLO, stream=True))
    assert len({(c.id, c.created, c.model, c.object) for c in chunks}) == 1, chunks
    assert all(len(c.choices) == 1 and c.usage is None for c in chunks), chunks
    deltas = [c.choices[0].delta for c in chunks]
    assert [d.role for d in deltas if d.role] == ["assistant"] and deltas[0].role, deltas
    assert "".join(d.content or "" for d in deltas) == want.content
    assert "".join(reasoning(d) or "" for d in deltas) == reasoning(want)
    assert sum(bool(d.content) for d in deltas) > 1, "all content in one chunk"
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["stop"]


def accumulator():
    want = chat.create(**HELLO).choices[0]
    with chat.stream(**HELLO) as s:
        events = list(s)
        got = s.get_final_completion().choices[0]
    assert (got.finish_reason, got.message.role) == ("stop", "assistant"), got
    assert got.message.content == want.message.content and reasoning(got.message) == reasoning(want.message), got
    assert "".join(e.delta for e in events if e.type == "content.delta") == want.message.content
    assert [e.content for e in events if e.type == "content.done"] == [want.message.content]
    try:
        chat.parse(**HELLO, max_tokens=3)
    except openai.LengthFinishReasonError as e:
        assert e.completion.usage.completion_tokens == 3
    else:
        raise AssertionError("no LengthFinishReasonError")


def usage():
    want = chat.create(**SUM).usage
    assert want.prompt_tokens > 0 and want.completion_tokens > 0, want
    assert want.total_tokens == want.prompt_tokens + want.completion_tokens, want
    assert 0 < want.completion_tokens_details.reasoning_tokens < want.completion_tokens, want
    assert 0 <= want.prompt_tokens_details.cached_tokens < want.prompt_tokens, want
    *chunks, last = chat.create(**SUM, stream=True, stream_options={"include_usage": True})
    assert all(c.usage is None and c.choices for c in chunks) and last.choices == [], last
    got = last.usage
    assert (got.prompt_tokens, got.completion_tokens, got.total_tokens) == (want.prompt_tokens, want.completion_tokens, want.total_tokens), got
    assert got.completion_tokens_details == want.completion_tokens_details, got


def called(choice):
    """The one call that the model is to make."""
    assert choice.finish_reason == "tool_calls" and not choice.message.content, choice
    (call,) = choice.message.tool_calls
    assert call.type == "function" and call.id.startswith("call_") and call.function.name == "get_weather", call
    assert json.loads(call.function.arguments) == {"city": "Paris"}, call
    return call


def replied(message, call):
    """The request that brings the result of call."""
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature":18}'}
    return {**WEATHER, "messages": [*WEATHER["messages"], message, result]}


def tools():
    choice = chat.create(**WEATHER).choices[0]
    assert choice.message.content is None, choice
    answer = chat.create(**replied(choice.message, called(choice))).choices[0]
    assert answer.finish_reason == "stop" and answer.message.tool_calls is None, answer
    assert "18" in answer.message.content, answer
    none = chat.create(**WEATHER, tool_choice="none").choices[0]
    assert none.finish_reason == "stop" and none.message.tool_calls is None, none


def tools_stream():
    want = chat.create(**WEATHER).choices[0].message.tool_calls[0].function
    deltas = [d for c in chat.create(**WEATHER, stream=True) for d in c.choices[0].delta.tool_calls or []]
    assert all(d.index == 0 for d in deltas), deltas
    assert [(d.id is None, d.type, d.function.name) for d in deltas] == [(False, "function", "get_weather")] + [(True, None, None)] * (len(deltas) - 1), deltas
    assert "".join(d.function.arguments for d in deltas) == want.arguments, deltas
    with chat.stream(**WEATHER) as s:
        done = [e for e in s if e.type == "tool_calls.function.arguments.done"]
        choice = s.get_final_completion().choices[0]
    assert [(e.name, e.index, e.arguments) for e in done] == [("get_weather", 0, want.arguments)], done
    with chat.stream(**replied(choice.message, called(choice))) as s:
        assert "18" in s.get_final_completion().choices[0].message.content


Short = typing.Annotated[str, pydantic.Field(max_length=20)]


class Person(pydantic.BaseModel):
    name: Short
    age: typing.Annotated[int, pydantic.Field(ge=0, le=150)]
    pets: typing.Annotated[list[typing.Literal["cat", "dog"]], pydantic.Field(max_length=3)]


class GetTime(pydantic.BaseModel):
    """Get the time in a city."""

    city: Short
    zone: typing.Literal["UTC", "local"]


def structured():
    """What is said may be silly, but it is of the form."""
    asked = ask("name: Ada. age: 36. pets: cat and dog.")
    want = chat.parse(**asked, response_format=Person).choices[0]
    assert want.finish_reason == "stop" and isinstance(want.message.parsed, Person) and reasoning(want.message), want
    with chat.stream(**asked, response_format=Person) as s:
        got = s.get_final_completion().choices[0]
    assert (got.finish_reason, got.message.parsed, got.message.content) == ("stop", want.message.parsed, want.message.content), got
    for form, holds in [
        ({"guided_choice": ["left", "right"]}, ["left", "right"].__contains__),
        ({"structured_outputs": {"regex": "[a-c]{3}-[0-9]{2}"}}, re.compile("[a-c]{3}-[0-9]{2}").fullmatch),
        ({"guided_grammar": 'root ::= "a" [0-9]{2,4} "z"'}, re.compile("a[0-9]{2,4}z").fullmatch),
        ({"guided_json": Person.model_json_schema()}, Person.model_validate_json),
    ]:
        for seed in range(3):
            c = chat.create(**{**asked, "temperature": 1}, seed=seed, extra_body=form).choices[0]
            assert c.finish_reason == "stop" and holds(c.message.content), (form, c)
        t = text.create(**{**PROMPT, "max_tokens": 200}, extra_body=form).choices[0]
        assert t.finish_reason == "stop" and holds(t.text), (form, t)
    cut = chat.create(**asked, response_format={"type": "json_object"}, max_tokens=4).choices[0]
    assert cut.finish_reason == "length", cut
    bad = {"type": "json_schema", "json_schema": {"name": "bad", "schema": {"properties": {"x": {"contains": {}}}}}}
    fails(openai.BadRequestError, lambda: chat.create(**asked, response_format=bad), 400, "response_format.json_schema.schema", "unsupported_schema")


def required():
    """Whatever the model would say, it calls, with arguments of the tool's schema."""
    tool = openai.pydantic_function_tool(GetTime)
    for question in ("Hello!", "12+30", "What is the weather in Paris?"):
        asked = {**ask(question), "tools": [tool]}
        want = chat.parse(**asked, tool_choice="required").choices[0]
        (call,) = want.message.tool_calls
        assert want.finish_reason == "tool_calls" and isinstance(call.function.parsed_arguments, GetTime), want
        with chat.stream(**asked, tool_choice="required") as s:
            got = s.get_final_completion().choices[0]
        assert [(c.function.name, c.function.arguments) for c in got.message.tool_calls] == [(call.function.name, call.function.arguments)], got
        named = {"type": "function", "function": {"name": "GetTime"}}
        one = chat.parse(**asked, tool_choice=named).choices[0]
        assert one.finish_reason == "stop" and isinstance(one.message.tool_calls[0].function.parsed_arguments, GetTime), one
        allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
        one = chat.parse(**asked, tool_choice=allowed, parallel_tool_calls=False).choices[0]
        assert one.finish_reason == "tool_calls" and one.message.tool_calls[0].function.name == "GetTime", one


def custom():
    """The text of a custom tool follows its grammar, in both APIs; what is streamed is what is not."""
    form, name = r"[A-Z][a-z]{2,9}, [1-9] days?", "get.weather"
    lark = 'start: CITY ", " /[1-9]/ " day" "s"?\nCITY: /[A-Z][a-z]{2,9}/'
    for grammar in {"syntax": "regex", "definition": form}, {"syntax": "lark", "definition": lark}:
        about = {"name": name, "description": "Get the weather in a city."}
        tool = {"type": "custom", "custom": {**about, "format": {"type": "grammar", "grammar": grammar}}}
        asked = {**WEATHER, "tools": [tool], "tool_choice": {"type": "custom", "custom": {"name": name}}}
        reply = chat.create(**asked)
        want = reply.choices[0]
        (call,) = want.message.tool_calls
        assert call.type == "custom" and call.custom.name == name and re.fullmatch(form, call.custom.input), want
        deltas = [d.to_dict() for c in chat.create(**asked, stream=True) for d in c.choices[0].delta.tool_calls or []]
        assert deltas[0]["type"] == "custom" and deltas[0]["custom"]["name"] == name, deltas
        assert "".join(d["custom"]["input"] for d in deltas) == call.custom.input, deltas
        result = {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 18 degrees."}
        back = chat.create(**{**WEATHER, "tools": [tool], "messages": [*WEATHER["messages"], want.message, result], "max_tokens": 4})
        assert back.usage.prompt_tokens > reply.usage.prompt_tokens + 10, back  # ossian-tiny was not taught what to say
        flat = {"type": "custom", **about, "format": {"type": "grammar", **grammar}}
        asked = {**R_WEATHER, "tools": [flat], "tool_choice": {"type": "custom", "name": name}}
        r = client.responses.create(**asked)
        call = r.output[-1]
        assert call.type == "custom_tool_call" and call.name == name and re.fullmatch(form, call.input), r
        with client.responses.stream(**asked) as s:
            said = "".join(e.delta for e in s if e.type == "response.custom_tool_call_input.delta")
            assert s.get_final_response().output[-1].input == said == call.input, said
    bad = {**flat, "format": {"type": "grammar", "syntax": "lark", "definition": "start: a"}}
    fails(openai.BadRequestError, lambda: client.responses.create(**{**asked, "tools": [bad]}), 400, "tools[0].format.definition", "invalid_value")


def stop():
    whole = chat.create(**HELLO).choices[0].message.content
    mark = whole[len(whole) // 2 :][:3]
    want = whole[: whole.index(mark)], "stop", mark
    got = chat.create(**HELLO, stop=[mark, "no such words"]).choices[0]
    assert (got.message.content, got.finish_reason, got.model_extra["stop_reason"]) == want, got
    chunks = [c.choices[0] for c in chat.create(**HELLO, stop=mark, stream=True)]
    got = "".join(c.delta.content or "" for c in chunks), chunks[-1].finish_reason, chunks[-1].model_extra["stop_reason"]
    assert got == want, got


def logprobs():
    asked = {**HELLO, "logprobs": True, "top_logprobs": 3}
    want = chat.create(**asked).choices[0]
    entries = want.logprobs.content
    assert b"".join(bytes(e.bytes) for e in entries).decode() == want.message.content, entries
    for e in entries:
        top = [t.logprob for t in e.top_logprobs]
        assert len(top) == 3 and top == sorted(top, reverse=True) and top[0] <= 0, e
        assert (e.token, e.logprob) == (e.top_logprobs[0].token, top[0]), e
    with chat.stream(**asked) as s:
        got = s.get_final_completion().choices[0].logprobs.content
    assert [e.token for e in got] == [e.token for e in entries], got
    assert all(math.isclose(g.logprob, e.logprob, abs_tol=1e-3) for g, e in zip(got, entries)), got


def n():
    asked = {**HELLO, "n": 2, "temperature": 1, "seed": 7}
    want = chat.create(**asked).choices
    assert [c.index for c in want] == [0, 1] and all(c.finish_reason for c in want), want
    with chat.stream(**asked) as s:
        got = s.get_final_completion().choices
    assert [(c.index, c.message.content, c.finish_reason) for c in got] == [(c.index, c.message.content, c.finish_reason) for c in want], got


def seed():
    def sample(seed):
        r = text.create(**{**PROMPT, "temperature": 1, "max_tokens": 32}, seed=seed)
        return r.choices[0].text, r.system_fingerprint

    assert len({sample(1) for _ in range(4)}) == 1
    assert len({sample(seed) for seed in range(4)}) > 1


def bad_request():
    for change, param, code in [
        ({"temperature": 5}, "temperature", "invalid_value"),
        ({"temperature": "warm"}, "temperature", "invalid_type"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{"role": "user", "content": "x " * 9000}]}, "messages", "context_length_exceeded"),
        ({"top_logprobs": 3}, "top_logprobs", "invalid_value"),
    ]:
        for streams in (False, True):
            fails(openai.BadRequestError, lambda: chat.create(**{**HELLO, **change}, stream=streams), 400, param, code)


def not_found():
    absent = {**HELLO, "model": "nope"}
    fails(openai.NotFoundError, lambda: chat.create(**absent), 404, "model", "model_not_found")
    fails(openai.NotFoundError, lambda: chat.create(**absent, stream=True), 404, "model", "model_not_found")
    fails(openai.NotFoundError, lambda: client.models.retrieve("nope"), 404, "model", "model_not_found")
    fails(openai.NotFoundError, lambda: client.embeddings.create(model="ossian-tiny", input="x"), 404, None, "not_found")


def authentication():
    stranger = client.with_options(base_url=keyed_url + "/v1", api_key="wrong")
    fails(openai.AuthenticationError, stranger.models.list, 401, None, "invalid_api_key")
    fails(openai.AuthenticationError, lambda: stranger.chat.completions.create(**HELLO), 401, None, "invalid_api_key")
    friend = stranger.with_options(api_key=key)
    assert friend.chat.completions.create(**HELLO).choices[0].message.content


def load():
    return json.load(urllib.request.urlopen(url + "/load"))["server_load"]


def aborted():
    """How many requests the server saw given up."""
    lines = urllib.request.urlopen(url + "/metrics").read().decode().splitlines()
    return sum(float(l.split()[-1]) for l in lines if l.startswith("vllm:request_success_total") and '"abort"' in l)


def abort():
    before = aborted()
    endless = {**HELLO, "n": 8, "max_tokens": 3000}
    with chat.create(**endless, stream=True, extra_body={"ignore_eos": True}) as s:
        for _ in range(3):
            next(s)
        assert load() == 1
    deadline = time.monotonic() + 5
    while load() > 0 or aborted() == before:
        assert time.monotonic() < deadline, "the server goes on"
        time.sleep(0.01)


def parallel():
    asked = [HELLO, SUM, WEATHER] * 4

    async def all_at_once():
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as c:
            return await asyncio.gather(*(c.chat.completions.create(**a) for a in asked))

    for a, r in zip(asked, asyncio.run(all_at_once())):
        m = r.choices[0].message
        if a is WEATHER:
            called(r.choices[0])
        else:
            assert m.content == chat.create(**a).choices[0].message.content, m


def completions():
    r = text.create(**PROMPT, logprobs=2)
    assert r.object == "text_completion" and r.id.startswith("cmpl-"), r
    (choice,) = r.choices
    assert choice.finish_reason == "length" and r.usage.completion_tokens == 8, r
    lp = choice.logprobs
    assert "".join(lp.tokens) == choice.text and lp.text_offset[0] == 0, lp
    assert len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) == 8, lp
    assert all(len(t) == 2 for t in lp.top_logprobs), lp
    chunks = list(text.create(**PROMPT, stream=True))
    assert "".join(c.choices[0].text for c in chunks) == choice.text, chunks
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["length"], chunks
    both = text.create(**{**PROMPT, "prompt": ["Hello", "12+"]}, n=2, echo=True).choices
    assert [c.index for c in both] == [0, 1, 2, 3], both
    assert both[0].text == "Hello" + choice.text and both[3].text.startswith("12+"), both


def prompt_logprobs():
    """As evaluations ask: what the model makes of a given text."""
    asked = {**PROMPT, "prompt": "Hello! How are you today?", "echo": True}
    r = text.create(**{**asked, "max_tokens": 0}, logprobs=1, extra_body={"prompt_logprobs": 1})
    (choice,) = r.choices
    lp, table = choice.logprobs, choice.model_extra["prompt_logprobs"]
    n = r.usage.prompt_tokens
    assert choice.text == asked["prompt"] == "".join(lp.tokens) and choice.finish_reason == "length" and r.usage.completion_tokens == 0, r
    assert len(lp.tokens) == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) == len(table) == n > 3, r
    assert lp.token_logprobs[0] is lp.top_logprobs[0] is table[0] is None, r
    assert [choice.text[at:].startswith(t) for at, t in zip(lp.text_offset, lp.tokens)] == [True] * n, lp
    for token, logprob, top, row in list(zip(lp.tokens, lp.token_logprobs, lp.top_logprobs, table))[1:]:
        own = next(iter(row.values()))
        assert own["decoded_token"] == token and own["logprob"] == logprob == top[token] <= max(top.values()) <= 0, (token, top, row)
        assert (own["rank"] == 1) == (logprob == max(top.values())) and len(top) == len(row) <= 2, (token, top, row)
    # lm-evaluation-harness leaves out the one token that it has to ask for.
    more = text.create(**{**asked, "max_tokens": 1}, logprobs=1).choices[0].logprobs
    assert more.token_logprobs[:-1] == lp.token_logprobs and more.tokens[:-1] == lp.tokens, more
    chunks = [c.choices[0] for c in text.create(**{**asked, "max_tokens": 1}, logprobs=1, stream=True)]
    assert [p for c in chunks if c.logprobs for p in c.logprobs.token_logprobs] == more.token_logprobs, chunks
    assert chunks[0].logprobs.tokens[:n] == lp.tokens, chunks
    m = chat.create(**HELLO, extra_body={"prompt_logprobs": 0})
    assert len(m.model_extra["prompt_logprobs"]) == m.usage.prompt_tokens and m.usage.prompt_tokens_details.cached_tokens == 0, m
    fails(openai.BadRequestError, lambda: chat.create(**HELLO, stream=True, extra_body={"prompt_logprobs": 0}), 400, "prompt_logprobs", "invalid_value")


def respond(question, **more):
    return {"model": "ossian-tiny", "temperature": 0, "input": question, **more}


R_WEATHER = respond("What is the weather in Paris?", tools=[{"type": "function", "strict": False, **WEATHER["tools"][0]["function"]}])


def reasoned(r):
    """The text of the response's reasoning."""
    return "".join(part.text for item in r.output if item.type == "reasoning" for part in item.content)


def r_called(r):
    """The one call that the model is to make."""
    (call,) = [item for item in r.output if item.type == "function_call"]
    assert (r.status, r.output_text, call.status, call.name) == ("completed", "", "completed", "get_weather"), r
    assert call.call_id.startswith("call_") and json.loads(call.arguments) == {"city": "Paris"}, call
    return {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature":18}'}


def polled(r):
    for _ in range(6000):
        if r.status not in ("queued", "in_progress"):
            return r
        time.sleep(0.01)
        r = client.responses.retrieve(r.id)
    raise AssertionError("the response does not end")


def responses():
    r = client.responses.create(**respond("12+30", metadata={"a": "b"}))
    assert (r.status, r.output_text, r.object, r.error, r.metadata) == ("completed", "42", "response", None, {"a": "b"}), r
    message = chat.create(**SUM).choices[0].message
    assert (r.output_text, reasoned(r)) == (message.content, reasoning(message)), r
    u = r.usage
    assert u.total_tokens == u.input_tokens + u.output_tokens and 0 < u.output_tokens_details.reasoning_tokens < u.output_tokens, u
    assert client.responses.retrieve(r.id).to_dict() == r.to_dict()
    (item,) = client.responses.input_items.list(r.id).data
    assert (item.type, item.role, item.content[0].text) == ("message", "user", "12+30"), item
    short = client.responses.create(**respond("12+30", max_output_tokens=3))
    assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens"), short
    more = client.responses.create(**respond("Hello!", previous_response_id=r.id))
    assert more.usage.input_tokens_details.cached_tokens > 0 and more.output_text, more
    assert client.responses.input_tokens.count(model="ossian-tiny", input="12+30").input_tokens == u.input_tokens
    client.responses.delete(r.id)
    fails(openai.NotFoundError, lambda: client.responses.retrieve(r.id), 404, "response_id", "response_not_found")
    fails(openai.BadRequestError, lambda: client.responses.create(**respond("x", max_output_tokens=0)), 400, "max_output_tokens", "invalid_value")


def same_output(a, b):
    def plain(v):
        if isinstance(v, list):
            return [plain(x) for x in v]
        return {k: plain(x) for k, x in v.items() if k not in ("id", "call_id", "parsed", "parsed_arguments")} if isinstance(v, dict) else v

    assert plain(a.to_dict(warnings=False)["output"]) == plain(b.to_dict(warnings=False)["output"]), (a, b)


def responses_stream():
    for asked in respond("Hello!"), R_WEATHER:
        want = client.responses.create(**asked)
        events = list(client.responses.create(**asked, stream=True))
        assert [e.sequence_number for e in events] == list(range(len(events))), events
        assert (events[0].type, events[-1].type) == ("response.created", "response.completed"), events
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == want.output_text
        assert "".join(e.delta for e in events if e.type == "response.reasoning_text.delta") == reasoned(want)
        assert [e.item for e in events if e.type == "response.output_item.done"] == events[-1].response.output
        same_output(events[-1].response, want)
        with client.responses.stream(**asked) as s:
            kinds = [e.type for e in s]
            got = s.get_final_response()
        assert kinds[-1] == "response.completed" and len(kinds) == len(events), kinds
        same_output(got, want)
        kept = list(client.responses.retrieve(events[0].response.id, stream=True))
        assert kept[-1].response.to_dict() == events[-1].response.to_dict()


def responses_tools():
    r = client.responses.create(**R_WEATHER)
    result = r_called(r)
    chained = client.responses.create(**{**R_WEATHER, "input": [result]}, previous_response_id=r.id)
    assert chained.status == "completed" and "18" in chained.output_text, chained
    sent = [{"role": "user", "content": R_WEATHER["input"]}, *[item.to_dict() for item in r.output], result]
    again = client.responses.create(**{**R_WEATHER, "input": sent}, store=False)
    assert "18" in again.output_text, again
    none = client.responses.create(**R_WEATHER, tool_choice="none")
    assert none.output_text and all(item.type != "function_call" for item in none.output), none


def responses_structured():
    asked = respond("name: Ada. age: 36. pets: cat and dog.")
    want = client.responses.parse(**asked, text_format=Person)
    assert want.status == "completed" and isinstance(want.output_parsed, Person) and reasoned(want), want
    assert (want.text.format.type, want.text.format.name, want.text.format.strict) == ("json_schema", "Person", True), want
    with client.responses.stream(**asked, text_format=Person) as s:
        said = "".join(e.delta for e in s if e.type == "response.output_text.delta")
        got = s.get_final_response()
    assert (got.output_parsed, said) == (want.output_parsed, want.output_text), got
    same_output(got, want)
    bad = {"format": {"type": "json_schema", "name": "bad", "schema": {"properties": {"x": {"contains": {}}}}}}
    for more in {}, {"stream": True}, {"background": True}:
        fails(openai.BadRequestError, lambda: client.responses.create(**asked, **more, text=bad), 400, "text.format.schema", "unsupported_schema")


def responses_required():
    tool = openai.pydantic_function_tool(GetTime)
    for question in ("Hello!", "12+30", "What is the weather in Paris?"):
        asked = respond(question, tools=[tool], tool_choice="required")
        want = client.responses.parse(**asked)
        call = want.output[-1]
        assert want.status == "completed" and call.type == "function_call" and isinstance(call.parsed_arguments, GetTime), want
        with client.responses.stream(**asked) as s:
            same_output(s.get_final_response(), want)


def responses_background():
    for asked in respond("Hello!"), R_WEATHER:
        r = client.responses.create(**asked, background=True)
        assert r.status == "queued" and r.background, r
        r = polled(r)
        same_output(r, client.responses.create(**asked))
        events = list(client.responses.retrieve(r.id, stream=True))
        assert [e.type for e in events[:3]] == ["response.created", "response.queued", "response.in_progress"], events
        rest = list(client.responses.retrieve(r.id, stream=True, starting_after=4))
        assert rest == events[5:] and rest[-1].response.to_dict() == r.to_dict(), rest
        assert client.responses.cancel(r.id).status == "completed"
        live = list(client.responses.create(**asked, background=True, stream=True))
        assert [e.sequence_number for e in live] == list(range(len(live))), live
        same_output(live[-1].response, r)
    r = client.responses.create(**respond("Hello!", background=True, extra_body={"ignore_eos": True, "max_output_tokens": 100_000}))
    assert client.responses.cancel(r.id).status == "cancelled"
    assert polled(r).status == "cancelled"


CHECKS = [models, chat_, stream, accumulator, usage, tools, tools_stream, structured, required, custom, stop, logprobs, n, seed, bad_request, not_found, authentication, abort, parallel, completions, prompt_logprobs,
          responses, responses_stream, responses_tools, responses_structured, responses_required, responses_background]


def main():
    failed = 0
    for check in CHECKS:
        result = "pass"
        try:
            check()
        except Exception:
            result = "fail"
            failed += 1
            traceback.print_exc(limit=3, chain=False)
        print("openai-python", openai.__version__, check.__name__.strip("_"), result, flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
