"""null that is printed as a word."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    for line in subject.facts.null_filters:
        yield RULE.finding("a string filter on null prints the word None here, and nothing in minja", {"line": line})
    indexes = [at for at, message in enumerate(subject.messages) if "content" in message and message["content"] is None]
    if not indexes or subject.rendered is None:
        return
    given = subject.probes.messages()
    kept = [{**message, "content": None} if at in indexes else message for at, message in enumerate(given)]
    text = subject.probes.bare("null content kept", messages=kept)
    ours = subject.probes.as_given().text
    if text is not None and ours is not None and text.count("None") > ours.count("None"):
        yield RULE.finding(
            "a program that passes null on prints the word None into the prompt",
            {"path": f"messages[{indexes[0]}].content"},
        )


RULE = Rule(
    id="null-printed",
    topic="template-engine",
    severity=Severity.WARNING,
    title="null reaches text and is printed as the word None",
    why="Jinja prints None, other engines print nothing or null: the model reads a word that nobody wrote",
    remedy="send an empty string; write {{ value or '' }} in the template",
    check=check,
)
