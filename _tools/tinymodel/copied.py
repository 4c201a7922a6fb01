"""Values that a model has to copy: names, words, numbers, codes."""
import json
import re

from words import FUNCTION_WORDS, TRAIN, vocabulary

FILLERS = sorted(FUNCTION_WORDS) + ["in", "by", "with", "and", "at", "one", "users", "people", "all", "data", "system"]

ONSETS = "b c d f g h j k l m n p r s t v w z br cr dr fl gr kl pl pr sh sl st th tr".split()
NUCLEI = "a e i o u ai ea ee ia oo ou".split()
CODAS = ["", "", "", "n", "r", "s", "l", "m", "t", "k", "x", "nd", "rt", "sk"]
MAILS = {"train": ["mail.org", "post.net", "web.com"], "heldout": ["letters.info", "office.eu"]}
ENDINGS = {"train": ["go", "txt", "csv", "md", "json", "py"], "heldout": ["yaml", "log", "html"]}


def _chunks():
    """Pieces of two to six letters of the training words."""
    words = {p for list_ in TRAIN.values() for w in list_ for p in w.lower().replace("_", " ").split()}
    return sorted({w[i:i + n] for w in words if w.isalpha() for n in range(2, 7) for i in range(len(w) - n + 1)})


# Of words that mean nothing. Training puts the tokens of lower-case letters here: a
# token that is rarely copied is badly copied, wherever an unseen word has it.
PIECES = _chunks()


def pseudo(r, syllables=0):
    """A word that means nothing, so that copying does not depend on knowing it:
    syllables, or pieces of other words, which break every habit of spelling."""
    n = syllables or r.choice((1, 2, 2, 3))
    if r.random() < 0.5:
        return "".join(r.choice(PIECES) for _ in range(n))
    return "".join(r.choice(ONSETS) + r.choice(NUCLEI) + (r.choice(CODAS) if i == n - 1 else "") for i in range(n))


def pick(r, split, *kinds):
    """A word of the vocabulary, or one that means nothing. Most of those in
    training mean nothing: with words that come back it would learn to spell them
    by heart and not to copy."""
    if r.random() < (0.6 if split == "train" else 0.12):
        return pseudo(r, 2)
    return r.choice([w for k in kinds for w in vocabulary(split)[k]])


def near(r, split, others):
    """Now and then a word that begins or ends as one of others does, so that half a
    word is not enough to tell them apart; else nothing."""
    if split != "train" or not others or r.random() >= 0.25:
        return ""
    other = r.choice(others).rpartition("_")[2]
    n = r.randint(min(3, len(other)), max(3, len(other) - 1))
    new = r.choice(("", "", other[0])) + pseudo(r, 1) + other[-n:] if r.random() < 0.7 else other[:n] + pseudo(r, 1)
    return "" if new in others else new


def integer(r, digits=4):
    return str(r.randrange(10 ** r.randint(1, digits)))


def number(r):
    kind = r.random()
    if kind < 0.75:
        return integer(r)
    if kind < 0.9:
        return f"{integer(r, 2)}.{r.randint(1, 9)}"
    return "-" + str(r.randint(1, 99))


def filler(r, most=4):
    """Some words in the middle of a sentence, so that one that is quoted is copied and
    not known by heart."""
    return " ".join(twice(r, r.choice(FILLERS) if r.random() < 0.6 else pseudo(r)) for _ in range(r.randint(1, most)))


def twice(r, word):
    """The word, now and then two times: one that has followed itself must not do so for ever."""
    return f"{word} {word}" if r.random() < 0.03 else word


def capital(text, key):
    """The text, capitalised if its key is a capital letter."""
    return text[0].upper() + text[1:] if key.isupper() else text


def filled(r, form, words=filler):
    """The form with words for {f} and, capitalised, for {F}."""
    return re.sub("{([fF])}", lambda m: capital(words(r), m[1]), form)


def word(r, split):
    """One lower-case word."""
    return pseudo(r) if r.random() < (0.6 if split == "train" else 0.35) else r.choice(vocabulary(split)["word"])


def name(r, split):
    """A capitalised word or two."""
    v = vocabulary(split)
    def one():
        if r.random() < (0.6 if split == "train" else 0.35):
            return pseudo(r).capitalize()
        return r.choice(v[r.choice(("name", "city"))])
    return one() if r.random() < 0.75 else one() + " " + one()


def ending(r, split):
    """Of a file. Most in training mean nothing, or else a full stop before any other
    would be taken for the end of a sentence."""
    return r.choice(ENDINGS[split]) if split != "train" or r.random() < 0.3 else pseudo(r, 1)[:4]


def code(r, split):
    """Something with digits or marks in it; training has more kinds."""
    kind = r.choice((0, 1, 2, 3, 3, 4, 5, 6)) if split == "train" else r.randrange(5)
    if kind == 0:
        return f"20{r.randint(20, 39)}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
    if kind == 1:
        return f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}"
    if kind == 2:
        return f"{pseudo(r)}@{r.choice(MAILS[split]) if split != 'train' or r.random() < 0.3 else pseudo(r) + '.' + ending(r, split)}"
    if kind == 3:
        return f"{word(r, split)}.{ending(r, split)}"
    if kind == 5:
        return "-".join(pseudo(r) for _ in range(2))
    if kind == 6:
        return "/".join(word(r, split) for _ in range(r.randint(2, 3)))
    return r.choice("ABCDEFGHKLMNPRSTUVWXZ") + r.choice("ABCDEFGHKLMNPRSTUVWXZ") + integer(r)


def text(r, split, others=()):
    """A value. In training it now and then shares a word with one of others: where a word
    stands in two places, what followed it in one of them may not be right."""
    names, words = (0.35, 0.7) if split == "train" else (0.4, 0.8)
    kind = r.random()
    x = name(r, split) if kind < names else word(r, split) if kind < words else code(r, split)
    if split == "train" and others and r.random() < 0.2:
        shared = r.choice(r.choice(others).split() or [x])
        x = r.choice((shared, f"{shared} {x}", f"{x} {shared}", f"{x} {shared} {word(r, split)}"))
    return twice(r, x) if split == "train" else x


def texts(r, split, n):
    """n values; see text."""
    out = []
    for _ in range(n):
        out.append(text(r, split, out))
    return out


OPENERS = ["Please", "Can you", "Could you", "Hi,", "Hello!", "Now", "OK,", "So", "And", "Then", "Hey,", "One question:", "Tell me:", "Next:", "Good.", "I ask you:", "Again:", "Well,", "Just", "Sorry,"]
CLOSERS = [" Thanks!", " Thank you.", " Please.", " Be quick."]
LOOSE_CLOSERS = [" please", ", please.", " now", " for me", " today", "!", " ?"]


def dress(r, split, text, loose=False):
    """Training puts any words around a request, so that unseen ones do not matter.
    Held-out requests stay as they are: their forms have words of their own. loose:
    the end of the text is nothing that is copied, so words may follow it at once."""
    if split != "train" or r.random() < 0.5:
        return text
    if r.random() < 0.65:
        opener = r.choice(OPENERS) if r.random() < 0.6 else " ".join(pseudo(r) for _ in range(r.randint(1, 2))).capitalize() + r.choice((",", ":", "."))
        text = opener + " " + (text[0].lower() + text[1:] if r.random() < 0.6 else text)
    if loose and r.random() < 0.3:
        text = text.rstrip(".?!") + (r.choice(LOOSE_CLOSERS) if r.random() < 0.6 else " " + pseudo(r) + r.choice((".", "", "!")))
    if text[-1] in ".?!" and r.random() < 0.2:
        text += r.choice(CLOSERS)
    return text


def listing(items):
    """a, b and c"""
    items = list(items)
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parse(text):
    """A number as JSON holds it."""
    return float(text) if "." in text else int(text)
