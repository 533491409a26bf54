"""Any text in any number of tokenizers, without a template; asked for when the tab is opened.

vocabularies.py compares; here its values become what the page draws: bounded, and cut into readable pieces. It also
puts what `differences/1` found into rows with a verdict.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from inspector.errors import ErrorKind, InspectorError
from inspector.ui.views.base import View

if TYPE_CHECKING:
    from inspector.vocabularies import SideBySide, Stretch, VocabularyRow

MAX_CHARS = 20_000
MAX_TOKENIZERS = 24
MOST_TOKENS = 600  # ids and pieces shown of one tokenizer
MOST_STRETCHES = 300


def checked(text: Any, refs: Any, prices: Any) -> tuple[str, list[str], dict[str, float]]:
    """Give the text, the references and the prices per million tokens by reference.

    Errors: OptionInvalid for other values; InputTooLarge for too much of them.
    """
    sound = isinstance(text, str) and isinstance(refs, list) and all(isinstance(ref, str) for ref in refs)
    if not sound:
        raise InspectorError(
            ErrorKind.OptionInvalid, "there is no text or no tokenizer", stage="options", remedy="reload the page"
        )
    if not isinstance(prices, dict) or not all(map(_is_price, prices.values())):
        raise InspectorError(
            ErrorKind.OptionInvalid,
            "a price is a number from 0 to a thousand million",
            stage="options",
            where={"option": "price"},
            remedy="write it like 2.5, or leave it empty",
        )
    if not refs:
        raise InspectorError(ErrorKind.OptionInvalid, "no tokenizer is chosen", stage="options", remedy="choose one")
    if len(text) > MAX_CHARS or len(refs) > MAX_TOKENIZERS:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{len(text):,} characters in {len(refs)} tokenizers; the page compares up to {MAX_CHARS:,} in "
            f"{MAX_TOKENIZERS}",
            stage="encode",
            remedy="shorten the text, or run python -m inspector tokenizers",
        )
    return text, list(dict.fromkeys(refs)), {str(name): float(price) for name, price in prices.items()}


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e9


def table(side: SideBySide, refs: list[str]) -> dict[str, Any]:
    """Give the columns of a comparison: rows with the reference that was chosen, and stretches cut into pieces.

    A stretch's `cuts` are in the order of the rows: two references may lead to one tokenizer.
    """
    data = side.text.encode()
    stretches = [_stretch(stretch, data) for stretch in side.differing[:MOST_STRETCHES]]
    return {
        "num_bytes": len(data),
        "num_chars": len(side.text),
        "rows": [_row(row, ref) for row, ref in zip(side.rows, refs, strict=True)],
        "num_shared": len(side.shared_boundaries),
        "differing": stretches,
        "left_out": len(side.differing) - len(stretches),
    }


def _row(row: VocabularyRow, ref: str) -> dict[str, Any]:
    shown = [piece.decode("utf-8", "backslashreplace") for piece in row.pieces[:MOST_TOKENS]]
    return {
        "ref": ref,
        "tokenizer": row.tokenizer,
        "num_tokens": row.num_tokens,
        "bytes_per_token": row.bytes_per_token,
        "ids": row.input_ids[:MOST_TOKENS],
        "pieces": shown,
    }


def _stretch(stretch: Stretch, data: bytes) -> dict[str, Any]:
    cuts = [pieces(data, [stretch.start, *cuts, stretch.end]) for _name, cuts in stretch.cuts]
    return {"start": stretch.start, "end": stretch.end, "cuts": cuts}


def pieces(data: bytes, edges: list[int]) -> list[str]:
    """Cut bytes at their edges; bytes that are no whole character are spelled.

    >>> pieces("aé".encode(), [0, 2, 3])
    ['a\\\\xc3', '\\\\xa9']
    """
    return [data[a:b].decode("utf-8", "backslashreplace") for a, b in itertools.pairwise(edges)]


# --- differences that bite -----------------------------------------------------------------------------------------------


def verdicts(found: dict[str, Any], loading_error: str | None = None) -> dict[str, Any]:
    """Put `differences/1` into rows {part, verdict: ok | bites | unknown, facts, remarks}.

    `facts` are names and values, which are the same in every language; `remarks` say what follows from them.
    """
    makers = (_loading, _rebuilt, _file, _sizes, _ends, _bos, _pattern)
    rows = [make(found) for make in makers]
    rows[0]["remarks"] += [loading_error] if loading_error else []
    return {"tokenizer": found["tokenizer"], "rows": rows}


def _verdict(part: str, bites: bool | None, facts: list[list[Any]], remarks: list[str]) -> dict[str, Any]:
    verdict = "unknown" if bites is None else "bites" if bites else "ok"
    return {"part": part, "verdict": verdict, "facts": facts, "remarks": remarks}


def _loading(found: dict[str, Any]) -> dict[str, Any]:
    loading = found["loading"]
    if loading is None:
        return _verdict("loading", None, [], [])
    facts = [["class", rule["b"]] for rule in loading["rules"] if rule["rule"] == "class"]
    facts.append(["differing_texts", f"{loading['differing']} / {loading['num_texts']}"])
    first = loading["first"]
    if first is not None:
        facts += [["text", first["text"]], ["file_gives", " ".join(first["a"])], ["auto_gives", " ".join(first["b"])]]
    return _verdict("loading", loading["differing"] > 0, facts, [])


def _rebuilt(found: dict[str, Any]) -> dict[str, Any]:
    return _verdict("rebuilt", found["reconstructed"], [], [])


def _file(found: dict[str, Any]) -> dict[str, Any]:
    remarks = found["file"]["remarks"]
    return _verdict("file", bool(remarks), [], remarks)


def _sizes(found: dict[str, Any]) -> dict[str, Any]:
    sizes = found["sizes"]
    facts = [["vocab_size", sizes["vocab_size"]], ["len(tokenizer)", sizes["size"]], ["embedding_rows", sizes["rows"]]]
    facts += [["no_row", f"{token_id} {piece}"] for token_id, piece in sizes["outside"]]
    bites = None if sizes["rows"] is None else sizes["rows"] != sizes["size"]
    return _verdict("sizes", bites, facts, sizes["remarks"])


def _ends(found: dict[str, Any]) -> dict[str, Any]:
    ends = found["ends"]
    facts = [
        ["tokenizer_eos", _named([ends["tokenizer_eos"]])],
        ["generation_eos", _named(ends["generation_eos"])],
        ["turn_terminator", _named([ends["turn_terminator"]])],
    ]
    known = sum(1 for _name, text in facts if text)
    return _verdict("ends", bool(ends["remarks"]) if known > 1 or ends["remarks"] else None, facts, ends["remarks"])


def _bos(found: dict[str, Any]) -> dict[str, Any]:
    bos = found["bos"]
    facts = [["bos", _named([bos["bos"]])], ["tokenizer_adds", bos["tokenizer_adds"]],
             ["template_writes", bos["template_writes"]]]  # fmt: skip
    return _verdict("bos", bool(bos["remarks"]), facts, bos["remarks"])


def _pattern(found: dict[str, Any]) -> dict[str, Any]:
    pattern = found["pattern"]
    remark = [pattern["remark"]] if pattern["remark"] else []
    known = pattern["known"]
    return _verdict("pattern", None if known is None and not remark else bool(remark), [["pattern", known]], remark)


def _named(tokens: list[list[Any] | None]) -> str:
    """Spell tokens as `id piece`; "" for none."""
    return ", ".join(f"{token[0]} {token[1]}" for token in tokens if token)


VIEW = View("tokenizers")
