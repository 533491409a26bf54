"""The page's pure functions on real inspections: JSON positions, fields and links, run in Chromium without the page."""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from page import ROOT

from inspector import compare, inspect
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
        (STATIC / f"{name}.js").read_text("utf-8")
        for name in ("core", "pane", "align", "scan", "links", "history", "grid", "flow")
    )
    page.add_script_tag(content=text)
    yield page
    page.close()


def wire(answer: dict[str, Any]) -> dict[str, Any]:
    return json.loads(payload.dumps(answer))


def panes_of(script: Any, *conversations: list[str], tokenizer: str = "bytes") -> None:
    """Put one pane a conversation into the script's `panes`, and their rows into `rows`."""
    answers = []
    for contents in conversations:
        said = [{"role": "user", "content": text} for text in contents]
        answers.append(wire(payload.answer(inspect(said, tokenizer=tokenizer, template="raw", clock=CLOCK), None)[0]))
    script.evaluate(
        """async answers => { FLAG = answers[0].legend.flags; KINDS = answers[0].legend.kinds; window.panes = [];
        for (const answer of answers) panes.push(new Pane().next((await opened(JSON.stringify(answer))).pane));
        window.rows = new Rows(panes); }""",
        answers,
    )


def test_the_stretches_that_differ_are_walked_one_by_one(script: Any) -> None:
    panes_of(script, ["same\nold\nsame\nend a\n"], ["same\nnew\nsame\nend b\n+\n++\n"], ["same\nold\nsame\n"])
    stops = script.evaluate("() => rows.differences().map(({ k, at }) => [k, at.map(i => i ?? null)])")
    # the changed words at their first byte; two more rows of B as one stretch; a row that C lacks
    assert stops == [[1, [5, 5, None]], [3, [14, None, None]], [3, [18, 18, None]], [4, [None, 20, None]]], stops
    panes_of(script, ["one two\nthree\n"], ["one two\nthree\n"])
    stops = script.evaluate("""() => { const { ids } = panes[1]; for (const i of [0, 4, 5, 9, 10]) ids[i]++;
        return new Rows(panes).differences().map(({ k, at }) => [k, at[0], at[1]]); }""")
    assert stops == [[0, 0, 0], [0, 4, 4], [1, 9, 9]], "equal text: every run of other ids, row by row"


@pytest.fixture(scope="module")
def loaded(script: Any) -> tuple[Any, Any]:
    """Two panes of one request (Qwen3, Llama 3.1) in the script's `state`, and the comparison they come from."""
    request = {"messages": MESSAGES, "tools": TOOLS}
    compared = compare(request, "qwen3", "qwen3,qwen3-0.6b@current", clock=CLOCK)
    answers = [wire(payload.answer(side, None)[0]) for side in (compared.a, compared.b)]
    script.evaluate(
        """async answers => { FLAG = answers[0].legend.flags; KINDS = answers[0].legend.kinds; const panes = [];
        for (const text of answers.map(answer => JSON.stringify(answer))) panes.push(new Pane().next((await opened(text)).pane));
        window.state = { panes, rows: new Rows(panes) }; }""",
        answers,
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


ROW_TEXTS = """() => Array.from({length: rows.n}, (_, k) => panes.map((pane, q) => rows.own[q][k] < 0 ? null : pane.text(...rows.span(q, k))))"""


@pytest.mark.parametrize("seed", range(6))
def test_rows_hold_every_pane_in_order_and_equal_lines_stand_side_by_side(script: Any, seed: int) -> None:
    rng = random.Random(seed)
    lines = [f"line {k}\n" for k in range(30)] + ["same\n"] * 8
    first = [rng.choice(lines) for _ in range(40)]
    texts = ["".join(first)]
    for _ in range(rng.randrange(1, 4)):
        other = list(first)
        for _ in range(rng.randrange(6)):
            at = rng.randrange(len(other))
            other[at : at + rng.randrange(3)] = [rng.choice([*lines, "new\n"]) for _ in range(rng.randrange(3))]
        texts.append("".join(other))
    panes_of(script, *([text] for text in texts))
    found = script.evaluate(ROW_TEXTS)
    tags = script.evaluate("() => rows.tags.map(tags => Array.from(tags))")
    tokens = script.evaluate("() => rows.token.map(column => Array.from(column))")
    for q, text in enumerate(texts):
        column = [row[q] for row in found]
        assert "".join(part for part in column if part is not None) == text
        assert tokens[q][0] == 0 and tokens[q] == sorted(tokens[q]) and tokens[q][-1] == len(text.encode())
        for k, row in enumerate(found):
            assert q == 0 or tags[q][k] == (0 if row[q] == row[0] else 1)
        equal = sum(row[q] is not None and row[q] == row[0] for row in found)
        matcher = difflib.SequenceMatcher(None, texts[0].splitlines(), text.splitlines(), autojunk=False)
        assert equal >= sum(block.size for block in matcher.get_matching_blocks()), "no worse than difflib"
        whole = all(row[q] == row[0] for row in found)
        assert whole == (text == texts[0])


def test_a_changed_line_stands_beside_its_counterpart_in_every_pane(script: Any) -> None:
    panes_of(script, ["a\nold\nb\nc"], ["a\nnew\nextra\nb\nc"], ["a\nb\nc"])
    assert script.evaluate(ROW_TEXTS) == [
        ["a\n", "a\n", "a\n"],
        ["old\n", "new\n", None],
        [None, "extra\n", None],
        ["b\n", "b\n", "b\n"],
        ["c", "c", "c"],
    ]
    assert script.evaluate("() => rows.tags.map(tags => Array.from(tags))")[1:] == [[0, 1, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert script.evaluate("() => [rows.linked(0, 2, 1), rows.linked(1, 2, 2), rows.linked(2, 2, 1)]") == [[2, 5], None, [12, 13]]  # fmt: skip


def test_messages_of_unlike_templates_stand_beside_each_other(script: Any) -> None:
    """ChatML, Llama 3's headers and Jinja without line breaks: the same field, line by line, whatever stands around it."""
    told = ["Be brief.\nSecond {k}", "Hello\nthere\n\n{k}", "Hi {k}", "Same", "Same", "What is {k}?"]
    said = [{"role": ("user", "assistant")[k % 2], "content": told[k % 6].replace("{k}", str(k))} for k in range(24)]
    inline = "{% for m in messages %}{% if loop.index0 != 4 %}[{{ m.role }}]{{ m.content | trim }}</s>{% endif %}{% endfor %}[end]"
    plain = "{% for m in messages %}{{ 'USER: ' if m.role == 'user' else ' ASSISTANT: ' }}{{ m.content }}{% endfor %}"
    sides = [("qwen3", "chatml", None), ("llama3", None, None), ("bytes", None, inline), ("bytes", None, plain)]
    answers = [
        wire(
            payload.answer(
                inspect(said, tokenizer=tokenizer, template=template, template_text=text, clock=CLOCK), None
            )[0]
        )
        for tokenizer, template, text in sides
    ]
    found = script.evaluate(
        """async answers => { FLAG = answers[0].legend.flags; KINDS = answers[0].legend.kinds; window.panes = [];
        for (const answer of answers) panes.push(new Pane().next((await opened(JSON.stringify(answer))).pane));
        window.rows = new Rows(panes);
        const rowsOf = (q, steps) => { const at = bytesOfField(panes[q], { steps, from: null, to: null }); return at.flatMap(([a, b]) => [a, b - 1].map(byte => rows.ofToken(q, tokensTouching(panes[q], [[byte, byte + 1]])[0][0]))); };
        return Array.from({ length: 24 }, (_, k) => panes.map((_pane, q) => rowsOf(q, ['messages', k, 'content']))); }""",
        answers,
    )
    for k, (first, *others) in enumerate(found):
        for q, other in enumerate(others):
            assert other == ([] if (k, q) == (4, 1) else first), (
                k,
                q,
                "first and last line of each content, side by side",
            )
    texts = script.evaluate(ROW_TEXTS)
    assert "".join(row[2] or "" for row in texts) == script.evaluate("() => panes[2].text(0, panes[2].bytes.length)")
    prompts = [row for row in texts if row[0] == "<|im_start|>assistant\n"]
    assert prompts[-1][1] == "<|start_header_id|>assistant<|end_header_id|>\n\n", "generation prompts too"


def test_long_texts_are_split_at_lines_that_occur_once(script: Any) -> None:
    left = [f"row {k}\n" for k in range(3000)]
    right = [line if k % 7 else f"other {k}\n" for k, line in enumerate(left)]
    panes_of(script, ["".join(left)], ["".join(right)])
    tags = script.evaluate("() => Array.from(rows.tags[1])")
    assert tags == [int(k % 7 == 0) for k in range(3000)]


def test_a_row_ends_after_the_empty_lines_and_never_inside_a_token(script: Any) -> None:
    panes_of(script, ["one\n\n\ntwo\n  three"], tokenizer="smollm2")
    assert [row[0] for row in script.evaluate(ROW_TEXTS)] == ["one\n\n\n", "two\n ", " three"], (
        "smollm2 has a token of a line feed and a space"
    )


@pytest.mark.parametrize("tokenizer", ["smollm2", "qwen3"])
def test_answers_of_what_changed_give_the_pane_and_the_lines_of_whole_ones(script: Any, tokenizer: str) -> None:
    rng, contents, sent, answers, wholes = (
        random.Random(5),
        ["é🦊 line\n" * 9, "second\n\n", "third " * 40],
        None,
        [],
        [],
    )
    for _ in range(14):
        k, text = rng.randrange(3), rng.choice(["", "x", "<|im_end|>", "\n", "🦊\n\n", "a longer line of text "])
        at = rng.randrange(len(contents[k]) + 1)
        contents[k] = contents[k][:at] + text + contents[k][at + rng.randrange(3) :]
        said = [{"role": ("user", "assistant")[j % 2], "content": each} for j, each in enumerate(contents)]
        inspection = inspect(said, tokenizer=tokenizer, template="chatml", clock=CLOCK)
        answer, sent = payload.answer(inspection, sent)
        answers.append(json.dumps(wire(answer)))
        wholes.append(json.dumps(wire(payload.answer(inspection, None)[0])))
    wrong = script.evaluate(
        """async ([answers, wholes]) => { let held = new Pane(); measure.font = 'x'; const wrong = [];
        const same = (a, b) => a.length === b.length && Array.from(a).every((value, k) => value === b[k]);
        for (let k = 0; k < answers.length; k++) {
          const read = await opened(answers[k]); FLAG = read.legend.flags; KINDS = read.legend.kinds;
          held = held.next(read.pane);
          const whole = new Pane().next((await opened(wholes[k])).pane);
          for (const name of ['bytes', 'ids', 'flags', 'start', 'end', 'segment']) if (!same(held[name], whole[name])) wrong.push([k, name]);
          for (const name of Object.keys(whole.segments)) if (!same(held.segments[name], whole.segments[name])) wrong.push([k, name]);
          if (!same(held.paths, whole.paths) || held.piece(0) !== whole.piece(0) || held.piece(held.n - 1) !== whole.piece(whole.n - 1)) wrong.push([k, 'names']);
          const [ours, theirs] = [layoutFlow(held, 40), layoutFlow(whole, 40)];
          for (const name of ['lineStart', 'rowLine']) if (!same(ours[name], theirs[name])) wrong.push([k, name, [...ours[name]].join(), [...theirs[name]].join()]);
        }
        return wrong; }""",
        [answers, wholes],
    )
    assert wrong == []
