"""Addition, subtraction and comparison of integers, with the working."""
import hashlib

import copied
from harmony import Branch, Message, analysis, final

# The working always starts with both numbers as four digits and goes from the
# ones upwards. A column is the sum of two digits and the carry, written with two
# digits: the first is the next carry. In a subtraction a column is ten more than
# the difference: the first digit is 0 where the next column has to lend.

TEMPLATES = {
    "train": {
        "+": ["{a}+{b}", "{a} + {b}", "{a}+{b}=", "{a} + {b} =", "{a} + {b} = ?", "{a} plus {b}", "What is {a} + {b}?", "What is {a}+{b}?", "What is {a} plus {b}?",
              "How much is {a} + {b}?", "How much is {a} plus {b}?", "Add {a} and {b}.", "Calculate {a} + {b}.", "Compute {a}+{b}",
              "Please add {a} and {b}.", "What is the sum of {a} and {b}?", "What do I get if I add {b} to {a}?", "Add {b} to {a}.",
              "Can you add {a} and {b}?", "The sum of {a} and {b}, please.", "what's {a}+{b}", "Solve {a} + {b}"],
        "-": ["{a}-{b}", "{a} - {b}", "{a}-{b}=", "{a} - {b} =", "{a} - {b} = ?", "{a} minus {b}", "What is {a} - {b}?", "What is {a}-{b}?", "What is {a} minus {b}?",
              "How much is {a} - {b}?", "How much is {a} minus {b}?", "Subtract {b} from {a}.", "Calculate {a} - {b}.", "Compute {a}-{b}",
              "Please subtract {b} from {a}.", "What is {a} take away {b}?", "What do I get if I subtract {b} from {a}?",
              "Can you subtract {b} from {a}?", "what's {a}-{b}", "Solve {a} - {b}"],
        "max": ["Which is larger, {a} or {b}?", "Which number is larger: {a} or {b}?", "What is larger, {a} or {b}?", "Which is bigger, {a} or {b}?",
                "Tell me the larger of {a} and {b}.", "{a} or {b}: which is larger?", "Which is greater, {a} or {b}?"],
        "min": ["Which is smaller, {a} or {b}?", "Which number is smaller: {a} or {b}?", "What is smaller, {a} or {b}?", "Which is less, {a} or {b}?",
                "Tell me the smaller of {a} and {b}.", "{a} or {b}: which is smaller?"],
        ">": ["Is {a} larger than {b}?", "Is {a} greater than {b}?", "Is {a} more than {b}?", "Is {a} bigger than {b}?", "Is {a} > {b}?"],
        "<": ["Is {a} smaller than {b}?", "Is {a} less than {b}?", "Is {a} below {b}?", "Is {a} < {b}?"],
        "=": ["Compare {a} and {b}.", "Compare {a} with {b}", "Compare the numbers {a} and {b}.", "Please compare {a} and {b}."],
    },
    "heldout": {
        "+": ["Work out {a} + {b} for us.", "I would like to know {a} plus {b}.", "Quickly: {a}+{b}", "Let us see what {a} + {b} makes."],
        "-": ["Work out {a} - {b} for us.", "I would like to know {a} minus {b}.", "Quickly: {a}-{b}", "Let us see what {a} - {b} makes."],
        "max": ["I would like to know which is larger, {a} or {b}."],
        "min": ["I would like to know which is smaller, {a} or {b}."],
        ">": ["Let us see: is {a} greater than {b}?"],
        "<": ["Let us see: is {a} less than {b}?"],
        "=": ["Let us compare {a} and {b}."],
    },
}
NAMES = ["ones", "tens", "hundreds", "thousands"]


def is_heldout(op, a, b):
    """One pair of numbers in ten is never trained on."""
    kind = op if op in "+-" else "compare"
    return hashlib.sha256(f"{kind}{a},{b}".encode()).digest()[0] < 26


def numbers(r, split, op):
    while True:
        a, b = (r.randrange(10 ** r.choices((1, 2, 3, 4), (1, 2, 3, 4))[0]) for _ in "ab")
        if op not in "+-" and r.random() < 0.35:  # close to each other, so that later digits decide
            b = min(9999, max(0, a + r.choice((0, 0, 1, -1, 10, -10, 7, -7, 100, -100))))
        if is_heldout(op, a, b) == (split == "heldout"):
            return a, b


def compare_digits(a, b):
    """Digit by digit from the left until two differ."""
    steps = []
    for x, y in zip(f"{a:04d}", f"{b:04d}"):
        steps.append(x + ("=" if x == y else ">" if x > y else "<") + y)
        if x != y:
            break
    return " ".join(steps)


def columns(op, a, b):
    """[(digit of a, digit of b, carry, column value)] from the ones; a >= b when subtracting."""
    carry, out = 0, []
    for x, y in zip(reversed(f"{a:04d}"), reversed(f"{b:04d}")):
        x, y = int(x), int(y)
        v = x + y + carry if op == "+" else 10 + x - y - carry
        out.append((x, y, carry, v))
        carry = v // 10 if op == "+" else 1 - v // 10
    return out, carry if op == "+" else 0


def steps(op, a, b, effort):
    cols, carry = columns(op, a, b)
    digits = "".join(str(v % 10) for *_, v in reversed(cols))
    if effort == "low":
        text = " ".join(f"{v:02d}" for *_, v in cols)
    elif effort == "medium":
        ten = "" if op == "+" else "10+"
        text = " ".join(f"{ten}{x}{op}{y}{op}{c}={v:02d}" for x, y, c, v in cols)
    else:
        lines = []
        for name, (x, y, c, v) in zip(NAMES, cols):
            if op == "+":
                lines.append(f"The {name}: {x}+{y}+{c}={v:02d}, write {v % 10}, carry {v // 10}.")
            else:
                lines.append(f"The {name}: 10+{x}-{y}-{c}={v:02d}, write {v % 10}, borrow {1 - v // 10}.")
        text = "\n".join(lines) + "\n"
        return f"{text}-> {carry}{digits}"
    return f"{text} -> {carry}{digits}"


def working(op, a, b, effort):
    if op == "+":
        lead = f"{a:04d}+{b:04d}:"
        if effort == "high":
            lead = "Add with four digits. " + lead
        return lead + " " + steps("+", a, b, effort)
    chain = compare_digits(a, b)
    sign = ">" if a > b else "<" if a < b else "="
    lead = f"{a:04d} {b:04d}: {chain}"
    if effort == "high":
        lead = f"Compare the digits from the left. {lead}, so {a} {sign} {b}."
    if op != "-":
        return lead if effort != "medium" else lead + f", {a} {sign} {b}"
    lead += " Subtract the smaller number: " if effort == "high" else "; "
    return f"{lead}{max(a, b):04d}-{min(a, b):04d}: {steps('-', max(a, b), min(a, b), effort)}" + ("" if a >= b else " minus")


def answer(op, a, b):
    if op in "+-":
        return str(a + b if op == "+" else a - b)
    if op in ("max", "min"):
        return str(max(a, b) if op == "max" else min(a, b)) if a != b else f"They are equal: {a} = {b}."
    sign = ">" if a > b else "<" if a < b else "="
    if op == "=":
        return f"{a} {sign} {b}"
    return ("Yes" if sign == op else "No") + f", {a} {sign} {b}."


def turn(r, split, effort):
    """(question, working, answer, operation)"""
    op = r.choices(("+", "-", "max", "min", ">", "<", "="), (38, 38, 6, 5, 5, 4, 4))[0]
    a, b = numbers(r, split, op)
    question = copied.dress(r, split, r.choice(TEMPLATES[split][op]).format(a=a, b=b), loose=True)
    return question, working(op, a, b, effort), answer(op, a, b), op


def branch(r, split, effort):
    question, text, result, op = turn(r, split, effort)
    detail = "addition" if op == "+" else "subtraction" if op == "-" else "comparison"
    return Branch([Message("user", question)], [analysis(text), final(result)], "arithmetic", detail)
