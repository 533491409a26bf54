"""Documents that are not in the prompt."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.findings import Finding, Severity
from inspector.lint.base import Need, Rule
from inspector.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    request = subject.inspection.request
    for index, document in enumerate((request.documents or []) if request is not None else []):
        path = f"documents[{index}]"
        if subject.traced and not subject.covered(path) and not subject.gone(path) and document:
            reads = "" if "documents" in subject.facts.names else "; the template never reads documents"
            yield RULE.finding(f"nothing of this document is in the prompt{reads}", {"path": path})


RULE = Rule(
    id="documents-unread",
    topic="roles",
    severity=Severity.ERROR,
    title="a document is silently absent from the prompt",
    why="the model answers without what was retrieved",
    remedy="use a template with documents, or put their text into a message",
    check=check,
    live=True,
    needs=Need.DOCUMENTS,
)
