"""Seeded test strings: every script, emoji sequences, marks, whitespace, code, invalid bytes."""

import unicodedata

# Characters that every Unicode version in use agrees on: assigned in the one of this Python.
ASSIGNED = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
BY_CATEGORY = {}
for c in ASSIGNED:
    BY_CATEGORY.setdefault(unicodedata.category(chr(c)), []).append(chr(c))

SCRIPTS = [  # ranges to draw running text from
    (0x20, 0x7E), (0xA0, 0x24F), (0x250, 0x2FF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x530, 0x58F),
    (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x7FF), (0x900, 0x97F), (0x980, 0xDFF), (0xE00, 0xEFF), (0xF00, 0xFFF),
    (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x139F), (0x13A0, 0x16FF), (0x1780, 0x18AF),
    (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x21FF), (0x2200, 0x23FF), (0x2460, 0x27BF), (0x2C00, 0x2DFF),
    (0x3000, 0x30FF), (0x3100, 0x33FF), (0x4E00, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF),
    (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFEF), (0x10000, 0x104FF), (0x10400, 0x1044F), (0x1D400, 0x1D7FF),
    (0x1E900, 0x1E95F), (0x1F300, 0x1F6FF), (0x1F900, 0x1F9FF), (0x20000, 0x200FF), (0x2F800, 0x2FA1D), (0xE0020, 0xE007F),
]
SCRIPT_CHARS = [[chr(c) for c in range(lo, hi + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")] for lo, hi in SCRIPTS]

SPACES = [" ", " ", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\v", "\f", "\x85", "\xa0", "\u2028", "\u2029", "\u3000", "\u200b",
          "\u202f", "\x1c", "\x1f", "\u180e", "\ufeff", "\u2003"]
CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'vE", "'m", "'M", "'ll", "'LL", "'lL", "'d", "'D", "'ſ", "'", "''",
                "’s", "'l", "'r", "'v", "'x", "'é", "'s\u0301", "'\u212a"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇫🇷", "❤️", "1️⃣", "🧑🏿‍🚀", "\u200d", "\ufe0f", "🏴\U000e0067\U000e0062\U000e007f", "©", "™"]
WORDS = """the quick brown fox jumps over lazy dog Hello WORLD iPhone McDonald ABCdef abcDEF HTTPServer naïve café straße ÉCOLE İstanbul
ǅungla ﬁne Привет МИР Ёлка Γειά Σίσυφος ΟΔΟΣ שלום عربي مرحبا हिन्दी नमस्ते বাংলা தமிழ் ไทยแลนด์ ລາວ မြန်မာ ქართული Հայերեն አማርኛ 日本語 漢字 かな カタカナ
한국어 ᄒᆞᆫ 中文 简体 繁體 ꦗꦮ ᏣᎳᎩ ⴰⵎⴰⵣⵉⵖ e\u0301te\u0301 n\u0303 A\u030a \u1112\u1161\u11ab ʰʲ ªº ⅷ ½ ² ٣٤٥ १२३ 〇 ㊀ ⑳ 𝟜𝟚 𝔘𝔫𝔦 ﷺ ǆ""".split()
CODE = ["def f(x):\n    return x**2\n", "for (int i=0;i<n;++i) {\n\t\ta[i] += b[i];\n}\n", "<div class=\"x\">&amp;</div>\r\n", "{\"a\": [1, 2.5e-3, null]}",
        "https://example.org/a/b?c=d&e=%20#f", "SELECT * FROM t WHERE id='1';--", "\\frac{1}{2}\\\\", "// comment\n/* x */", "a/b//c///\n\n/d", "x->y::z<T>()",
        "#include <stdio.h>\n", "$(foo) `bar` ${BAZ:-qux}", "----====####", "if err != nil {\n\treturn nil, err\n}\n", "\t\t\t\t}\n\n\n\t}", "[[a]] ((b))"]
NUMBERS = ["0", "7", "42", "123", "1234", "12345", "1234567890", "3.14159", "1,000,000", "0x1F", "1e-9", "²³", "½", "٠١٢٣٤", "१२३४५", "Ⅷ", "12ab34", "𝟘𝟙𝟚𝟛"]


def fragment(r):
    kind = r.randrange(16)
    if kind < 3:
        chars = r.choice(SCRIPT_CHARS)
        return "".join(r.choice(chars) for _ in range(r.randint(1, 12)))
    if kind < 5:
        return r.choice(WORDS)
    if kind < 7:
        return r.choice(SPACES) * r.choice((1, 1, 1, 2, 3, 9))
    if kind == 7:
        return r.choice(WORDS) + r.choice(CONTRACTIONS) + r.choice(("", " ", "x"))
    if kind == 8:
        return r.choice(EMOJI) + r.choice(("", r.choice(EMOJI)))
    if kind == 9:
        return r.choice(CODE)
    if kind == 10:
        return r.choice(NUMBERS)
    if kind == 11:
        return "".join(r.choice(BY_CATEGORY[r.choice(list(BY_CATEGORY))]) for _ in range(r.randint(1, 6)))
    if kind == 12:
        return "".join(r.choice(BY_CATEGORY["Mn"]) for _ in range(r.choice((1, 2, 3, 4, 4, 50))))
    if kind == 13:
        return r.choice("!?.,;:-_/\\'\"()[]{}<>|@#$%^&*~`+=\r\n ") * r.choice((1, 1, 2, 3, 20))
    if kind == 14:
        return chr(r.choice(ASSIGNED))
    return unicodedata.normalize(r.choice(("NFD", "NFC", "NFKD")), r.choice(WORDS))


def sample(r, most=12):
    """One string as bytes; some are not valid UTF-8."""
    text = "".join(fragment(r) for _ in range(r.randint(0, most)))
    data = bytearray(text.encode())
    if r.random() < 0.1:
        for _ in range(r.randint(1, 4)):
            at = r.randint(0, len(data))
            data[at:at + r.randrange(2)] = r.randbytes(r.randint(1, 3))
    return bytes(data)
