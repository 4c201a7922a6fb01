"""Addition, subtraction and comparison of integers, with the working."""
import hashlib

import copied
from harmony import Branch, Message, analysis, final

# The working always starts with both numbers as four digits and goes from the
# ones upwards. A column is the sum of two digits and the carry, written with two
# digits: the first is the next carry. In a subtraction a column is ten more than
# the difference (the upper digit has a 1 before it): the first digit of the result
# is 0 where the next column has to lend. A comparison starts with what is asked,
# so that the end needs nothing but the working.

TEMPLATES = {
    "train": {
        "+": ["{a}+{b}", "{a} + {b}", "{a}+{b}=", "{a} + {b} =", "{a} + {b} = ?", "{a} plus {b}", "What is {a} + {b}?", "What is {a}+{b}?", "What is {a} plus {b}?",
              "How much is {a} + {b}?", "How much is {a} plus {b}?", "Add {a} and {b}.", "Calculate {a} + {b}.", "Compute {a}+{b}",
              "Please add {a} and {b}.", "What is the sum of {a} and {b}?", "What do I get if I sum {b} and {a}?", "Add {b} to {a}.",
              "Can you sum {a} and {b}?", "Sum {a} and {b}", "The sum of {a} and {b}, please.", "what's {a}+{b}", "Solve {a} + {b}",
              "{F} {a} + {b} {f}.", "{F} {a}+{b} {f}", "{F} {a} plus {b} {f}."],
        "-": ["{a}-{b}", "{a} - {b}", "{a}-{b}=", "{a} - {b} =", "{a} - {b} = ?", "{a} minus {b}", "What is {a} - {b}?", "What is {a}-{b}?", "What is {a} minus {b}?",
              "How much is {a} - {b}?", "How much is {a} minus {b}?", "Subtract {b} from {a}.", "Calculate {a} - {b}.", "Compute {a}-{b}",
              "Please subtract {b} from {a}.", "What is {a} take away {b}?", "What do I get if I subtract {b} from {a}?",
              "Can you subtract {b} from {a}?", "what's {a}-{b}", "Solve {a} - {b}",
              "{F} {a} - {b} {f}.", "{F} {a}-{b} {f}", "{F} {a} minus {b} {f}.", "{F} {a} - {b}", "{a} - {b} {f}"],
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
    lend = "" if op == "+" else "1"
    sums = [f"{lend}{x}{op}{y}{op}{c}={v:02d}" for x, y, c, v in cols]
    if effort == "low":
        text = " ".join(sums)
    elif effort == "medium":
        text = ", ".join(f"{name} {s}" for name, s in zip(NAMES, sums))
    else:
        left = "carry" if op == "+" else "lend"
        text = "\n".join(f"The {name}: {s}, write {s[-1]}, {left} {int(s[-2]) if op == '+' else 1 - int(s[-2])}." for name, s in zip(NAMES, sums))
    return f"{text} -> {carry}{digits}"


def sign(a, b):
    return ">" if a > b else "<" if a < b else "="


def working(op, a, b, effort):
    if op == "+":
        return ("With four digits, from the ones: " if effort == "high" else "") + f"{a:04d}+{b:04d}: " + steps("+", a, b, effort)
    digits = f"{a:04d} {b:04d}: {compare_digits(a, b)}"
    if op != "-":
        asked = {"max": "larger", "min": "smaller", "=": "both"}.get(op, op)
        lead = {"low": f"{asked} {digits}", "medium": f"{asked} {digits}, {a} {sign(a, b)} {b}", "high": f"Asked is {asked}, digits from the left: {digits}, {a} {sign(a, b)} {b}"}[effort]
        return f"{lead} -> " + ("equal" if a == b and op in ("max", "min") else answer(op, a, b).split(",")[0])
    lead = f"Digits from the left: {digits}, so {a} {sign(a, b)} {b}. Subtract the smaller number: " if effort == "high" else f"{digits}; "
    return f"{lead}{max(a, b):04d}-{min(a, b):04d}: {steps('-', max(a, b), min(a, b), effort)}" + ("" if a >= b else " minus")


def answer(op, a, b):
    if op in "+-":
        return str(a + b if op == "+" else a - b)
    if op in ("max", "min"):
        return str(max(a, b) if op == "max" else min(a, b)) if a != b else f"They are equal: {a} = {b}."
    if op == "=":
        return f"{a} {sign(a, b)} {b}"
    return ("Yes" if sign(a, b) == op else "No") + f", {a} {sign(a, b)} {b}."


def turn(r, split, effort):
    """(question, working, answer, operation)"""
    op = r.choices(("+", "-", "max", "min", ">", "<", "="), (32, 32, 9, 8, 7, 7, 5))[0]
    a, b = numbers(r, split, op)
    question = copied.dress(r, split, copied.filled(r, r.choice(TEMPLATES[split][op])).format(a=a, b=b), loose=True)
    return question, working(op, a, b, effort), answer(op, a, b), op


def branch(r, split, effort):
    question, text, result, op = turn(r, split, effort)
    detail = "addition" if op == "+" else "subtraction" if op == "-" else "comparison"
    return Branch([Message("user", question)], [analysis(text), final(result)], "arithmetic", detail)
