"""Writes testdata/harmony and testdata/tiny: prompts of the conversations there as
openai-harmony 0.0.8 renders them, and as the training data of ossian-tiny has them.

    TIKTOKEN_ENCODINGS_BASE=DIR_OF_O200K python golden.py

What the library leaves to its caller, which messages a conversation becomes
(harmony.md 7), is written here once more, independently of the Go code."""
import json
import pathlib
import random
import re
import sys

from openai_harmony import (Author, Conversation, DeveloperContent, HarmonyEncodingName, Message, ReasoningEffort, RenderConversationConfig, Role,
                            SystemContent, TextContent, ToolDescription, ToolNamespaceConfig, load_harmony_encoding)

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "testdata"
sys.path.insert(0, str(HERE.parent.parent.parent / "_tools" / "tinymodel"))
import harmony as tiny  # noqa: E402

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
EFFORT = {"": "Medium", "none": "Low", "minimal": "Low", "low": "Low", "medium": "Medium", "high": "High", "xhigh": "High", "max": "High"}
BUILTIN = {"browser": ToolNamespaceConfig.browser, "python": ToolNamespaceConfig.python}


def names(tools):
    """declared name -> identifier"""
    out = {}
    for t in tools:
        name = re.sub(r"[ .-]", "_", t["function"]["name"])
        name = "".join(ch for ch in name if ch.isalnum() or ch in "_$") or "unnamed"
        if name[0].isdigit():
            name = "_" + name
        base, k = name, 2
        while name in out.values():
            name, k = f"{base}_{k}", k + 1
        out[t["function"]["name"]] = name
    return out


def system(c, offered):
    s = SystemContent.new().with_reasoning_effort(getattr(ReasoningEffort, EFFORT[c.get("reasoning_effort", "")].upper()))
    if c.get("date", "2026-11-21"):
        s = s.with_conversation_start_date(c.get("date", "2026-11-21"))
    if "identity" in c:
        s = s.with_model_identity(c["identity"])
    for name in c.get("builtins", []):
        s = s.with_tools(BUILTIN[name]())
    return Message.from_role_and_content(Role.SYSTEM, s)


def text_of(content):
    return content if isinstance(content, str) else "\n".join(p["text"] for p in content or [])


def developer(c, instructions, offered, shown):
    d = DeveloperContent.new()
    sections = instructions is not None or offered
    if instructions is not None:
        d = d.with_instructions(instructions)
    if offered:
        d = d.with_function_tools([ToolDescription.new(shown[f["name"]], f.get("description", ""), parameters=f.get("parameters")) for f in (t["function"] for t in offered)])
    if "response_format" not in c:
        return Message.from_role_and_content(Role.DEVELOPER, d) if sections else None
    # The library has no response formats: its text and the section behind it.
    text = ""
    if sections:
        ids = encoding.render(Message.from_role_and_content(Role.DEVELOPER, d))
        text = encoding.decode(ids[3:-1]) + "\n\n"
    r = c["response_format"]
    lines = "".join(f"// {line}\n" for line in r.get("description", "").splitlines())
    text += f"# Response Formats\n\n## {r['name']}\n\n{lines}{json.dumps(r['schema'], separators=(',', ':'), ensure_ascii=False)}"
    return Message.from_role_and_content(Role.DEVELOPER, TextContent(text=text))


def assistant(m, c, shown, last):
    out = []
    reasoning = m.get("reasoning") or m.get("reasoning_content")
    calls = m.get("tool_calls", [])
    say = lambda channel, text: Message.from_role_and_content(Role.ASSISTANT, text).with_channel(channel)
    if reasoning:
        out.append(say("analysis", reasoning))
    if m["content"]:
        out.append(say("commentary" if calls else "final", text_of(m["content"])))
    for t in calls:
        f = t["function"]
        if f["name"].split(".")[0] in c.get("builtins", []):
            out.append(say("analysis", f["arguments"]).with_recipient(f["name"]).with_content_type("code"))
        else:
            out.append(say("commentary", f["arguments"]).with_recipient("functions." + shown[f["name"]]).with_content_type("json"))
    return out


def messages(c):
    tools = c.get("tools", [])
    offered = [] if c.get("tool_choice") == "none" else tools
    shown, called, out, rest = names(tools), {}, [system(c, offered)], list(c["messages"])
    first = next((m for m in rest if m["role"] in ("system", "developer")), None)
    d = developer(c, text_of(first["content"]) if first else None, offered, shown)
    if d:
        out.append(d)
    if offered and "response_format" in c:
        # The library's line about functions needs a developer content with tools.
        d = Message.from_role_and_content(Role.DEVELOPER, DeveloperContent.new().with_function_tools([ToolDescription.new("f", "")]))
        ids = encoding.render_conversation(Conversation.from_messages([out[0], d]))
        out[0] = Message.from_role_and_content(Role.SYSTEM, TextContent(text=encoding.decode(ids[3:ids.index(200007)])))
    for i, m in enumerate(rest):
        if m is first:
            continue
        if m["role"] in ("system", "developer"):
            out.append(Message.from_role_and_content(Role.DEVELOPER, DeveloperContent.new().with_instructions(m["content"])))
        elif m["role"] == "user":
            parts = [m["content"]] if isinstance(m["content"], str) else [p["text"] for p in m["content"]]
            author = Author(role=Role.USER, name=m.get("name"))
            out.append(Message(author=author, content=[TextContent(text=p) for p in parts]))
        elif m["role"] == "assistant":
            called.update({t["id"]: t["function"]["name"] for t in m.get("tool_calls", [])})
            out += assistant(m, c, shown, i == len(rest) - 1)
        else:
            name = called[m["tool_call_id"]]
            builtin = name.split(".")[0] in c.get("builtins", [])
            author = Author(role=Role.TOOL, name=name if builtin else "functions." + shown[name])
            out.append(Message.from_author_and_content(author, m["content"]).with_recipient("assistant").with_channel("analysis" if builtin else "commentary"))
    return out


def drop(all_, continued):
    """harmony.md 7.1"""
    ends = [i for i, m in enumerate(all_) if m.author.role == Role.ASSISTANT and m.channel == "final" and not (continued and i == len(all_) - 1)
            and (i == len(all_) - 1 or any(n.author.role in (Role.USER, Role.DEVELOPER) for n in all_[i + 1:]))]
    last = ends[-1] if ends else -1
    return [m for i, m in enumerate(all_) if i > last or m.channel != "analysis"]


def prompt(c):
    all_ = messages(c)
    if not c.get("keep_reasoning"):
        all_ = drop(all_, c.get("continue"))
    if c.get("reasoning_effort") == "none":
        all_.append(Message.from_role_and_content(Role.ASSISTANT, "").with_channel("analysis"))
    conversation = Conversation.from_messages(all_)
    config = RenderConversationConfig(auto_drop_analysis=False)
    if c.get("continue") or c.get("no_prompt"):
        ids = encoding.render_conversation(conversation, config)
        return ids[:-1] if c.get("continue") else ids
    return encoding.render_conversation_for_completion(conversation, Role.ASSISTANT, config)


def type_text(schema):
    d = DeveloperContent.new().with_function_tools([ToolDescription.new("f", "", parameters=schema)])
    text = encoding.decode(encoding.render_conversation(Conversation.from_messages([Message.from_role_and_content(Role.DEVELOPER, d)])))
    return text[text.index("type f = (_: ") + len("type f = (_: "):text.rindex(") => any;\n\n} // namespace")]


def some_schema(r, depth=0):
    kinds = ["string"] * 3 + ["number", "integer", "boolean", "null", "array", "any", "list", "oneOf"] + ["object"] * (3 if depth < 3 else 0)
    kind, s = r.choice(kinds), {}
    word = lambda: r.choice(["a", "the b", "", "two\nlines", "\"q\"", "null"])
    if r.random() < 0.3:
        s["description"] = word()
    if kind == "list":
        s["type"] = r.sample(["string", "integer", "null", "object", "array", "boolean", 3], r.randint(0, 3))
    elif kind == "oneOf":
        s["oneOf"] = [some_schema(r, depth + 2) for _ in range(r.randint(0, 3))]
    elif kind != "any":
        s["type"] = kind
    if kind == "array" and r.random() < 0.8:
        s["items"] = some_schema(r, depth + 1)
    if kind == "object":
        s["properties"] = {n: some_schema(r, depth + 1) for n in r.sample(["z", "a", "m_1", "B"], r.randint(0, 4))}
        if r.random() < 0.7:
            s["required"] = r.sample(list(s["properties"]), r.randint(0, len(s["properties"])))
    if r.random() < 0.2:
        s["enum"] = r.choice([["x", "y"], [1, 2.5], [], ["x", 1, None]])
    if r.random() < 0.25:
        s["default"] = r.choice(["x", "", 1, 1.0, -0.5, 1e22, 1e-5, 1e-7, True, None, [], {"b": [1, "é"], "a": {}}, "q\"\n"])
    if r.random() < 0.15:
        s["nullable"] = r.choice([True, False, "yes"])
    if r.random() < 0.1:
        s["title"] = word()
    if r.random() < 0.1:
        s["examples"] = r.choice([[], ["e", 1, "f\"g"], [1]])
    items = list(s.items())
    r.shuffle(items)
    return dict(items)


ANSWERS = [
    "<|channel|>final<|message|>4<|return|>",
    "<|channel|>analysis<|message|>2+2<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>",
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
    "<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary to=functions.f json<|message|>{}<|call|>",
    " to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
    " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
    " to=functions.f<|channel|>commentary<|message|>{}<|call|>",
    " to=functions.f<|channel|>analysis code<|message|>{}<|call|>",
    "<|channel|>commentary functions.f <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary functions.f<|message|>{}<|call|>",
    "<|channel|>analysis to=browser.search code<|message|>{\"query\":\"x\"}<|call|>",
    " to=python<|channel|>analysis code<|message|>print(1)<|call|>",
    "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>",
    "<|channel|>final<|message|>a 😀👩‍👩‍👧 é日本\n\n<|return|>",
    "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|><|return|>",
]


def parsed(answer):
    all_ = encoding.parse_messages_from_completion_tokens(encoding.encode(answer, allowed_special="all"), Role.ASSISTANT)
    return [{"channel": m.channel or "", "recipient": m.recipient or "", "text": "".join(p.text for p in m.content)} for m in all_]


def tiny_prompt(c):
    """The same conversation as the training data of ossian-tiny writes it."""
    tools = []
    for t in c.get("tools", []):
        f = t["function"]
        p = f.get("parameters", {"properties": {}})
        kinds = [(n, " | ".join(f'"{e}"' for e in s["enum"]) if "enum" in s else s["type"], n in p.get("required", []), s.get("description", "")) for n, s in p["properties"].items()]
        tools.append((f["name"], f.get("description", ""), kinds))
    rest = list(c["messages"])
    instructions = rest.pop(0)["content"] if rest[0]["role"] == "system" else ""
    r = c.get("response_format")
    schema = (r["name"], json.dumps(r["schema"], separators=(",", ":"), ensure_ascii=False)) if r else None
    prefix = [tiny.system(c.get("reasoning_effort", "medium"), date=c.get("date", "2026-11-21"), tools=bool(tools))]
    head = tiny.developer(instructions, tools, schema)
    if head:
        prefix.append(head)
    context, called = [], {}
    for m in rest:
        if m["role"] == "user":
            context.append(tiny.Message("user", m["content"]))
        elif m["role"] == "tool":
            context.append(tiny.Message("functions." + called[m["tool_call_id"]], m["content"], "commentary", "assistant"))
        else:
            if m.get("reasoning"):
                context.append(tiny.analysis(m["reasoning"]))
            if m["content"]:
                context.append(tiny.final(m["content"]))
            for t in m.get("tool_calls", []):
                called[t["id"]] = t["function"]["name"]
                context.append(tiny.call(t["function"]["name"], t["function"]["arguments"]))
    branch = tiny.Branch(context, [], "")
    return tiny.prompt_text(tiny.Group(prefix, [branch])) + tiny.branch_text(branch)[0]


def main():
    spaces = [make().model_dump(exclude_none=True) for make in BUILTIN.values()]
    (DATA / "harmony" / "builtins.json").write_text(json.dumps(spaces, ensure_ascii=False, indent=1) + "\n")
    ids = {}
    for name, c in json.loads((DATA / "harmony" / "conversations.json").read_text()).items():
        ids[name] = prompt(c)
        (DATA / "harmony" / f"{name}.prompt").write_text(encoding.decode(ids[name]), newline="")
    (DATA / "harmony" / "ids.json").write_text("{\n" + ",\n".join(f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in ids.items()) + "\n}\n")
    rows = [{"answer": a, "messages": parsed(a)} for a in ANSWERS]
    (DATA / "harmony" / "parsed.json").write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
    for name, c in json.loads((DATA / "tiny" / "conversations.json").read_text()).items():
        (DATA / "tiny" / f"{name}.prompt").write_text(tiny_prompt(c), newline="")
    r = random.Random(1)
    lines = []
    while len(lines) < 400:
        schema = some_schema(r)
        lines.append(json.dumps([schema, type_text(schema)], ensure_ascii=False))
    (DATA / "harmony" / "schemas.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
