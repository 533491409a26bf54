"""The media of an inspection: each part with its identity, its placeholder, its tokens in the input, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.encode import Encoding, control_mask
from inspector.errors import ErrorKind, InspectorError
from inspector.media.base import MediaRule
from inspector.media.expand import expand
from inspector.media.measure import MAX_POSITIONS, MediaItem
from inspector.media.parts import media_parts
from inspector.media.placeholders import Placeholder, Problem, bind, find_placeholders, written_literal
from inspector.render import Rendered, given_indexes
from inspector.tokenizers.base import Tokenizer

_SPELLED = (
    "the tokenizer lacks a token of this rule: its text is cut into ordinary tokens, the count is not the model's"
)
EXPANSIONS = ("auto", "written", "expanded")


@dataclass(frozen=True, slots=True)
class Media:
    """The measured media of a request, and how they are to be counted. `expanded`: the prompt holds what the processor
    writes for an image, not the placeholder that the template wrote; `strict`: what cannot be so counted is an error, else
    it stays as written and is said."""

    items: tuple[MediaItem, ...]
    rule: MediaRule | None
    image_tokens: int | None
    expanded: bool
    strict: bool

    def literal(self, rendered: Rendered, tokenizer: Tokenizer) -> str | None:
        """Give the placeholder's text: the rule's, or the one that the template wrote."""
        return written_literal(rendered, tokenizer) if self.rule is None else self.rule.placeholder

    def applied(self, rendered: Rendered, messages: Sequence[dict[str, Any]], tokenizer: Tokenizer) -> Rendered:
        """Write the images of these messages (of the request, or some of them) into their rendered prompt.

        Errors, where `strict`: those of an image; MediaMismatch where images and placeholders do not go together.
        """
        parts = media_parts(messages, given_indexes(messages))
        literal = self.literal(rendered, tokenizer)
        if rendered.kind != "bytes" or not parts:
            return rendered
        item_of = {item.part.path: item for item in self.items}
        items = [item_of[part.path] for part in parts]
        try:
            for item in items:
                if self.strict and item.error is not None:
                    raise item.error
            texts = {item.part.path: self._text(item, literal or "") for item in items}
            written = {path: text for path, text in texts.items() if text is not None}
            return expand(rendered, parts, literal or "", written)
        except InspectorError:
            if self.strict:
                raise
            return rendered

    def _text(self, item: MediaItem, literal: str) -> str | None:
        if item.text is None and self.image_tokens is not None and item.part.kind == "image":
            return literal * self.image_tokens
        return item.text


@dataclass(frozen=True, slots=True)
class MediaReport:
    """What is said of the media of one input, after it was tokenized.

    `tokens`: by path, half-open token range. `spelled`: the images whose placeholders the tokenizer has no token for.
    """

    media: Media
    literal: str | None
    placeholders: tuple[Placeholder, ...]
    of: Mapping[str, Placeholder]
    tokens: Mapping[str, tuple[int, int]]
    problems: tuple[Problem, ...]
    spelled: frozenset[str] = frozenset()

    def items_dict(self) -> list[dict[str, Any]]:
        """Give the `media` list of `inspection/1`."""
        return [self._item(item) for item in self.media.items]

    def _item(self, item: MediaItem) -> dict[str, Any]:
        path = item.part.path
        place, tokens = self.of.get(path), self.tokens.get(path)
        problem = next((problem for problem in self.problems if problem.path == path), None)
        given = item.to_dict()
        spelled = [_SPELLED] if path in self.spelled else []
        return {
            **given,
            "estimate": item.estimate or bool(spelled),
            "notes": [*given["notes"], *spelled],
            "placeholder": None if place is None else {"byte": place.start, "line": place.line},
            "tokens": None if tokens is None else list(tokens),
            "error": given["error"] or (None if problem is None else problem.error().to_dict()),
        }

    def rule_dict(self) -> dict[str, Any]:
        """Give the `media_rule` object of `inspection/1`."""
        rule = self.media.rule
        return {
            "rule": None if rule is None else rule.to_dict(),
            "expanded": self.media.expanded,
            "literal": self.literal,
            "written": sum(1 for place in self.placeholders if place.by != "content"),
            "typed": [place.path for place in self.placeholders if place.by == "content"],
            "problems": [
                {"path": problem.path, "what": problem.what, "remedy": problem.remedy, "stops": problem.stops}
                for problem in self.problems
            ],
        }


def check_media_options(expansion: str, image_tokens: int | None) -> None:
    """Errors: OptionInvalid for a way of counting that does not exist, and for a number of tokens that none can have."""
    if expansion not in EXPANSIONS:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"{expansion!r} is none of {', '.join(EXPANSIONS)}", stage="media",
            where={"option": "--media"}, remedy="write --media expanded",
        )  # fmt: skip
    if image_tokens is not None and not 0 < image_tokens <= MAX_POSITIONS:
        raise InspectorError(
            ErrorKind.OptionInvalid, f"{image_tokens} is no number of tokens of an image", stage="media",
            where={"option": "--image-tokens"}, remedy=f"give a number from 1 to {MAX_POSITIONS}",
        )  # fmt: skip


def report(media: Media, messages: Sequence[dict[str, Any]], encoding: Encoding, *, whole: bool) -> MediaReport:
    """Bind the images of the input's messages, and find their tokens.

    `messages`: those that are in the input; `whole`: no token of it was cut away.
    """
    parts, rendered = media_parts(messages, given_indexes(messages)), encoding.rendered
    literal = media.literal(rendered, encoding.tokenizer)
    found = find_placeholders(rendered, literal) if literal else []
    of = {str(place.path): place for place in found if place.by == "image"}
    bound = bind([part for part in parts if part.path not in of], found)
    problems = [problem for problem in bound.problems if whole or not problem.stops]
    if rendered.kind != "bytes":
        problems = []
    of.update(bound.of)
    tokens = {path: _tokens_of_bytes(encoding, place) for path, place in of.items()}
    spelled = frozenset(path for path, span in tokens.items() if whole and not _has_tokens(media, path, span, encoding))
    return MediaReport(media, literal, tuple(found), of, tokens, tuple(problems), spelled)


def _has_tokens(media: Media, path: str, span: tuple[int, int], encoding: Encoding) -> bool:
    """Say whether there are as many control tokens as the image has positions, or one where it was not expanded."""
    item = next(item for item in media.items if item.part.path == path)
    wanted = max(1, item.positions or 0) if media.expanded and item.memory is None else 1
    return int(control_mask(encoding.flags[slice(*span)]).sum()) >= wanted


def _tokens_of_bytes(encoding: Encoding, place: Placeholder) -> tuple[int, int]:
    first = int(np.searchsorted(encoding.end, place.start, side="right"))
    last = int(np.searchsorted(encoding.start, place.end, side="left"))
    return first, last
