"""Every string of the interface, in English and Chinese: one module a topic, joined here.

`{name}` is filled in by the page. Messages of errors and the field's own names are not translated. A test holds the two
languages to the same keys, and every key to one topic.
"""

from __future__ import annotations

from inspector.ui.strings import (
    datasets,
    diff,
    findings,
    form,
    gallery,
    media,
    model,
    page,
    panes,
    records,
    sharing,
    status,
    template,
    tools,
    training,
    why,
)

TOPICS = (
    page,
    panes,
    diff,
    form,
    gallery,
    media,
    records,
    template,
    tools,
    training,
    why,
    findings,
    sharing,
    model,
    status,
    datasets,
)

STRINGS: dict[str, dict[str, str]] = {
    "en": {key: text for topic in TOPICS for key, text in topic.ENGLISH.items()},
    "zh": {key: text for topic in TOPICS for key, text in topic.CHINESE.items()},
}
