"""JSON5 text rewritten as strict JSON text, token by token, with the way back from every place.

Only tokens are rewritten (comments, quotes, unquoted keys, trailing commas, numbers, escapes); whether they form a value
is jsontext.py's to judge, on the rewritten text, so that one reader holds every bound. What JSON5 allows and JSON cannot
say (Infinity, NaN) stays and is refused there with its place. Time and size are linear in the text. The packages that
read JSON5 were weighed: they give values without places, and numbers without their spelling.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

_MAX_HEX = 3000  # digits: below the reader's own bound in decimal

_TOKEN = re.compile(
    r"""(?P<strict>(?:[ \t\n\r]++|[\[\]{}:]|,(?=[ \t\n\r]*+["'\[{\w$.+-])
        |"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"
        |-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?=[ \t\n\r]*+[,\]}])
        |(?:true|false|null)(?=[ \t\n\r]*+[,\]}]))++)
    |(?P<odd>[\v\f\u00a0\ufeff\u2028\u2029\u1680\u2000-\u200a\u202f\u205f\u3000]++)
    |(?P<comment>//[^\n\r\u2028\u2029]*+|/\*(?:[^*]|\*(?!/))*+\*/)
    |(?P<string>"(?:[^"\\\n\r]++|\\(?:\r\n|[\s\S]))*+"|'(?:[^'\\\n\r]++|\\(?:\r\n|[\s\S]))*+')
    |(?P<number>[+-]?(?:0[xX][0-9a-fA-F]++|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|Infinity\b|NaN\b))
    |(?P<word>(?:[^\W\d]|\$)(?:\w|[$\u200c\u200d])*+)
    |(?P<mark>[\s\S])""",
    re.VERBOSE,
)
_BLANK = re.compile(
    r"(?:[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+"
)  # what may stand between two tokens
_STRICT_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_INSIDE = re.compile(
    r"""\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\x[0-9a-fA-F]{2}|\\0(?![0-9])|\\(?:\r\n|[\s\S])|["\x00-\x1f]|[^"\\\x00-\x1f]++"""
)
_KEPT_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_SOLID = ("string", "number", "word", "mark")
_LINE_ENDS = ("\n", "\r\n", "\r", "\u2028", "\u2029")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Strict JSON text, what of JSON5 was found in the text it was made of (with counts), and the places of both.

    `out` and `given` are offsets that stand for each other; between two of them both texts run in step.
    """

    text: str
    found: dict[str, int]
    out: tuple[int, ...]
    given: tuple[int, ...]

    def source(self, offset: int) -> int:
        """Give the offset in the text as given that an offset of `text` stands for.

        >>> as_strict("/* x */ [1,]").source(2)
        8
        """
        at = bisect_right(self.out, offset) - 1
        place = self.given[at] + offset - self.out[at]
        return min(place, self.given[at + 1]) if at + 1 < len(self.given) else place


def as_strict(text: str) -> Rewritten:
    """Rewrite JSON5 as JSON; text that is neither comes out with its faults in it.

    >>> as_strict("{a: 'x', b: [+1, 0xff,] /* c */ }").text
    '{"a": "x", "b": [1, 255]   }'
    """
    return _Writer(text).run()


class _Writer:
    def __init__(self, text: str) -> None:
        self.text, self.pieces, self.found = text, list[str](), Counter[str]()
        self.out, self.given, self.length = [0], [0], 0
        self.before = ""  # the first character of the last token that is no blank

    def run(self) -> Rewritten:
        position, end = 0, len(self.text)
        while position < end:
            match = _TOKEN.match(self.text, position)
            assert match is not None  # the last alternative takes any character
            kind, token = match.lastgroup or "", match[0]
            if kind == "mark" and token != ",":  # no JSON5 either: the reader will stop here, and so do we
                self._put(
                    f'"{self.text[position + 1 :]}' if token == "'" else self.text[position:], position, end - position
                )
                break
            getattr(self, f"_{kind}")(token, position)
            position += len(token)
            last = token.rstrip(" \t\n\r")[-1:] if kind == "strict" else token[0] if kind in _SOLID else ""
            self.before = last or self.before
        return Rewritten("".join(self.pieces), dict(self.found), tuple(self.out), tuple(self.given))

    def _put(self, piece: str, place: int, size: int) -> None:
        """Write a piece for `size` characters at `place`; pieces of another length part the two texts' steps."""
        if place - self.length != self.given[-1] - self.out[-1]:
            self._step(place)
        self.pieces.append(piece)
        self.length += len(piece)
        if len(piece) != size:
            self._step(place + size)

    def _step(self, place: int) -> None:
        if self.out[-1] == self.length:
            self.given[-1] = place
        else:
            self.out.append(self.length)
            self.given.append(place)

    def _strict(self, token: str, place: int) -> None:
        self._put(token, place, len(token))

    def _odd(self, token: str, place: int) -> None:
        self.found["other white space"] += 1
        self._put(" " * len(token), place, len(token))

    def _comment(self, token: str, place: int) -> None:
        self.found["comments"] += 1
        self._put(" ", place, len(token))

    def _word(self, token: str, place: int) -> None:
        after = _BLANK.match(self.text, place + len(token)).end()  # type: ignore[union-attr]
        if self.before in ("{", ",") and self.text[after : after + 1] == ":":
            self.found["unquoted keys"] += 1
            self._put(f'"{token}"', place, len(token))
        else:
            self._put(token, place, len(token))

    def _number(self, token: str, place: int) -> None:
        spelled = _number_as_json(token)
        if spelled != token:
            self.found["hexadecimal numbers" if token.lstrip("+-")[1:2] in ("x", "X") else "JSON5 numbers"] += 1
        if spelled != token and self.pieces and (self.pieces[-1][-1:].isalnum() or self.pieces[-1][-1:] == "."):
            self._put(" ", place, 0)  # 1+2 must not become 12
        self._put(spelled, place, len(token))

    def _mark(self, token: str, place: int) -> None:
        if token == "," and self.before not in ("", "[", "{", ",", ":"):
            after = _BLANK.match(self.text, place + 1).end()  # type: ignore[union-attr]
            if self.text[after : after + 1] in ("]", "}"):
                self.found["trailing commas"] += 1
                self._put("", place, 1)
                return
        self._put(token, place, 1)

    def _string(self, token: str, place: int) -> None:
        if _STRICT_STRING.fullmatch(token):
            self._put(token, place, len(token))
            return
        if token[0] == "'":
            self.found["single quotes"] += 1
        self._put('"', place, 1)
        for match in _INSIDE.finditer(token, 1, len(token) - 1):
            piece = match[0]
            written = piece if len(piece) > 1 and piece[0] != "\\" else self._inside(piece)
            self._put(written, place + match.start(), len(piece))
        self._put('"', place + len(token) - 1, 1)

    def _inside(self, piece: str) -> str:
        """Give a character or an escape of a string as JSON writes it; one that even JSON5 has not stays as it is."""
        if _KEPT_ESCAPE.fullmatch(piece):
            return piece
        if piece[0] != "\\":
            if piece < " ":
                self.found["raw control characters"] += 1
            return json.dumps(piece, ensure_ascii=False)[1:-1]
        letter = piece[1:]
        if letter[0] in "123456789" or (letter[0] in "xu0" and len(letter) < 3 and letter != "0"):
            return piece
        self.found["JSON5 escapes"] += 1
        if letter in _LINE_ENDS:
            return ""
        if letter[0] == "x":
            return f"\\u00{letter[1:]}"
        return {"0": "\\u0000", "v": "\\u000b"}.get(letter) or json.dumps(letter, ensure_ascii=False)[1:-1]


def _number_as_json(token: str) -> str:
    """Spell a JSON5 number as JSON does; one that JSON cannot hold, or that JSON5 has not either, stays.

    >>> [_number_as_json(each) for each in ("+1", "-.5e3", "5.", "0x1F", "-0x0", "+Infinity", "007", "1.10")]
    ['1', '-0.5e3', '5.0', '31', '-0', 'Infinity', '007', '1.10']
    """
    if _STRICT_NUMBER.fullmatch(token):
        return token
    sign, digits = ("-" if token[0] == "-" else "", token.lstrip("+-"))
    if digits in ("Infinity", "NaN"):
        return digits if digits == "NaN" else sign + digits
    if digits[1:2] in ("x", "X"):
        return sign + str(int(digits, 16)) if len(digits) <= _MAX_HEX else token
    plain = sign + re.sub(r"\.(?![0-9])", ".0", f"0{digits}" if digits[0] == "." else digits)
    return plain if _STRICT_NUMBER.fullmatch(plain) else token
