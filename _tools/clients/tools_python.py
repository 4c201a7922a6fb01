"""Runs openai-python, and where it is installed the Agents SDK, as published, against a server that runs tools; prints
one line per check.

usage: tools_python.py URL
URL is that of scripted/ with tools.txt and its site: a browser, Python, and a server of MCP that is called weather.
"""

import asyncio
import importlib.metadata
import importlib.util
import sys
import time
import traceback
import warnings

import openai

warnings.filterwarnings("ignore", message="Pydantic serializer warnings")  # an error of a call is an object, of which the types know a string

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
HARP, SUM, WEATHER = "Of what is the frame of a harp?", "What is six times seven?", "What is the weather?"
SEARCH, CODE = {"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}
MCP = {"type": "mcp", "server_label": "weather", "require_approval": "never"}
INCLUDE = ["web_search_call.action.sources", "code_interpreter_call.outputs"]
MARK, PAGE = "【1†L6】", "https://corpus.local/harp.html"


def plain(response):
    """The output without what differs between two answers to one request."""
    items = [item.to_dict() for item in response.output]
    for item in items:
        item.pop("id", None), item.pop("container_id", None), item.pop("parsed", None)
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return items


def every_form(question, tool, check):
    """The response whole, streamed, by the client's helper, and in the background; check gets each."""
    asked = {"model": "scripted", "input": question, "tools": [tool], "include": INCLUDE}
    whole = client.responses.create(**asked)
    check(whole)
    events = list(client.responses.create(**asked, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events))), events
    last = events[-1]
    assert last.type == "response.completed" and [e.item for e in events if e.type == "response.output_item.done"] == last.response.output, last
    with client.responses.stream(**asked) as stream:
        kinds = [e.type for e in stream]
        helped = stream.get_final_response()
    later = client.responses.create(**asked, background=True)
    assert later.status == "queued", later
    while later.status in ("queued", "in_progress"):
        time.sleep(0.01)
        later = client.responses.retrieve(later.id)
    replayed = list(client.responses.retrieve(later.id, stream=True))
    assert replayed[-1].response.to_dict() == later.to_dict(), later
    for other in last.response, helped, later:
        check(other)
        assert plain(other) == plain(whole), (other, whole)
    return kinds


def cited(text, notes):
    """The one citation selects its mark in the text."""
    assert len(notes) == 1, notes
    note = notes[0] if isinstance(notes[0], dict) else notes[0].to_dict()
    note = note.get("url_citation", note)
    assert text[note["start_index"] : note["end_index"]] == MARK and note["url"] == PAGE and note["title"], (text, note)


def responses_search():
    def check(r):
        assert [i.type for i in r.output] == ["reasoning", *["web_search_call"] * 3, "message"], r.output
        search, opened, found = r.output[1:4]
        assert search.action.query == "harp frame" and [s.url for s in search.action.sources][0] == PAGE, search
        assert (opened.action.type, opened.action.url, found.action.pattern) == ("open_page", PAGE, "willow"), (opened, found)
        cited(r.output_text, r.output[-1].content[0].annotations)

    kinds = every_form(HARP, SEARCH, check)
    for kind in "in_progress", "searching", "completed":
        assert kinds.count(f"response.web_search_call.{kind}") == 3, kinds


def responses_code():
    def check(r):
        first, second = [i for i in r.output if i.type == "code_interpreter_call"]
        assert (first.code, second.code, second.outputs[0].logs, r.output_text) == ("x = 6*7", "print(x)", "42\n", "It is 42."), r.output
        assert first.container_id == second.container_id, r.output

    kinds = every_form(SUM, CODE, check)
    assert kinds.count("response.code_interpreter_call_code.done") == 2, kinds


def responses_mcp():
    def check(r):
        listed, failed, now = [i for i in r.output if i.type.startswith("mcp_")]
        assert [t.name for t in listed.tools] == ["later", "now"] and not listed.error, listed
        assert (failed.name, failed.status, failed.output) == ("later", "failed", None) and "no such day" in str(failed.error), failed
        assert (now.server_label, now.name, now.arguments, now.output) == ("weather", "now", '{"city":"Paris"}', "rain"), now
        assert r.output_text == "Now: rain", r.output

    kinds = every_form(WEATHER, MCP, check)
    assert kinds.index("response.mcp_list_tools.completed") < kinds.index("response.mcp_call.failed") < kinds.index("response.mcp_call.completed"), kinds


def responses_chained():
    """A second response goes on with the variables of the first, by its id and by its items."""
    first = client.responses.create(model="scripted", input=SUM, tools=[CODE], include=INCLUDE)
    asked = {"model": "scripted", "tools": [CODE], "include": INCLUDE}
    by_id = client.responses.create(**asked, previous_response_id=first.id, input=SUM)
    by_items = client.responses.create(**asked, input=[{"role": "user", "content": SUM}, *first.to_dict()["output"], {"role": "user", "content": SUM}])
    assert by_id.usage.input_tokens == by_items.usage.input_tokens > first.usage.input_tokens, (by_id.usage, by_items.usage)
    assert by_id.output_text == by_items.output_text == first.output_text, (by_id, by_items)


def responses_approval():
    asked = {"model": "scripted", "tools": [{**MCP, "require_approval": "always"}]}
    for approve, want in (True, "failed"), (False, "failed"):
        r = client.responses.create(**asked, input=WEATHER)
        request = r.output[-1]
        assert request.type == "mcp_approval_request" and (request.name, request.arguments) == ("later", '{"day":"never"}'), r.output
        r = client.responses.create(**asked, previous_response_id=r.id, input=[{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}])
        call = r.output[0]
        assert call.type == "mcp_call" and call.status == want and call.approval_request_id == request.id, r.output
        assert ("declined" in str(call.error)) != approve and r.output[-1].type == "mcp_approval_request", r.output


def chat(question, more, check):
    asked = {"model": "scripted", "messages": [{"role": "user", "content": question}], **more}
    whole = client.chat.completions.create(**asked)
    message = whole.choices[0].message
    assert whole.choices[0].finish_reason == "stop" and not message.tool_calls, whole
    check(message.content, message.annotations)
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    deltas = [c.choices[0].delta for c in chunks if c.choices]
    assert not any(d.tool_calls for d in deltas) and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, chunks
    check("".join(d.content or "" for d in deltas), (deltas[-1].model_extra or {}).get("annotations"))
    with client.chat.completions.stream(**asked) as stream:
        final = [e for e in stream][-1] and stream.get_final_completion()
    assert final.choices[0].message.content == message.content, final


def chat_search():
    for more in {"tools": [SEARCH]}, {"web_search_options": {}}:
        chat(HARP, more, cited)


def chat_code():
    chat(SUM, {"tools": [CODE]}, lambda text, notes: same(text, "It is 42."))


def chat_mcp():
    chat(WEATHER, {"tools": [MCP]}, lambda text, notes: same(text, "Now: rain"))


def same(got, want):
    assert got == want, (got, want)


CHECKS = [responses_search, responses_code, responses_mcp, responses_chained, responses_approval, chat_search, chat_code, chat_mcp]


def of_agents():
    """The checks of the Agents SDK."""
    import agents

    agents.set_tracing_disabled(True)
    model = agents.OpenAIResponsesModel("scripted", openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0))
    agent = lambda *tools: agents.Agent(name="reader", model=model, tools=list(tools))

    async def run(question, *tools):
        """An answer, streamed the same, and a second turn with all its items sent back."""
        result = await agents.Runner.run(agent(*tools), question)
        streamed = agents.Runner.run_streamed(agent(*tools), question)
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == result.final_output, (streamed.final_output, result.final_output)
        again = await agents.Runner.run(agent(*tools), [*result.to_input_list(), {"role": "user", "content": question}])
        assert again.final_output == result.final_output, again
        return result, [getattr(i.raw_item, "type", "") for i in result.new_items]

    async def search():
        result, kinds = await run(HARP, agents.WebSearchTool())
        assert MARK in result.final_output and kinds.count("web_search_call") == 3, (result.final_output, kinds)

    async def code():
        result, kinds = await run(SUM, agents.CodeInterpreterTool(tool_config=CODE))
        assert result.final_output == "It is 42." and kinds.count("code_interpreter_call") == 2, (result.final_output, kinds)

    async def mcp():
        result, kinds = await run(WEATHER, agents.HostedMCPTool(tool_config=MCP))
        assert result.final_output == "Now: rain" and kinds.count("mcp_call") == 2 and "mcp_list_tools" in kinds, (result.final_output, kinds)

    async def approval():
        asked = []

        def decide(request):
            asked.append(request.data.name)
            return {"approve": True}

        result = await agents.Runner.run(agent(agents.HostedMCPTool(tool_config={**MCP, "require_approval": "always"}, on_approval_request=decide)), WEATHER)
        assert (result.final_output, asked) == ("Now: rain", ["later", "now"]), (result.final_output, asked)

    return [search, code, mcp, approval]


def main():
    failed = 0

    def report(of, name, check):
        nonlocal failed
        result = "pass"
        try:
            check()
        except Exception:
            result = "fail"
            failed += 1
            traceback.print_exc(limit=-3, chain=False)
        print(of, importlib.metadata.version(of.removesuffix("-python")), "tools_" + name, result, flush=True)

    for check in CHECKS:
        report("openai-python", check.__name__, check)
    if importlib.util.find_spec("agents"):
        with asyncio.Runner() as runner:
            for check in of_agents():
                report("openai-agents-python", check.__name__, lambda: runner.run(check()))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
