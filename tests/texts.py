"""Deterministic texts for tokenizer tests: scripts, emoji, whitespace, digits, code, combining marks, odd characters."""

from __future__ import annotations

import random
import unicodedata

SENTENCES = (
    "",
    "a",
    " ",
    "Hello, world!",
    "The capital of France is Paris.",
    "tiktoken is great!",
    "antidisestablishmentarianism",
    "2 + 2 = 4",
    "In 2024, 1,234,567.89 people paid $12.50 for 007 tickets.",
    "1234567890 12 345 6789",
    "お誕生日おめでとう",
    "你好, GPU",
    "请用一句话解释为什么天空通常呈蓝色。",
    "안녕하세요 세계",
    "Здравствуй, мир! Ёлка 42",
    "שלום עולם",
    "مرحبا بالعالم ١٢٣",
    "สวัสดีชาวโลก",
    "नमस्ते दुनिया १२३",
    "Γειά σου Κόσμε",
    "naïve café résumé Ångström",
    "e\u0301 a\u0300 n\u0303 decomposed",
    "\u212b \ufb01 \uff11\uff12 \u2460 compatibility",
    "👍 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷 1️⃣",
    "zero\u200bwidth\u200djoin\ufeffbom\u00adsoft",
    "tab\tnew\nline\r\nreturn\r end",
    "  leading and trailing  ",
    "   \n\n\n   \n\t\t\n",
    "a\n\n\nb    c\t\t\td",
    "def f(x):\n    return {'a': [1, 2.5e-3, None], \"b\": x ** 2}  # note\n",
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "北京"}}\n</tool_call>',
    "<think>\nLet me see.\n</think>\n\nYes.",
    "https://example.org/a/b?c=d&e=%20f#g user@example.org",
    "I'm you're they've we'll he'd it's DON'T CAN'T",
    "<div class='x'>▁literal▁spaces▁</div>",
    "\u0000\u0001\u001f\u007f\u0085\u2028\u2029",
    "\U00010348\U0001d11e\U0002000b\U000e0041\U0010ffff",
    "a" * 300,
    "ab " * 120,
    "．，。！？；：「」『』（）",
    "CamelCaseWordsAndHTTPServerIDs snake_case_words kebab-case-words",
)

# First code points of Unicode blocks, spread over the planes.
BLOCKS = (
    (0x20, 0x7F), (0xA0, 0x100), (0x100, 0x180), (0x180, 0x250), (0x250, 0x2B0), (0x300, 0x370), (0x370, 0x400),
    (0x400, 0x500), (0x530, 0x590), (0x590, 0x600), (0x600, 0x700), (0x700, 0x750), (0x900, 0x980), (0x980, 0xA00),
    (0xB80, 0xC00), (0xE00, 0xE80), (0xE80, 0xF00), (0xF00, 0x1000), (0x1000, 0x10A0), (0x10A0, 0x1100),
    (0x1100, 0x1200), (0x1200, 0x1380), (0x13A0, 0x1400), (0x1780, 0x1800), (0x1800, 0x18B0), (0x1E00, 0x1F00),
    (0x1F00, 0x2000), (0x2000, 0x2070), (0x2070, 0x20A0), (0x20A0, 0x20D0), (0x2100, 0x2150), (0x2150, 0x2190),
    (0x2190, 0x2200), (0x2200, 0x2300), (0x2300, 0x2400), (0x2460, 0x2500), (0x2500, 0x2580), (0x25A0, 0x2600),
    (0x2600, 0x2700), (0x2700, 0x27C0), (0x2E80, 0x2F00), (0x3000, 0x3040), (0x3040, 0x30A0), (0x30A0, 0x3100),
    (0x3130, 0x3190), (0x3400, 0x3500), (0x4E00, 0x4F00), (0x9F00, 0xA000), (0xAC00, 0xAD00), (0xD700, 0xD7A4),
    (0xF900, 0xFA00), (0xFB00, 0xFB50), (0xFB50, 0xFC00), (0xFE70, 0xFF00), (0xFF00, 0xFFF0), (0x10000, 0x10080),
    (0x10330, 0x10350), (0x1D100, 0x1D200), (0x1D400, 0x1D500), (0x1F000, 0x1F030), (0x1F300, 0x1F400),
    (0x1F600, 0x1F650), (0x1F900, 0x1FA00), (0x20000, 0x20100), (0xE0020, 0xE0080),
)  # fmt: skip


def sample_texts(extra: tuple[str, ...] = (), seed: int = 20240229) -> list[str]:
    """Give more than 250 texts: the sentences, two runs of every block, and mixtures with the extra strings."""
    random_ = random.Random(seed)
    texts = list(SENTENCES)
    for first, last in BLOCKS:
        texts.append("".join(chr(random_.randrange(first, last)) for _ in range(12)))
        texts.append(" ".join(chr(random_.randrange(first, last)) * random_.randint(1, 3) for _ in range(8)) + "\n")
    pool = [text for text in texts if text] + list(extra) * 4
    texts += ["".join(random_.choices(pool, k=random_.randint(2, 6))) for _ in range(90)]
    return texts


def many_texts(count: int, extra: tuple[str, ...] = ()) -> list[str]:
    """Give at least `count` different texts: `sample_texts` under one seed after another."""
    texts: dict[str, None] = {}
    seed = 20240229
    while len(texts) < count:
        texts |= dict.fromkeys(sample_texts(extra, seed))
        seed += 1
    return list(texts)


def all_blocks() -> list[str]:
    """Give one text a block of 256 code points that has characters, for every plane: every Unicode block."""
    return [
        text
        for first in range(0, 0x110000, 256)
        if (text := "".join(chr(point) for point in range(first, first + 256) if _assigned(point)))
    ]


def _assigned(point: int) -> bool:
    return unicodedata.category(chr(point)) not in ("Cn", "Cs", "Co")
