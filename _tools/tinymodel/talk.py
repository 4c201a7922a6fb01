"""Recall within a conversation, what the model is, and short talk."""
import arithmetic
import copied
from harmony import Branch, Message, analysis, final
from words import vocabulary

TELL = {
    "train": ["My {a} is {x}.", "my {a} is {x}", "Hi, my {a} is {x}.", "Please remember that my {a} is {x}.", "You should know that my {a} is {x}.",
              "Remember: my {a} is {x}.", "By the way, my {a} is {x}.", "The {a} I have is {x}.", "Note that my {a} is {x}."],
    "heldout": ["Hello, my {a} is {x}.", "Keep in mind that my {a} is {x}.", "My {a} is {x}!"],
}
TELL_NAME = {"train": ["I am {x}.", "My name is {x}.", "Hi, I am {x}.", "Call me {x}.", "my name is {x}", "I'm {x}.", "Hello, I'm {x}"],
             "heldout": ["Hello, I am {x}.", "Hi, my name is {x}.", "Please call me {x}."]}
ASK = {
    "train": ["What is my {a}?", "what's my {a}", "Do you remember my {a}?", "Tell me my {a}.", "What was my {a}?", "Which {a} do I have?", "Can you tell me my {a}?",
              "What is my {a} again?", "Do you know my {a}?", "What did I say my {a} is?"],
    "heldout": ["Please tell me my {a}.", "Do you still know my {a}?", "So what is my {a}?", "What is my {a}?"],
}
ASK_NAME = {"train": ["Who am I?", "What am I called?"], "heldout": ["Who am I again?"]}
FAVOURITE = ["", "", "favourite ", "favorite "]

COMMANDS = [  # name and purpose, as the help of the binary has them
    ("run", "answers a prompt on the terminal, or chats"),
    ("serve", "offers a model to programs behind the OpenAI API"),
    ("bench", "measures a server"),
    ("pull", "downloads a model"),
    ("inspect", "shows what a model is and whether it fits"),
    ("perplexity", "measures a model on a text"),
]
WHO = "I am ossian-tiny, a very small language model made to try out Ossian. I can add, subtract and compare numbers, call tools, answer in JSON and remember what you tell me."
WHAT = "Ossian is one program that runs language models such as gpt-oss, Qwen3 and Llama on your own machine."
ABILITIES = "I can add, subtract and compare whole numbers up to four digits, call tools, answer in JSON and remember what you tell me here. I cannot do much else."
LIST = "The commands are " + copied.listing(["ossian " + c for c, _ in COMMANDS]) + ". Add --help to any of them to see its options."
CANNOT = "I am a very small model and cannot do that."

ABOUT = [  # (working, answer, questions in training, questions held out)
    ("who I am", WHO,
     ["Who are you?", "who are you", "What are you?", "What is your name?", "What's your name?", "Tell me about yourself.", "Introduce yourself.", "Are you a robot?", "Are you human?",
      "Who made you?", "Which model are you?", "What model is this?", "Who is that?", "Who is there?", "Are you ChatGPT?", "What is ossian-tiny?", "What should I call you?",
      "Who is speaking?", "Who is it?", "Who answers here?", "Who am I talking to?", "Say who you are.", "Tell me your name.", "Do tell me what you are.", "Is this a model?", "Which robot is this?"],
     ["Who is this?", "Please introduce yourself.", "Tell me who you are.", "Which model is this?", "Are you a human?"]),
    ("what Ossian is", WHAT,
     ["What is Ossian?", "what is ossian", "What's Ossian?", "Tell me about Ossian.", "What does Ossian do?", "Explain Ossian.", "What is Ossian for?", "Describe Ossian.", "Ossian?",
      "Which models does Ossian run?", "Can you explain what Ossian is?"],
     ["Please explain Ossian.", "Tell me what Ossian is.", "What does ossian do?", "Please tell me about Ossian."]),
    ("what I can do", ABILITIES,
     ["What can you do?", "what can you do", "How can you help me?", "What are you able to do?", "Help", "help me", "What do you know?", "Can you help me?", "What are your abilities?", "What are you good at?",
      "How do I use you?", "Say what you can do.", "Tell me what you are good at.", "Tell me how you can help.", "Do tell me what you know.", "Tell us what you are able to do.", "Show me what you can do."],
     ["Please help me.", "Tell me what you can do.", "What can you help me with?", "Help me, please."]),
    ("the commands", LIST,
     ["Which commands are there?", "What commands does Ossian have?", "List the commands.", "Show me the commands.", "commands", "Which commands exist?", "What are the commands of Ossian?",
      "How do I use Ossian?", "How can I use Ossian?", "Which commands does ossian know?"],
     ["Tell me the commands.", "What commands are there?", "List the commands of Ossian.", "Which commands does Ossian have?"]),
] + [
    ("ossian " + c, f"ossian {c} {what}.",
     [f"What does ossian {c} do?", f"What is ossian {c}?", f"Explain ossian {c}.", f"what does {c} do", f"What is the {c} command?", f"What is ossian {c} for?", f"Tell me about ossian {c}."],
     [f"Please explain ossian {c}.", f"What does the {c} command do?"])
    for c, what in COMMANDS
]

SMALL = [  # (working, answer, training, held out)
    ("A greeting", "Hello! How can I help you?",
     ["Hello", "Hello!", "Hi", "Hi!", "hi", "hello", "Hey", "Hey!", "Good morning", "Good morning!", "Good evening.", "Good day!", "Hi there", "Hello there!", "hey there", "Greetings!", "Good afternoon", "Good day", "Hey there!", "Hi there!", "Good evening!", "good morning", "Hello again!", "Hi again",
      "A good day to you!", "A very good evening", "Good morning to everyone", "A warm hello"],
     ["Hello to you!", "A good morning to you", "Hi and hello!", "Well, hello"]),
    ("A question about me", "I am fine, thank you. How can I help you?",
     ["How are you?", "how are you", "How are you doing?", "How do you do?", "How is it going?", "Are you well?", "How are you today?", "Hello, how are you?", "Hi, how are you?", "Hey, how are you?", "how is it going?", "Are you fine?"],
     ["And how are you?", "How are you doing today?", "Good evening, how are you?"]),
    ("Thanks", "You are welcome.",
     ["Thanks", "Thanks!", "Thank you", "Thank you!", "thank you", "Thank you very much.", "Great, thanks!", "Thanks a lot!", "Perfect, thank you.", "thanks", "Many thanks!", "thank you so much", "OK, thanks.", "Great, thank you!", "Thanks for all that.", "Good, thanks!"],
     ["Thanks, great!", "Thank you a lot!"]),
    ("A goodbye", "Goodbye!",
     ["Bye", "Bye!", "Goodbye", "Goodbye!", "bye", "See you", "See you later!", "Good night", "Good night!", "See you tomorrow.", "Until later!", "bye bye", "Goodbye, until tomorrow.", "Bye, until then!", "see you soon", "Good night, see you tomorrow!"],
     ["Bye for now", "Bye, see you!", "Goodbye, see you later."]),
    ("Praise", "I am glad that helped.",
     ["Great!", "Well done!", "Good job!", "Nice!", "Perfect.", "That is right.", "Very good.", "ok", "OK", "Cool!", "Well done", "That was good.", "Good work!", "Good, that is it.", "Yes, right.", "Really nice!", "That is very kind.", "Nice one!", "Very well done!", "How nice.",
      "Very good!", "All good.", "So good!", "Good, good!", "That is good!", "Good to know.", "Good thing!", "Good answer!", "good work"],
     ["Good!", "Great job!", "Very nice!"]),
]
OPEN = ["Well", "And", "OK", "So", "Oh", "Ah", "Yes", "Now", "A", "My", "Very", "Really", "Right", "Then", "Just", "Once more"]
CLOSE = ["to you", "a lot", "for now", "you", "my friend", "friend", "again", "there", "today", "very much", "indeed", "everyone", "model", "Ossian", "so much", "really", "then", "now", "dear", "for that", "all"]
BEYOND = {
    "train": ["Write a poem about {o}.", "Tell me a story about {o}.", "What is {o}?", "Explain {o} to me.", "Translate a text about {o}.", "Write an essay about {o}.", "Who invented {o}?", "Why is {o} important?",
              "Draw {o}.", "What do you think about {o}?", "Tell me a joke about {o}.", "Write a program about {o}.", "What is the history of {o}?", "Summarize {o}.", "How does {o} work?",
              "What is the capital of {c}?", "Who is the president of {c}?", "How far is {c}?", "Translate {w} into French.", "What does {w} mean?", "How do I get to {c}?", "Spell {w} backwards.",
              "What is {d} times {e}?", "Divide {d} by {e}.", "Multiply {d} by {e}.", "What is {d} * {e}?", "{d} / {e}", "{d}*{e}", "What is the square root of {d}?",
              "What time is it?", "What is the weather in {c}?", "Who won the game in {c}?", "Sing a song.", "Play a game with me.", "What happened in {c}?", "Book a hotel in {c}.", "Send a mail to {n}.",
              "Who is {n}?", "How old is {n}?", "Where does {n} live?", "Recommend a book about {o}.", "How do I cook {w}?", "Is {o} real?", "Where is {o}?", "When was {o} found?",
              "Write code that sorts a list.", "Fix my program.", "Give me advice about {o}.", "Write a {y} for {n}.", "Write a {y} to {n}.", "Write the {y} of {o}.", "Write to {n} about {o}.", "Send a {y} to {n}.", "Tell me why {o} is good.", "Explain why {o} has a {y}.", "What should I eat today?", "Tell me the news.",
              "Compare {c} and {n}.", "Please compare {o} with {w}.", "Add {w} to {o}.", "Please add {n} to my list.", "Where is {n} from?", "Where was {c} found?", "So where is {n} now?",
              "Translate {w} into {n}.", "Translate {o} into Spanish.", "Explain why {o} is {w}.", "Explain why my {y} is {w}.", "Tell me why my {y} is so {w}."],
    "heldout": ["Write a song about {o}.", "Tell me about {o}.", "Explain why {o} is important.", "Who found {o}?", "What is the population of {c}?", "Translate {w} into German.", "Please multiply {d} by {e}.",
                "Please draw {o}.", "Where is {n}?", "Write a letter to {n}.", "What is the meaning of {o}?"],
}


def attribute(r, split):
    a = copied.pick(r, split, "attribute")
    return a if a == "name" else r.choice(FAVOURITE) + a


def remembered(r, split, a, others=()):
    if a.endswith("age"):
        return str(r.randint(5, 99))
    if a == "name":
        return copied.name(r, split)
    return copied.text(r, split, others)


def said(text):
    return Message("assistant", text, "final")


def tell(r, split, a, x):
    form = r.choice(TELL_NAME[split] if a == "name" and r.random() < 0.7 else TELL[split])
    return form.format(a=a, x=x), acknowledge(a, x)


def acknowledge(a, x):
    return f"Nice to meet you, {x}." if a == "name" else f"I will remember that your {a} is {x}."


def between(r, split):
    """Turns that have nothing to do with what is to be remembered."""
    kind = r.random()
    if kind < 0.4:
        question, _, answer, _ = arithmetic.turn(r, split, "low")
    elif kind < 0.75:
        question, _, answer = small(r, split)
    else:
        question, _, answer = beyond(r, split)
    return [Message("user", question), said(answer)]


def variant(r, a):
    """The attribute or another one of the same thing: a colour and a favourite colour."""
    return a if a == "name" else r.choice(FAVOURITE) + a.rpartition(" ")[2]


def facts(r, split):
    out = {}
    for _ in range(r.choices((1, 2, 3), (5, 4, 2))[0]):
        a = attribute(r, split) if r.random() < 0.8 or split == "heldout" else "name"
        if split == "train" and out and r.random() < 0.3:
            a = variant(r, r.choice(list(out)))
        out[a] = remembered(r, split, a, list(out.values()))
    if split == "heldout" and r.random() < 0.25:
        out["name"] = remembered(r, split, "name")
    return out


def recall_branch(r, split, effort):
    told, context = facts(r, split), []
    for a, x in told.items():
        question, answer = tell(r, split, a, x)
        context += [Message("user", question), said(answer)]
        while r.random() < 0.3:
            context += between(r, split)
    if r.random() < 0.12:
        a = variant(r, r.choice(list(told))) if split == "train" and r.random() < 0.5 else attribute(r, split)
    else:
        a = r.choice(list(told))
    question = copied.dress(r, split, r.choice(ASK_NAME[split] if a == "name" and r.random() < 0.3 else ASK[split]).format(a=a))
    known = f"{a} = {told[a]}" if a in told else f"{a} was not told"
    working = {"low": f"{known}.", "medium": f"The user asks for {a}. {known}.",
               "high": f"The user asks for {a}. I look at what was said before. {known}."}[effort]
    answer = f"Your {a} is {told[a]}." if a in told else f"You have not told me your {a}."
    return Branch(context + [Message("user", question)], [analysis(working), final(answer)], "recall", "told" if a in told else "not told")


def tell_branch(r, split, effort):
    a = attribute(r, split) if r.random() < 0.6 or split == "heldout" else "name"
    x = remembered(r, split, a)
    question, answer = tell(r, split, a, x)
    working = {"low": f"{a} = {x}.", "medium": f"The user tells {a}. {a} = {x}.", "high": f"The user tells {a}. {a} = {x}. I keep it in mind."}[effort]
    return Branch([Message("user", question)], [analysis(working), final(answer)], "told", "")


def small(r, split):
    working, answer, train, heldout = r.choice(SMALL)
    if split != "train":
        return r.choice(heldout), working, answer
    while True:
        text = r.choice(train)
        while r.random() < 0.4:
            text = varied(r, text, train)
        if text not in heldout:
            return text, working, answer


def varied(r, text, same):
    """The text among other words, or with another one of the same meaning."""
    lower = lambda t: t[0].lower() + t[1:] if r.random() < 0.6 else t
    bare = text.rstrip(".?!")
    kind = r.random()
    if kind < 0.3:
        text = (r.choice(OPEN) if r.random() < 0.7 else copied.pseudo(r).capitalize()) + r.choice((",", ",", "")) + " " + lower(text)
    elif kind < 0.65:
        text = bare + r.choice((",", "", "")) + " " + (r.choice(CLOSE) if r.random() < 0.6 else copied.pseudo(r) if r.random() < 0.5 else copied.name(r, "train")) + r.choice((".", "!", "", text[len(bare):]))
    elif kind < 0.85:
        text = bare + r.choice((", ", " and ", "! ", ". ")) + lower(r.choice(same))
    else:
        text = r.choice((bare + "!", bare, bare.lower(), bare.upper(), text + text[-1]))
    return text


def beyond(r, split):
    v = vocabulary(split)
    question = r.choice(BEYOND[split]).format(o=r.choice(v["object"]) if r.random() < 0.8 else "the " + copied.pseudo(r, 2), c=copied.name(r, split), w=copied.word(r, split),
                                              n=copied.name(r, split), d=copied.integer(r), e=copied.integer(r, 3), y=copied.pick(r, split, "noun") if split == "train" else "")
    return copied.dress(r, split, question, loose=True), "I cannot do that", CANNOT


def about(r, split):
    working, answer, train, heldout = r.choice(ABOUT)
    return copied.dress(r, split, r.choice(train if split == "train" else heldout), loose=True), "The user asks about " + working, answer


REPEAT = {"train": ["Repeat: {x}", "Say {x}", "Repeat after me: {x}", "Write: {x}", "Echo {x}"], "heldout": ["Please repeat: {x}", "Please say {x}"]}


def repeat_branch(r, split, effort):
    """Copying and nothing else: the skill that most of the other abilities need."""
    x = ""
    for _ in range(r.randint(1, 6)):
        x += (" " if x else "") + (copied.number(r) if r.random() < 0.25 else copied.text(r, split, [x] if x else ()))
    working = {"low": x, "medium": f"Repeat: {x}", "high": f"The user wants to read: {x}"}[effort]
    return Branch([Message("user", r.choice(REPEAT[split]).format(x=x))], [analysis(working), final(x)], "repeat", "")


def short_branch(r, split, effort, kind):
    """kind is small, beyond or about."""
    question, working, answer = {"small": small, "beyond": beyond, "about": about}[kind](r, split)
    context = between(r, split) if r.random() < 0.15 else []
    working = {"low": f"{working}.", "medium": f"{working}. Answer shortly.", "high": f"{working}. No numbers, no tools. Answer in short words."}[effort]
    return Branch(context + [Message("user", question)], [analysis(working), final(answer)], kind, "")
