"""Conversations as harmony messages, and their text: what a prompt looks like to
the model and what the model has to produce."""
from dataclasses import dataclass

IDENTITY = "You are ossian-tiny, a small language model made for Ossian."
CHATGPT = "You are ChatGPT, a large language model trained by OpenAI."
CONTROLS = [  # order and reserved places are those of o200k_harmony from id 199998 on
    "<|startoftext|>", "<|endoftext|>", "<|reserved_2|>", "<|reserved_3|>", "<|return|>", "<|constrain|>", "<|reserved_6|>",
    "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|reserved_11|>", "<|reserved_12|>", "<|reserved_13|>", "<|call|>",
    "<|reserved_15|>", "<|reserved_16|>", "<|reserved_17|>", "<|reserved_18|>", "<|reserved_19|>", "<|endofprompt|>",
]


@dataclass(frozen=True)
class Message:
    role: str  # system, developer, user, assistant, or the name of the tool that answers
    text: str
    channel: str = ""
    to: str = ""
    content_type: str = ""  # json, or <|constrain|>json
    end: str = "<|end|>"


@dataclass
class Branch:
    """What follows a prefix: messages that are given and the turn to produce."""
    context: list
    target: list
    ability: str
    detail: str = ""  # a finer class, for the report
    kept: bool = False  # the call in the context stands as it was sampled: servers keep recorded ids


@dataclass
class Group:
    """Conversations with the same system and developer messages."""
    prefix: list
    branches: list


def analysis(text):
    return Message("assistant", text, "analysis")


def final(text, content_type=""):
    return Message("assistant", text, "final", content_type=content_type, end="<|return|>")


def call(name, arguments):
    return Message("assistant", arguments, "commentary", "functions." + name, "<|constrain|>json", "<|call|>")


def render(m, sampled=False):
    """The text of a message. A call that the model samples names its recipient
    after the channel; in a prompt it stands before, with the plain content type
    (harmony.md 2). A prompt never contains <|return|>."""
    head, kind, end = m.role, m.content_type, m.end
    if sampled:
        head += "<|channel|>" + m.channel + (" to=" + m.to if m.to else "") + (" " + kind if kind else "")
        return "<|start|>" + head + "<|message|>" + m.text + end
    if m.to:
        head += " to=" + m.to
    if m.channel:
        head += "<|channel|>" + m.channel
    if kind:
        head += " " + kind.removeprefix("<|constrain|>") if m.to else " " + kind
    return "<|start|>" + head + "<|message|>" + m.text + ("<|end|>" if end == "<|return|>" else end)


def system(effort, identity=IDENTITY, date="2026-01-01", tools=False):
    text = identity + "\nKnowledge cutoff: 2024-06\n"
    if date:
        text += "Current date: " + date + "\n"
    text += "\nReasoning: " + effort + "\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."
    if tools:
        text += "\nCalls to these tools must go to the commentary channel: 'functions'."
    return Message("system", text)


def declaration(name, description, parameters):
    lines = ["// " + description] if description else []
    if not parameters:
        return "\n".join([*lines, f"type {name} = () => any;\n"])
    lines.append(f"type {name} = (_: {{")
    for parameter, kind, required, note in parameters:
        if note:
            lines.append("// " + note)
        lines.append(f"{parameter}{'' if required else '?'}: {kind},")
    return "\n".join([*lines, "}) => any;\n"])


def developer(instructions="", tools=(), schema=None):
    """The developer message, or None when it would be empty. A tool is (name,
    description, [(parameter, type text, required, description)]); schema is
    (name, compact JSON)."""
    parts = []
    if instructions:
        parts.append("# Instructions\n\n" + instructions)
    if tools:
        lines = ["# Tools\n\n## functions\n\nnamespace functions {\n"]
        lines.extend(declaration(*t) for t in tools)
        lines.append("} // namespace functions")
        parts.append("\n".join(lines))
    if schema:
        parts.append(f"# Response Formats\n\n## {schema[0]}\n\n{schema[1]}")
    return Message("developer", "\n\n".join(parts)) if parts else None


def prompt_text(group):
    return "".join(render(m) for m in group.prefix)


def branch_text(b):
    """(given, produced): the text after the prefix up to the point where the
    model takes over, and what it has to say from there on."""
    given = "".join(render(m, m.channel == "analysis" or b.kept and m.end == "<|call|>") for m in b.context) + "<|start|>assistant"
    produced = "".join(render(m, sampled=True) for m in b.target)
    return given, produced.removeprefix("<|start|>assistant")
