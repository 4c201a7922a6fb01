"""Function calls and answers from their results, with tools made up for every
conversation: verb, noun, parameters and descriptions come from word lists."""
import json
import re
from dataclasses import dataclass

import copied
from harmony import Branch, Message, analysis, call, declaration, developer, final
from words import vocabulary

DESCRIPTIONS = {
    "train": ["{V} the {n}.", "{V} a {n}.", "{V} the {n} {f}.", "{V} the {n} {f}.", "{V} {n} {f}.", "Use this to {v} the {n}.", "{F} {v} the {n}.", "{F} {v} {n} {f}.", "{V} the {f} {n} {f}.",
              "This {n} {f}", "{V} {n} {f}. {F} {f}.", "{F} {n}: {f}", "",
              "{V} the {n} for {f}.", "{V} a {n} for {f}.", "{V} the {n} by {f}.", "{V} {n} with {f}."],
    "heldout": ["{V} one {n}.", "Can {v} the {n}.", "{V} the {n} for somebody."],
}
NOTES = {"train": ["The {p}", "{P} of the {n}", "The {p} {f}", "Which {p}", "{P} {f} the {n}", "The {f} {p}", "{P} {f}", "{F} {p} {f} {n}"], "heldout": ["The wanted {p}", "{P} for the {n}"]}
# {v} is the verb, {n} the noun. Forms without {v} are used when no other tool has the noun.
REQUESTS = {
    "train": {
        True: ["{V} the {n}", "{V} a {n}", "Please {v} the {n}", "Can you {v} the {n}", "{v} {n}", "I want to {v} the {n}", "Could you {v} a {n}", "Now {v} the {n}", "I need you to {v} the {n}",
               "Can you {v} my {n}", "I want you to {v} this {n}", "Let us {v} our {n}", "{V} our {n}", "{V} this {n}", "{V} each {n}", "{v} that {n}",
               "Please {v} my {n}", "Just {v} my {n}", "{V} all my {n}", "Let me {v} my {n}"],
        False: ["What is the {n}", "I need the {n}", "Show me the {n}", "Give me the {n}", "Tell me about the {n}", "How is the {n}", "{n}, please", "What about the {n}",
                "I want to know the {n}", "My {n}", "Where is my {n}", "I would take the {n}", "Is there a {n}", "Do you have the {n}", "Let me see the {n}", "I ask about the {n}",
                "We want a {n}", "I wanted our {n}", "I look for the {n}", "I like the {n}", "Please show me the {n}", "Can you give me the {n}", "Please bring us this {n}",
                "{f} the {n}", "{f} our {n}", "{F} the {n}"],
    },
    "heldout": {
        True: ["Would you {v} the {n}", "Please {v} a {n}", "I would like to {v} the {n}", "{V} my {n}"],
        False: ["I want the {n}", "What do you know about the {n}", "Please give me the {n}"],
    },
}
LEADS = {"train": [" with ", ": ", ", ", " where ", " using "], "heldout": [" with ", ": ", ", "]}
FORMS = {
    "train": {"with": ["{p} {x}", "the {p} {x}", "{p} = {x}", "{p}: {x}"], "where": ["the {p} is {x}", "{p} is {x}"]},
    "heldout": {"with": ["{p} {x}", "{p}: {x}"], "where": ["the {p} is {x}"]},
}
SINGLE = [" for {x}", " in {x}", " of {x}", " at {x}", " for {p} {x}", " {x}"]
ERRORS = {"train": ["not found", "access denied", "timeout", "no connection", "invalid {k}", "unknown {k}"], "heldout": ["server busy", "missing {k}", "bad {k}"]}
USUAL = {"train": 0.75, "heldout": 0.9}  # share of names in snake case, and of those that begin with the verb
SUMS = ("subtract", "sum", "total", "calculate", "compute", "solve")  # verbs that sound like arithmetic; the evaluation has add and compare
DECLINE = "I cannot do that with the tools I have."


@dataclass
class Parameter:
    name: str
    kind: str  # string, number, boolean, or the alternatives of an enum joined by a space
    required: bool
    note: str

    @property
    def words(self):
        return self.name.replace("_", " ")

    @property
    def type(self):
        if " " in self.kind:
            return " | ".join(f'"{v}"' for v in self.kind.split())
        return self.kind


@dataclass
class Tool:
    verb: str
    noun: str
    name: str
    description: str
    parameters: list

    def declaration(self):
        return self.name, self.description, [(p.name, p.type, p.required, p.note) for p in self.parameters]


def spell(r, usual, *words):
    """An identifier of the words: weather_alarm, which is usual, or weatherAlarm."""
    words = [w.lower() for w in words]
    if r.random() < usual:
        return "_".join(words)
    return words[0] + "".join(w.capitalize() for w in words[1:])


def style(r, split):
    """(forms of descriptions, forms of notes) of a toolbox. In training three boxes in five
    have few forms, and three in five of those the same words in them every time, one for each
    filler: then what follows a word of a declaration is not known by that word alone. Long
    texts that are the same everywhere are no use: where the place was lost in them is what
    the model found hardest, and little else was learned."""
    if split != "train":
        return DESCRIPTIONS[split], NOTES[split]
    few, same = r.random() < 0.6, r.random() < 0.6
    def some(forms):
        if not few:
            return forms
        forms = [r.choice(forms) for _ in range(r.randint(1, 3))]
        return [copied.filled(r, f, lambda r: r.choice(copied.FILLERS)) for f in forms] if same else forms
    return some(DESCRIPTIONS[split]), some(NOTES[split])


def fill(form, **words):
    """The form with its words, of which {v} is one and {V} the same one capitalised."""
    return re.sub(r"{(\w)}", lambda m: copied.capital(words[m[1].lower()], m[1]), form)


def noun(r, split):
    return copied.pick(r, split, "noun")


def parameters(r, split, n, notes):
    v, out = vocabulary(split), {}
    for k in range(r.choices((0, 1, 2, 3), (1, 5, 5, 2))[0]):
        name = copied.near(r, split, list(out)) or copied.pick(r, split, "param")
        if r.random() < 0.15:
            name = r.choice(("start_", "end_", "new_", "max_")) + name
        kind = r.choices(("string", "number", "boolean", "enum"), (55, 27, 6, 12))[0]
        if kind == "enum":
            kind = " ".join(copied.pseudo(r) for _ in range(r.randint(2, 3))) if split == "train" and r.random() < 0.6 else r.choice(v["enum"])
        note = fill(copied.filled(r, r.choice(notes)), p=name.replace("_", " "), n=n) if r.random() < 0.3 else ""
        out[name] = Parameter(name, kind, k == 0 or r.random() < 0.6, note)
    return list(out.values())


def tool(r, split, forms, verb="", n="", whole=False):
    """whole: the name has the verb."""
    descriptions, notes = forms
    if split == "train" and not verb and r.random() < 0.1:
        verb = r.choice(SUMS)
    verb, n = verb or copied.pick(r, split, "verb"), n or noun(r, split)
    usual = USUAL[split]
    name = n if not whole and r.random() < 0.1 else spell(r, usual, verb, n) if r.random() < usual else spell(r, usual, n, verb)
    return Tool(verb, n, name, fill(copied.filled(r, r.choice(descriptions)), v=verb, n=n), parameters(r, split, n, notes))


def toolbox(r, split):
    """One to four tools with different names; some share the verb or the noun.
    Training also has boxes of up to eight bare names, which ask for nothing but
    the choice."""
    bare = split == "train" and r.random() < 0.08
    forms = style(r, split)
    tools = [tool(r, split, forms)]
    for _ in range(r.randint(2, 7) if bare else r.choices(range(4), (2, 4, 4, 4) if split == "train" else (3, 4, 3, 2))[0]):
        t = r.random()
        other = r.choice(tools)
        new = tool(r, split, forms, verb=other.verb if t < 0.25 else "", n=other.noun if 0.25 <= t < 0.4 else copied.near(r, split, [x.noun for x in tools]))
        if all(new.name != x.name and (new.noun != x.noun or new.verb != x.verb) for x in tools):
            tools.append(new)
    # A tool named by its noun alone cannot be told from others with that noun.
    if any(t.name == t.noun and any(o is not t and o.noun == t.noun for o in tools) for t in tools):
        return toolbox(r, split)
    if bare:
        for t in tools:
            t.description, t.parameters = "", []
    r.shuffle(tools)
    return tools


def grid(r):
    """A box for training in which little tells the functions apart: some of the pairs of
    one to three verbs and one to four nouns, often without parameters."""
    def some(n, kind):
        out = []
        for _ in range(n):
            out.append(copied.near(r, "train", out) or (r.choice(SUMS) if kind == "verb" and r.random() < 0.1 else copied.pick(r, "train", kind)))
        return out
    forms, verbs, nouns = style(r, "train"), some(r.choice((1, 2, 2, 3)), "verb"), some(r.choice((1, 2, 3, 3, 4)), "noun")
    pairs = list(dict.fromkeys((v, n) for v in verbs for n in nouns))
    r.shuffle(pairs)
    tools = [tool(r, "train", forms, v, n, whole=True) for v, n in pairs[:r.randint(2, 5)]]
    if len({t.name for t in tools}) < max(2, len(tools)):
        return grid(r)
    if r.random() < 0.6:
        for t in tools:
            t.parameters = []
    return tools


def value(r, split, kind, others=()):
    """(as the user says it, as JSON holds it); others have been said."""
    if kind == "number":
        x = copied.number(r)
        return x, copied.parse(x)
    if kind == "boolean":
        on = r.random() < 0.5
        return r.choice(("yes", "true", "on") if on else ("no", "false", "off")), on
    if " " in kind:
        x = r.choice(kind.split())
        return x, x
    x = copied.text(r, split, others)
    return (f'"{x}"' if r.random() < 0.15 else x), x


def other_verb(r, split, tools):
    """A verb that no tool has. Where the noun says what is meant, a request may name it
    otherwise: with the tool's own verb each time, the verb of the request was taken for
    the beginning of the name, whatever stood in the declaration."""
    while True:
        verb = copied.pick(r, split, "verb")
        if all(verb != t.verb for t in tools):
            return verb


def verbless(r):
    """Some words of which the last is no verb."""
    return (copied.filler(r) + " " if r.random() < 0.7 else "") + r.choice(copied.FILLERS)


def request(r, split, tools, t):
    """A request for t, the verb that it says, if any, the arguments in the order in which
    it gives them, and whether one is given without its name."""
    unique = all(o is t or o.noun != t.noun for o in tools)
    ask = r.choice(REQUESTS[split][not unique or r.random() < 0.5])
    verb = t.verb
    if split == "train" and unique and r.random() < 0.5:
        verb = other_verb(r, split, tools)
    head = fill(copied.filled(r, ask, verbless), v=verb, n=t.noun)
    given = {}
    for p in t.parameters:
        if p.required or r.random() < 0.5:
            given[p.name] = value(r, split, p.kind, [x for _, x in given.values() if isinstance(x, str)])
    said = [(p, given[p.name][0]) for p in t.parameters if p.name in given]
    r.shuffle(said)
    arguments = {p.name: given[p.name][1] for p, _ in said}
    tail, unnamed = "", False
    if len(said) == 1 and (len(t.parameters) == 1 or said[0][0].required) and said[0][0].kind == "string" and r.random() < 0.5:
        form = r.choice(SINGLE)
        tail, unnamed = form.format(p=said[0][0].words, x=said[0][1]), "{p}" not in form
    elif said:
        lead = r.choice(LEADS[split])
        form = r.choice(FORMS[split]["where" if lead == " where " else "with"])
        tail = lead + r.choice((copied.listing, ", ".join))([form.format(p=p.words, x=x) for p, x in said])
    end = r.choice(("?", "?", "") if head.split()[0] in ("What", "How", "Can", "Could", "Would") else (".", "", ""))
    return copied.dress(r, split, head + tail + end), verb if "{v}" in ask.lower() else "", arguments, unnamed


def plain(v):
    return ("yes" if v else "no") if isinstance(v, bool) else str(v)


def quote(t, verb, unnamed):
    """The verb of the request, if it has one, and the declaration from the word of the
    description that the request is about on to the name: the name of a tool begins before
    the word by which it is found, and so a copy that only goes forward gets there. With
    the first parameter if only the declaration has its name."""
    told = re.search(rf"\b{t.noun}\b", t.description)
    text = f"{verb} {t.noun}".strip() + (t.description[told.end():] + f"\ntype {t.name}" if told else f": {t.name}")
    if unnamed:
        first = t.parameters[0]
        text += " = (_: {\n" + (f"// {first.note}\n" if first.note else "") + first.name
    return text


def choice_working(quotation, arguments, effort):
    """The quotation, then the arguments as the call will have them: the call is a
    copy."""
    if effort == "low":
        return quotation
    if effort == "medium":
        return f"{quotation}\n{copied.compact(arguments)}"
    return f"The request is about {quotation}\nIt gets {copied.compact(arguments)}, as the user said."


def family(r):
    """Keys for training, of which one begins or ends all of the others."""
    key = lambda: copied.pick(r, "train", "key")
    base = key()
    keys = list(dict.fromkeys([base] + [r.choice((f"{key()}_{base}", f"{key()}_{base}", f"{base}_{key()}")) for _ in range(r.randint(1, 3))]))
    r.shuffle(keys)
    return keys


def result(r, split):
    """(text from the tool, working, answer)"""
    kind = r.random()
    key = lambda: copied.pick(r, split, "key")
    if kind < 0.12:
        message = r.choice(ERRORS[split]).format(k=key())
        text = copied.compact({"error": message})
        return text, "error = " + message, f"The tool reported an error: {message}."
    if kind < 0.24:
        x = r.choice((copied.number(r), copied.text(r, split), f"{copied.integer(r)} {copied.word(r, split)}"))
        return x, x, f"The result is {x}."
    if kind < 0.36:
        items = copied.texts(r, split, r.randint(1, 4))
        text = json.dumps(items) if r.random() < 0.5 else copied.compact(items)
        return text, "; ".join(items), f"The results are {copied.listing(items)}." if len(items) > 1 else f"The result is {items[0]}."
    data, keys = {}, family(r) if split == "train" and r.random() < 0.3 else []
    for i in range(len(keys) or r.choices((1, 2, 3), (4, 4, 2))[0]):
        if keys:
            k = keys[i]
        else:
            k = key() if r.random() < 0.8 else "_".join(dict.fromkeys((key(), key())))
            if split == "train" and data and r.random() < 0.25:
                other = r.choice(r.choice(list(data)).split("_"))
                k = copied.near(r, split, list(data)) or r.choice((other, f"{other}_{key()}", f"{key()}_{other}"))
        texts = [x for x in data.values() if isinstance(x, str)]
        data[k] = copied.parse(copied.number(r)) if r.random() < 0.5 else r.random() < 0.5 if r.random() < 0.1 else copied.text(r, split, texts)
    text = json.dumps(data) if r.random() < 0.5 else copied.compact(data)
    pairs = [(k.replace("_", " "), plain(v)) for k, v in data.items()]
    said = copied.listing([f"the {k} is {v}" for k, v in pairs])
    return text, "; ".join(f"{k} = {v}" for k, v in pairs), said[0].upper() + said[1:] + "."


def call_branch(r, split, effort, tools):
    t = r.choice(tools)
    question, verb, arguments, unnamed = request(r, split, tools, t)
    text = choice_working(quote(t, verb, unnamed), arguments, effort)
    return Branch([Message("user", question)], [analysis(text), call(t.name, copied.compact(arguments))], "tools", f"{len(tools)} tools")


def answer_branch(r, split, effort, tools):
    """The call was made, its result is there. Clients may have dropped the reasoning."""
    asked = call_branch(r, split, effort, tools)
    name = asked.target[-1].to
    text, working, said = result(r, split)
    working = {"low": "Result.", "medium": f"Result: {working}.", "high": f"{name.removeprefix('functions.')} answered. Result: {working}. Tell the user."}[effort]
    reply = Message(name, text, "commentary", "assistant")
    made = asked.target if r.random() < 0.7 else asked.target[1:]
    return Branch(asked.context + made + [reply], [analysis(working), final(said)], "results", "error" if '"error":' in text else "", r.random() < 0.5)


def decline_branch(r, split, effort, tools):
    """A request that fits none of the tools."""
    while True:
        other = tool(r, split, style(r, split))
        if all(other.noun != t.noun for t in tools):
            break
    question, verb, _, _ = request(r, split, [other], other)
    asked = f"{verb} {other.noun}".strip()
    working = {"low": f"{asked}: no tool.", "medium": f"{asked}: no tool.", "high": f"The request is about {asked}: no tool. I say so."}[effort]
    return Branch([Message("user", question)], [analysis(working), final(DECLINE)], "declined", "")


def developer_message(tools, instructions=""):
    return developer(instructions, [t.declaration() for t in tools])
