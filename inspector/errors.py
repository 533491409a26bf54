"""One error type for every stage, with a kind, a place, a rule and a remedy.

This module does not print anything: shells turn an `InspectorError` into their
own line (command line, page, JSON).
"""

from __future__ import annotations

import enum
import re
from typing import Any

MESSAGE_CHARS = 2000  # of foreign text in one error
# What steers a terminal, forges a line of a log, or reorders what stands beside it.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)

EXIT_CODES = {
    0: "fine",
    1: "`compare` or `replay` found a difference, or `lint` or `scan` what `--fail-on` names",
    2: "the input is wrong",
    3: "an artifact cannot be had",
    4: "a limit was exceeded",
    130: "stopped by Ctrl-C",
}


class ErrorKind(enum.Enum):
    """What went wrong; the value is the command line's exit code (2 input, 3 artifact, 4 limit)."""

    def __new__(cls, exit_code: int) -> ErrorKind:
        member = object.__new__(cls)
        member._value_ = (len(cls.__members__), exit_code)
        member.exit_code = exit_code
        return member

    exit_code: int

    InputInvalid = 2  # the request or one of its fields breaks a rule
    OptionInvalid = 2  # an option has a wrong value, or two options contradict each other
    UnencodableText = 2  # a lone surrogate: text that has no UTF-8 form
    UnknownPreset = 2  # no preset of that id
    UnknownModel = 2  # an OpenAI model name that no rule covers
    SecretFound = 2  # what would be recorded holds a secret
    RecordInvalid = 2  # no record, of another schema, or changed after it was sealed
    ContinuationInvalid = 2  # continue_final_message cannot be honoured on this render
    TemplateSyntax = 2  # Jinja cannot parse the template
    TemplateTooComplex = 2  # the template nests deeper than the parser or compiler can go
    TemplateRaised = 2  # the template called raise_exception
    TemplateRuntime = 2  # an operation inside the template failed
    TemplateUnsupported = 2  # the template needs a feature that the engine lacks (include, import, extends)
    TemplateMissing = 2  # the repository has no chat template, or none of that name
    SandboxBlocked = 2  # the template touched an attribute that the sandbox forbids
    SandboxLimit = 4  # the template asks for more than Jinja's own sandbox gives: a range over 100,000
    TokenizerInvalid = 2  # the tokenizer's files cannot be parsed or used
    TokenizerRegexLimit = 2  # a pattern of the tokenizer ran out of its matching budget
    UnsupportedTokenizerClass = 2  # a tokenizer class that no family here implements
    RemoteCodeRefused = 2  # the repository asks for its own Python code to be run
    GgufInvalid = 2  # a GGUF file's header or metadata breaks the format
    FileNameInvalid = 2  # a file name outside the fixed list
    RepoNameInvalid = 2  # not an ORG/NAME
    RevisionInvalid = 2  # not a branch, tag, commit or PR reference
    MediaInvalid = 2  # an image that cannot be decoded, or is another one than it says
    MediaMismatch = 2  # images and placeholders of the prompt do not go together
    ModelInvalid = 2  # the model's files or configuration cannot be loaded
    WeightsIncomplete = 2  # tensors of the model are missing: its outputs would be noise
    UnsafeWeights = 2  # weights in a format that can run code
    TokenOutOfModelVocab = 2  # a token id at or above the model's number of embedding rows
    NonFiniteLogits = 2  # the model returned NaN or infinity
    CapabilityMissing = 2  # the logits backend cannot give what was asked for
    ArtifactUnavailable = 3  # it cannot be fetched (no network, no client, not in the registry)
    ArtifactMismatch = 3  # it was fetched, and its SHA-256 is not the pinned one
    HubNotFound = 3  # the Hub knows no such repository, revision or file
    HubGated = 3  # the repository is gated and this account has no access
    HubAuth = 3  # the Hub refused the token
    HubTimeout = 3  # the Hub did not answer in time
    HubError = 3  # the Hub answered with an error
    ServerUnreachable = 3  # no connection to a model server
    ServerAuth = 3  # a model server wants a key, or refuses ours
    ServerModelMissing = 3  # a model server has no model of that name
    ServerBusy = 3  # a model server takes no request now
    ServerError = 3  # a model server failed, or its answer is none
    LogprobsMissing = 3  # a model server answered without the log-probabilities that were asked for
    CacheFull = 3  # the disk or the cache's own bound is full
    InputTooLarge = 4  # bytes or counts of the request over the limit (too deep a nesting is InputInvalid)
    OutputTooLarge = 4  # the rendered text or the answer over the limit
    TimeLimit = 4  # CPU or wall clock
    MemoryLimit = 4  # address space
    RecursionLimit = 4  # the interpreter's stack
    WorkerCrashed = 4  # the child died by a signal
    PromptTooLong = 4  # more tokens than the model's window or the server's limit
    Busy = 4  # the page has too many calls waiting, of this visitor or of all
    BudgetExceeded = 4  # required parts do not fit the context window


class InspectorError(Exception):
    """An error that a person can act on.

    `stage` is the pipeline stage ("request", "messages", "template", "render", "encode", "budget",
    "media", "tensors", "logits", "source", "options", "sandbox"), `where` names the place in that stage's own terms
    (`{"path": "messages[2].content"}`, `{"line": 3, "column": 7}`, `{"byte": 17}`, `{"option": "--set"}`, ...;
    JSON values only), `message` says the value and the rule, `remedy` the exact field or option to change.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, stage: str, where: dict[str, Any] | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.stage, self.where, self.remedy = kind, message, stage, where or {}, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return (InspectorError.from_dict, (self.to_dict(),))

    def to_dict(self) -> dict[str, Any]:
        """Give the `error` object of `inspection/1`: stage, kind, message, where, remedy."""
        return {
            "stage": self.stage,
            "kind": self.kind.name,
            "message": self.message,
            "where": self.where or None,
            "remedy": self.remedy,
        }

    @classmethod
    def from_dict(cls, error: dict[str, Any]) -> InspectorError:
        """Rebuild the error that `to_dict` described."""
        return cls(
            ErrorKind[error["kind"]],
            error["message"],
            stage=error["stage"],
            where=error["where"] or {},
            remedy=error["remedy"],
        )

    def place(self) -> str:
        """Say where, in words: each key of `where`; a template's line and the message whose loop was active as such.

        >>> where = {"line": 12, "path": "messages[3]", "message": 3}
        >>> InspectorError(ErrorKind.TemplateRaised, "no", stage="render", where=where).place()
        'template line 12, while rendering messages[3]'
        """
        named = {key: f"{key} {value}" for key, value in self.where.items()}
        if "line" in named and self.stage in ("template", "render"):
            named["line"] = f"template {named['line']}"
        if "message" in named:
            named["message"] = f"while rendering messages[{self.where['message']}]"
            named.pop("path", None)
        return ", ".join(named.values())

    def one_line(self) -> str:
        """Give the error as one readable line: kind, place, message, remedy. Nothing foreign in it can break the line,
        steer a terminal or reorder it.

        >>> InspectorError(ErrorKind.TemplateRaised, "a\\n\\x1b[31mb\\u202e", stage="render").one_line()
        'TemplateRaised: a ‹001B›[31mb‹202E›'
        """
        place = self.place()
        line = f"{self.kind.name}{f' at {place}' if place else ''}: {self.message}"
        if self.remedy:
            line += f" -> {self.remedy}"
        return single_line(line)


def single_line(text: str) -> str:
    """Write text with foreign parts as one line; what would steer a terminal or reorder the line becomes visible.

    >>> single_line("a \\n b\\x1b")
    'a b‹001B›'
    """
    return _STEERING.sub(lambda found: f"‹{ord(found[0]):04X}›", " ".join(text.split()))


def clipped(text: str, most: int = MESSAGE_CHARS) -> str:
    """Cut foreign text that goes into an error.

    >>> clipped("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
