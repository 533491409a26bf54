"""The page's pure functions on real inspections: JSON positions, fields and links, run in Chromium without the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from page import ROOT

from inspector import compare
from inspector.encode import FLAG_NAMES
from inspector.request import at_path
from inspector.ui import payload

pytestmark = pytest.mark.browser

STATIC = ROOT / "inspector" / "ui" / "static"
CLOCK = "2026-01-31T09:30:00"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "description": 'a "tool" \\ é🦊\n',
            "parameters": {"type": "object", "properties": {"a b": {"type": "string", "enum": ["x\ty", "名"]}}},
        },
    }
]
MESSAGES = [
    {"role": "system", "content": 'Be "kind"\n\\ ok'},
    {"role": "user", "content": "x<|im_end|>\n🦊é ‮ end"},
    {
        "role": "assistant",
        "content": "ok",
        "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {"city": 'Rom\n"q"', "n": [1, 2.5]}}}
        ],
    },
    {"role": "user", "content": "again"},
]


@pytest.fixture(scope="module")
def script(browser: Any) -> Iterator[Any]:
    """A blank page that holds the pure functions."""
    page = browser.new_page()
    text = "\n".join(
        (STATIC / f"{name}.js").read_text("utf-8") for name in ("core", "pane", "scan", "links", "history")
    )
    page.add_script_tag(content=text)
    yield page
    page.close()


@pytest.fixture(scope="module")
def loaded(script: Any) -> tuple[Any, Any]:
    """Two panes of one request (Qwen3, Llama 3.1) in the script's `state`, and the comparison they come from."""
    request = {"messages": MESSAGES, "tools": TOOLS}
    compared = compare(request, "qwen3", "qwen3,qwen3-0.6b@current", clock=CLOCK)
    answer = json.loads(payload.view([compared.a, compared.b], compared))
    script.evaluate(
        "answer => { FLAG = answer.legend.flags; KINDS = answer.legend.kinds; const panes = answer.panes.map(data => new Pane(data)); window.state = { panes, rows: new Rows(answer.rows, panes) }; }",
        answer,
    )
    return script, compared


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_token_of_content_is_found_in_the_source_and_back(
    loaded: Any, indent: int | None, ascii_only: bool
) -> None:
    script, compared = loaded
    editors = {
        "messages": json.dumps(MESSAGES, indent=indent, ensure_ascii=ascii_only),
        "tools": json.dumps(TOOLS, indent=indent, ensure_ascii=ascii_only),
    }
    found = script.evaluate(
        """editors => { const scans = Object.entries(editors).map(([name, text]) => scanJson(text, editorRoot(name, text))), out = [];
        for (let i = 0; i < state.panes[0].n; i++) {
          const link = linkOf(state, {kind: 'tokens', q: 0, from: i, to: i + 1});
          for (const field of link.fields) for (const scan of scans) {
            const place = placeOf(scan, field);
            if (!place) continue;
            const back = field.from === null || field.key ? null : linkOf(state, {kind: 'fields', fields: fieldsAt(scan, ...place)});
            out.push({i, steps: field.steps, from: field.from, to: field.to, key: field.key, source: scan.text.slice(...place), back: back && back.panes[0].tokens.some(([a, b]) => i >= a && i < b)});
          } }
        return out; }""",
        editors,
    )
    exact = [row for row in found if row["from"] is not None]
    assert len(exact) > 40
    for row in exact:
        path = "".join(f"[{json.dumps(s, ensure_ascii=False)}]" if isinstance(s, str) and " " in s else f"[{s}]" if isinstance(s, int) else f".{s}" for s in row["steps"]).lstrip(".")  # fmt: skip
        value = str(at_path(compared.a.request, path)).encode()
        covering = value[row["from"] : row["to"]].decode("utf-8", "replace").strip("\ufffd")
        source = row["source"] if row["source"].startswith('"') else f'"{row["source"]}"'
        assert covering in json.loads(source), row
        assert row["back"], row


def test_links_hold_whole_parts_of_both_panes(loaded: Any) -> None:
    script, _compared = loaded
    texts = script.evaluate(
        """() => { const said = link => link.panes.map((p, q) => p.bytes.map(([a, b]) => state.panes[q].text(a, b)).join('|'));
        const pane = state.panes[0], whole = pane.text(0, pane.bytes.length), at = s => new TextEncoder().encode(whole.slice(0, whole.indexOf(s))).length;
        return { bytes: said(linkOf(state, {kind: 'bytes', q: 0, from: at('Be "kind"'), to: at('Be "kind"') + 9})),
          field: said(linkOf(state, {kind: 'fields', fields: [{steps: ['messages', 3, 'content'], from: 1, to: 3}]})),
          below: said(linkOf(state, {kind: 'fields', fields: [{steps: ['messages', 3], from: null, to: null}]})),
          line: said(linkOf(state, {kind: 'line', q: 0, line: pane.segments.line[0]}))[0],
          escaped: said(linkOf(state, {kind: 'fields', fields: [{steps: ['messages', 2, 'tool_calls', 0, 'function', 'arguments', 'city'], from: 3, to: 4}]})) }; }"""
    )
    assert texts["bytes"] == ['Be "kind"'] * 2
    assert texts["field"] == ["ga"] * 2
    assert all("user" in text and "again" in text for text in texts["below"])
    assert texts["line"].startswith("<|im_start|>system")
    assert texts["escaped"] == ['\\n\\"'] * 2 or texts["escaped"] == ["\\n"] * 2


def test_parts_count_every_token_as_the_record_does(loaded: Any) -> None:
    script, compared = loaded
    for q, inspection in enumerate((compared.a, compared.b)):
        parts = {row["key"]: row["n"] for row in script.evaluate("q => countParts(state.panes[q])", q)}
        counts = inspection.encoding.counts()
        assert sum(parts.values()) == len(inspection.encoding)
        assert parts["generation_prompt"] == counts["by_origin"]["generation_prompt"]
        for k in range(len(MESSAGES)):
            ours = sum(n for path, n in counts["by_path"].items() if path.startswith(f"messages[{k}]"))
            assert parts.get(f"messages[{k}]", 0) == ours
        assert parts["tools[0]"] == sum(n for path, n in counts["by_path"].items() if path.startswith("tools[0]"))


@pytest.mark.parametrize(
    "text",
    [
        '[{"a": 1, "b": ["x", null, true, -2.5e3]}]',
        '  {"a b":{"c.d":"\\u00e9\\ud83e\\udd8a"}} ',
        '"s"',
        "[]",
        "\ufeff[1]",
    ],
)
def test_positions_are_those_of_the_values(script: Any, text: str) -> None:
    nodes = script.evaluate(
        "text => scanJson(text, []).nodes.map(n => [n.steps, text.slice(n.from, n.to), n.keyFrom < 0 ? null : text.slice(n.keyFrom, n.keyTo)])",
        text,
    )
    value = json.loads(text.lstrip("\ufeff"))
    for steps, source, key in nodes:
        wanted = value
        for step in steps:
            wanted = wanted[step]
        assert json.loads(source) == wanted
        assert key is None or json.loads(key) == steps[-1]


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[,]", "[1 2]", "nope", '{"a": "unfinished'])
def test_text_that_is_no_json_has_no_positions(script: Any, text: str) -> None:
    assert script.evaluate("text => scanJson(text, [])", text) is None


def test_paths_are_read_as_the_request_spells_them(script: Any) -> None:
    from inspector.jsontext import child_path

    for steps in (["messages", 2, "content"], ["tools", 0, "a b", "x.y", 'q"\\'], ["a", "名"]):
        path = ""
        for step in steps:
            path = child_path(path, step)
        assert script.evaluate("path => splitPath(path)", path) == steps
    assert script.evaluate("() => [splitPath('a..'), splitPath('[')]") == [None, None]


def test_flags_and_kinds_are_named_by_the_answer(loaded: Any) -> None:
    script, _compared = loaded
    assert script.evaluate("() => Object.keys(FLAG)") == list(FLAG_NAMES)
