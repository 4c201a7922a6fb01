"""Answers in a JSON shape that the request or the response format asks for."""
import copied
from harmony import Branch, Message, analysis, developer, final

ASK = {
    "train": ["Give me JSON with the keys {keys}.", "Answer in JSON with {keys}.", "Return a JSON object with the keys {keys}.", "Extract {keys} as JSON.",
              "I need JSON with the fields {keys}.", "Write JSON with {keys}.", "Turn this into JSON with the keys {keys}.",
              "Take the fields {keys} and write JSON.", "Put the fields {keys} into a JSON object.", "A JSON object with {keys}, please.", "{F} JSON {f} {keys}.", "As a JSON object: {keys}."],
    "heldout": ["Please answer as JSON with the keys {keys}.", "Make a JSON object with {keys}.", "Extract the fields {keys} as JSON."],
}
ASK_SHAPE = {"train": ["Answer in the form {shape}.", "Return JSON like {shape}.", "Use this shape: {shape}.", "JSON: {shape}.", "{F} {shape}.", "{F} JSON {f} {shape}"],
             "heldout": ["Reply with JSON like {shape}.", "The shape is {shape}."]}
PLAIN = {"train": ["", "Extract the data. ", "Here is the text. ", "Fill in the fields. "], "heldout": ["", "Take the data from this. "]}
FACTS = {"train": ["The {k} is {x}.", "{k}: {x}.", "{k} is {x}.", "The {k} was {x}.", "{k} = {x}.", "{F} {k} is {x}.", "{F} {k} is {x}.", "{F} {k}: {x}."], "heldout": ["The {k} is {x}.", "{k}: {x}.", "Its {k} is {x}."]}


def field(r, split, kind=None, others=()):
    """(type, as the text says it, JSON value); others have been said."""
    kind = kind or r.choices(("string", "number", "boolean", "array"), (50, 30, 8, 12))[0]
    if kind == "number":
        x = copied.number(r)
        return kind, x, copied.parse(x)
    if kind == "boolean":
        on = r.random() < 0.5
        return kind, "yes" if on else "no", on
    if kind == "array":
        items = copied.texts(r, split, r.randint(2, 3))
        return kind, copied.listing(items), items
    x = copied.text(r, split, others)
    return kind, x, x


def said(values):
    """The texts of fields."""
    return [told for kind, told, _ in values.values() if kind == "string"]


def fields(r, split):
    out = {}
    for _ in range(r.choices((1, 2, 3, 4), (1, 4, 4, 2))[0]):
        key = copied.near(r, split, list(out)) or copied.pick(r, split, "key", "param")
        out[key] = field(r, split, others=said(out))
    return out


def schema(keys, wanted):
    properties = {k: {"type": wanted[k][0]} for k in keys}
    for k in keys:
        if wanted[k][0] == "array":
            properties[k] = {"type": "array", "items": {"type": "string"}}
    return copied.compact({"type": "object", "properties": properties, "required": list(keys)})


def working(keys, wanted, effort):
    """A line for every key: the value as the text has it and then as JSON has it. So its
    type, which the first token of the JSON value shows, is decided when the whole value
    has been seen, and the answer is a copy. No word stands here that a key may begin with:
    after "The keys are" was known by heart, keyword became "keys are"."""
    lines = "\n".join(f"{k}: {wanted[k][1]} => {copied.compact({k: wanted[k][2]})[1:-1]}" for k in keys)
    if effort == "low":
        return lines
    if effort == "medium":
        return "".join(f"- {k}\n" for k in keys) + lines
    return "I look for\n" + "".join(f"- {k}\n" for k in keys) + f"and the text has\n{lines}"


def facts(r, split, wanted):
    form, keys = r.choice(FACTS[split]), list(wanted)
    r.shuffle(keys)
    if "{F}" in form:  # any word before the key: one form for all of them
        form = form.replace("{F}", r.choice((r.choice(copied.FILLERS), copied.pseudo(r))).capitalize())
    return " ".join(form.format(k=k, x=wanted[k][1]) for k in keys)


def choose(r, wanted):
    """Keys to answer with, in the order of the answer; perhaps not all that are told."""
    keys = list(wanted)
    if len(keys) > 1 and r.random() < 0.25:
        keys.pop()
    r.shuffle(keys)
    return keys


def branch(r, split, effort):
    """The request names the keys, perhaps with their types."""
    wanted = fields(r, split)
    keys = choose(r, wanted)
    if r.random() < 0.4:
        ask = copied.filled(r, r.choice(ASK_SHAPE[split])).format(shape="{" + ", ".join(f'"{k}": {"string[]" if wanted[k][0] == "array" else wanted[k][0]}' for k in keys) + "}")
    else:
        ask = copied.filled(r, r.choice(ASK[split])).format(keys=copied.listing(keys))
    ask, told = copied.dress(r, split, ask), facts(r, split, wanted)
    question = " ".join((ask, told) if r.random() < 0.6 else (told, ask))
    data = {k: wanted[k][2] for k in keys}
    return Branch([Message("user", question)], [analysis(working(keys, wanted, effort)), final(copied.compact(data))], "json", "in the request")


def with_format(r, split, effort, size):
    """(schema, branches): the response format names keys and types."""
    wanted = fields(r, split)
    keys = choose(r, wanted)
    branches = []
    for _ in range(size):
        values = {}
        for k in wanted:
            values[k] = field(r, split, wanted[k][0], said(values))
        data = {k: values[k][2] for k in keys}
        question = r.choice(PLAIN[split]) + facts(r, split, values)
        branches.append(Branch([Message("user", question)], [analysis(working(keys, values, effort)), final(copied.compact(data), "<|constrain|>json")], "json", "response format"))
    return schema(keys, wanted), branches


def developer_message(r, text, instructions=""):
    return developer(instructions, schema=(copied.pseudo(r, 2), text))
