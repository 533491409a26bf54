"""The editors in a real Chromium: the form and the JSON text in step, one undo history, JSON5, layout, what is pasted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from page import HOSTILE, NARROW, ROOT, WIDE, Inspector, shot

from inspector.request import dump_request, parse_fields

pytestmark = pytest.mark.browser

STATIC = ROOT / "inspector" / "ui" / "static"
BENCH = "document.querySelector('#bench .ti').parentNode.bench"
# Spellings, key order, indentation and keys that no form knows; all must survive byte for byte.
SOURCE = """[
  {"role": "system", "content": "Be kind\\u002e", "weight": 1.50, "z": -0},
  { "content" :  "What is \\"this\\"?\\r\\n\\ud83e\\udd8a", "role":"user" ,"x":[1e5, {"a b": null}] },
  {"role": "assistant", "content": null, "reasoning_content": "hm",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"n": 1.0}}}]},
  {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a fox"}, {"type": "image"}]}
]"""


@pytest.fixture(scope="module")
def script(browser: Any) -> Iterator[Any]:
    """A blank page that holds the pure functions."""
    page = browser.new_page()
    page.add_script_tag(content="\n".join((STATIC / f"{name}.js").read_text("utf-8") for name in ("core", "pane", "scan", "links", "history")))  # fmt: skip
    yield page
    page.close()


@pytest.fixture(scope="module")
def shared(browser: Any, address: str) -> Iterator[Inspector]:
    """One page for the module: SmolLM2 with the template that joins contents, on both sides."""
    opened = Inspector(browser, address)
    yield opened
    opened.context.close()
    assert opened.outside == [] and opened.faults == []


@pytest.fixture
def bench(shared: Inspector) -> Inspector:
    for pane in (0, 1):
        shared.page.select_option(f'[data-in="tokenizer{pane}"]', "smollm2")
        shared.page.select_option(f'[data-in="template{pane}"]', "raw")
    for name in ("messages", "tools"):
        show(shared, "JSON", name)
    put(shared, "tools", "")
    put(shared, "messages", SOURCE)
    shared.page.evaluate(f"() => {{ const {{ writing }} = {BENCH}; writing.history = new writing.history.constructor(writing.texts()); writing.mark(); writing.hush(); }}")  # fmt: skip
    return shared


def put(bench: Inspector, name: str, value: str) -> None:
    """Set an editor's text at once: typing thousands of lines into a text area is slow in Chromium itself."""
    bench.page.locator(f'[data-in="{name}"]').evaluate("(node, value) => { node.value = value; node.dispatchEvent(new InputEvent('input', { bubbles: true })); }", value)  # fmt: skip
    bench.settle()


def text(bench: Inspector, name: str = "messages") -> str:
    return bench.page.input_value(f'[data-in="{name}"]')


def show(bench: Inspector, mode: str, name: str = "messages") -> None:
    bench.page.click(f'[data-field="{name}"] .ti-mode:text-is("{mode}")')


def field(bench: Inspector, path: str) -> Any:
    return bench.page.get_by_label(path, exact=True)


def card(bench: Inspector, index: int) -> Any:
    return bench.page.locator(f'[data-field="messages"] .ti-msg >> nth={index}')


def press(bench: Inspector, key: str) -> None:
    bench.page.keyboard.press(key)
    bench.settle()


def caret(bench: Inspector) -> list[Any]:
    return bench.page.evaluate("() => { const a = document.activeElement; return [a.dataset.in || a.getAttribute('aria-label'), a.selectionStart, a.selectionEnd]; }")  # fmt: skip


def after_caret(bench: Inspector) -> str:
    return bench.page.evaluate("() => { const a = document.activeElement; return a.value.slice(a.selectionStart); }")


# --- pure functions --------------------------------------------------------------------------------------------------


def test_scanner_and_server_agree_on_what_is_json5(script: Any) -> None:
    texts = ["[1,]", "[,]", "{a:1,}", "{a}", "[01]", "[.5,5.,+1,0x1F]", "[1+2]", "'a'", "'a\nb'", "'a\\\nb'", "[NaN]", "[1 2]",
             "/* x */ [1] // y", "[1] /*", '"\\x41"', '"\\x4"', '"\\1"', '"\\\\1"', "{'a b': 1, $c: 2}", "tru", "", "[" * 70 + "]" * 70]  # fmt: skip
    from inspector.errors import InspectorError
    from inspector.json5text import as_strict
    from inspector.jsontext import JsonLimits, loads

    def taken(source: str) -> bool:
        try:
            loads(as_strict(source).text, limits=JsonLimits(depth=200))
        except InspectorError:
            return False
        return True

    assert script.evaluate("texts => texts.map(text => scanJson(text, []) !== null)", texts) == [
        taken(source) for source in texts
    ]


def test_an_edit_of_a_string_writes_only_what_differs(script: Any) -> None:
    choose = random.Random(7)
    pieces = ["a", '"', "'", "\\", "\n", "\r\n", "\r", "é", "🦊", "🦋", "\0", " "]
    cases = [["".join(choose.choices(pieces, k=choose.randrange(8))) for _ in range(2)] + ["'\""[k % 2]] for k in range(800)]  # fmt: skip
    wrong = script.evaluate(
        r"""cases => cases.filter(([before, after, quote]) => {
          const wanted = after.replace(/\r\n?/g, '\n'), text = '[1, ' + quote + quoted(before, quote) + quote + ' ,2]', scan = scanJson(text, []);
          if (textOf(scan, scan.nodes[2]) !== before) return true;
          const made = applied(text, editString(scan, scan.nodes[2], wanted)), again = scanJson(made, []);
          return textOf(again, again.nodes[2]).replace(/\r\n?/g, '\n') !== wanted || again.nodes[3].kind !== 'number';
        })""",
        cases,
    )
    assert wrong == []
    kept = script.evaluate(r"""() => { const t = '["a\\u00e9\\r\\nb\\ud83e\\udd8a\\x41"]', s = scanJson(t, []); return applied(t, editString(s, s.nodes[1], 'a\u00e9\nXb\ud83e\udd8aA')); }""")  # fmt: skip
    assert kept == '["a\\u00e9\\r\\nXb\\ud83e\\udd8a\\x41"]', "escapes that were not touched stay as spelled"


@pytest.mark.parametrize("indent", [None, 3])
def test_layout_changes_blanks_only(script: Any, indent: int | None) -> None:
    whole = json.loads(
        SOURCE, parse_float=lambda digits: int(float(digits))
    )  # JSON.stringify spells floats its own way
    value = json.dumps(whole, indent=indent, ensure_ascii=False)
    spaced, small = script.evaluate("text => [laidOut(text, '  '), laidOut(text, '')]", value)
    assert spaced == script.evaluate("text => JSON.stringify(JSON.parse(text), null, 2)", value)
    assert small == script.evaluate("text => JSON.stringify(JSON.parse(text))", value)
    loose = "// head\n[ /*a*/ {role: 'u', // r\n content: 1.50, n: [1,2,],},\n\n /* c */ ] // end"
    spaced = script.evaluate("text => laidOut(text, '  ')", loose)
    assert [part for part in ("// head", "/*a*/", "// r", "/* c */", "// end", "1.50") if part not in spaced] == []
    assert script.evaluate("text => laidOut(text, '')", loose) == "[{role:'u',content:1.50,n:[1,2]}]"
    assert script.evaluate("text => laidOut(laidOut(text, '  '), '  ') === laidOut(text, '  ')", loose)


def test_items_come_and_go_and_the_rest_stays(script: Any) -> None:
    for source in (
        "[]",
        "[\n]",
        '[{"a":1}]',
        '[{"a": 1}, {"b": 2}]',
        '[\n  {"a": 1},\n  {"b": 2}\n]',
        "[1,]",
        "[ // c\n]",
    ):
        results = script.evaluate(
            """text => { const scan = scanJson(text, []), [node] = scan.nodes, out = [];
            for (let k = 0; k <= node.items.length; k++) out.push(applied(text, insertItem(scan, node, k, (indent, unit) => sourceFor({ role: 'r', c: [] }, unit, indent))));
            node.items.forEach((item, k) => out.push(applied(text, removeItem(scan, node, k)))); return out; }""",
            source,
        )
        from inspector.json5text import as_strict

        before = json.loads(as_strict(source).text)
        wanted = [[*before[:k], {"role": "r", "c": []}, *before[k:]] for k in range(len(before) + 1)]
        wanted += [before[:k] + before[k + 1 :] for k in range(len(before))]
        assert [json.loads(as_strict(made).text) for made in results] == wanted, results
        assert all("// c" in made for made in results) or "// c" not in source


def test_a_hostile_text_is_scanned_in_linear_time(script: Any) -> None:
    took = script.evaluate(
        """() => ['"'.repeat(200000), "'\\\\\\\\".repeat(200000), '['.repeat(200000), '/*'.repeat(200000), '[1,/**/'.repeat(60000), ' '.repeat(1000000)]
        .map(text => { const begun = performance.now(); scanJson(text, []); return performance.now() - begun; })"""
    )
    assert max(took) < 3000, took


# --- the form --------------------------------------------------------------------------------------------------------


def test_an_edit_in_the_form_changes_only_that_values_text(bench: Inspector) -> None:
    show(bench, "Form")
    assert field(bench, "messages[1].content").input_value() == 'What is "this"?\n🦊'
    wanted = SOURCE
    for path, new, old, made in (
        ("messages[0].content", "Be very kind.", "Be kind", "Be very kind"),
        ("messages[1].content", 'What is "that"?\n🦊', '\\"this\\"', '\\"that\\"'),
        ("messages[1].content", 'What is "that"?\n🦊!', '\\r\\n\\ud83e\\udd8a', '\\r\\n\\ud83e\\udd8a!'),
        ("messages[2].tool_calls[0].function.name", "see", '"look"', '"see"'),
        ("messages[2].tool_calls[0].function.arguments", '{"n": 1.0, "m": 2.50}', '{"n": 1.0}', '{"n": 1.0, "m": 2.50}'),
        ("messages[3].content[0].text", "a red fox", "a fox", "a red fox"),
        ("messages[0].weight", "2.50", "1.50", "2.50"),
    ):  # fmt: skip
        field(bench, path).fill(new)
        wanted = wanted.replace(old, made)
        assert text(bench) == wanted, path
    card(bench, 1).locator("select.ti-role").select_option("developer")
    wanted = wanted.replace('"role":"user" ', '"role":"developer" ')
    assert text(bench) == wanted
    bench.settle()
    assert "What is" in bench.pane(0)["text"] and "🦊!" in bench.pane(0)["text"]
    # What is no JSON yet stays in the field, is said to be none, and changes nothing.
    field(bench, "messages[1].x").fill("[1,")
    assert text(bench) == wanted and "Not JSON yet" in card(bench, 1).inner_text()
    assert field(bench, "messages[1].x").input_value() == "[1,"
    field(bench, "messages[1].x").fill("[1, 2]")
    assert (
        text(bench) == wanted.replace('[1e5, {"a b": null}]', "[1, 2]")
        and "Not JSON" not in card(bench, 1).inner_text()
    )
    # And the other way: the text's edits are in the form.
    show(bench, "JSON")
    bench.type_in("messages", text(bench).replace("a red fox", "two foxes").replace('"hm"', '"hmm", "name": "Ann"'))
    show(bench, "Form")
    assert field(bench, "messages[3].content[0].text").input_value() == "two foxes"
    assert field(bench, "messages[2].name").input_value() == "Ann"


def test_cards_are_added_moved_copied_and_removed_by_keyboard_alone(bench: Inspector) -> None:
    show(bench, "Form")
    lines = json.loads(SOURCE)
    field(bench, "messages[0].content").focus()
    bench.page.keyboard.press("End")
    press(bench, "Alt+ArrowDown")
    assert json.loads(text(bench)) == [lines[1], lines[0], *lines[2:]]
    assert '{ "content" :  "What' in text(bench), "moved as it is written"
    assert caret(bench)[0] == "messages[1].content" and caret(bench)[1] == 8, "the focus goes with the card"
    press(bench, "Alt+ArrowUp")
    assert text(bench) == SOURCE
    press(bench, "Alt+ArrowUp")
    assert text(bench) == SOURCE, "the first goes no further"
    card(bench, 3).locator('[data-k="duplicate"]').focus()
    press(bench, "Enter")
    assert json.loads(text(bench)) == [*lines, lines[3]]
    card(bench, 4).locator('[data-k="remove"]').focus()
    press(bench, "Enter")
    assert text(bench) == SOURCE
    bench.page.get_by_role("button", name="+ message").focus()
    press(bench, "Enter")
    assert caret(bench)[0] == "messages[4].content"
    bench.page.keyboard.type("thanks\n\"'\\ <b>")
    bench.settle()
    assert json.loads(text(bench)) == [*lines, {"role": "user", "content": "thanks\n\"'\\ <b>"}]
    card(bench, 4).locator("select.ti-adder").select_option("tool_calls")
    field(bench, "messages[4].tool_calls[0].function.name").fill("f")
    card(bench, 4).locator("select.ti-adder").select_option(label="another key")
    bench.page.keyboard.type("seed")
    bench.page.keyboard.press("Enter")
    field(bench, "messages[4].seed").fill("7.0")
    made = {"role": "user", "content": "thanks\n\"'\\ <b>", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}], "seed": 7.0}  # fmt: skip
    assert json.loads(text(bench))[4] == made and '"seed": 7.0' in text(bench)
    card(bench, 4).locator('select[aria-label="content as"]').select_option("parts")
    assert json.loads(text(bench))[4]["content"] == [{"type": "text", "text": made["content"]}]
    card(bench, 4).locator('select[aria-label="content as"]').select_option("text")
    assert json.loads(text(bench))[4] == made
    for _ in range(6):
        press(bench, "Control+z")
    for _ in range(20):
        press(bench, "Control+z")
    assert "thanks" not in text(bench)


def test_tools_have_a_form_and_a_whole_request_too(bench: Inspector) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}}  # fmt: skip
    bench.type_in("tools", json.dumps([tool]))
    show(bench, "Form", "tools")
    field(bench, "tools[0].function.description").fill('says "hi"')
    field(bench, "tools[0].function.parameters").fill('{"type": "object", "properties": {}}')
    tool["function"] |= {"description": 'says "hi"', "parameters": {"type": "object", "properties": {}}}
    assert json.loads(text(bench, "tools")) == [tool]
    bench.type_in("messages", '{"model": "m",  "messages": [{"role": "user", "content": "x"}]}')
    show(bench, "Form")
    field(bench, "messages[0].content").fill("yz")
    assert text(bench) == '{"model": "m",  "messages": [{"role": "user", "content": "yz"}]}'
    show(bench, "JSON")
    bench.type_in("messages", "[{")
    show(bench, "Form")
    assert "not JSON yet" in bench.page.inner_text(".ti-formnote")
    press(bench, "Control+z")
    assert text(bench).startswith('{"model"') and card(bench, 0).is_visible()


def test_a_thousand_messages_stay_usable(bench: Inspector) -> None:
    many = [{"role": ("user", "assistant")[k % 2], "content": f"line {k}"} for k in range(1000)]
    put(bench, "messages", json.dumps(many, indent=1))
    show(bench, "Form")
    assert card(bench, 0).locator("textarea").is_visible()
    assert bench.page.evaluate("() => document.querySelectorAll('.ti-form textarea').length") < 60, (
        "built near the sight"
    )
    at = text(bench).rindex("line 999")
    bench.page.evaluate(f"at => {BENCH}.writing.editor('messages').go([at, at])", at)
    assert caret(bench)[0] == "messages[999].content", "a place far away is built and shown"
    key, parse = bench.page.evaluate(
        """() => { const area = document.activeElement, keys = [], parses = [], { value } = document.querySelector('[data-in="messages"]');
        const timed = (list, act) => { const begun = performance.now(); act(); list.push(performance.now() - begun); };
        for (let k = 0; k < 9; k++) {
          timed(keys, () => { area.setRangeText('x', 0, 0, 'end'); area.dispatchEvent(new InputEvent('input', { bubbles: true, inputType: 'insertText' })); });
          timed(parses, () => { for (let n = 0; n < 10; n++) JSON.parse(value); });
        }
        return [keys, parses].map((list) => list.sort((a, b) => a - b)[4]); }"""
    )
    assert key < 15 * parse + 50, f"{key} ms a key, {parse} ms to read the text ten times"
    bench.settle()
    assert json.loads(text(bench))[999]["content"] == "xxxxxxxxxline 999"
    press(bench, "Alt+ArrowUp")
    assert caret(bench)[0] == "messages[998].content"


def test_links_go_both_ways_between_form_and_tokens(bench: Inspector) -> None:
    show(bench, "Form")
    field(bench, "messages[1].content").evaluate("node => { node.focus(); node.setSelectionRange(9, 13); }")
    bench.page.wait_for_function(
        f"() => {BENCH}.pick && {BENCH}.pick.kind === 'fields' && {BENCH}.pick.fields[0].steps[1] === 1"
    )
    assert bench.page.evaluate(f"() => {BENCH}.pick.fields") == [
        {"steps": ["messages", 1, "content"], "from": 9, "to": 13}
    ]
    assert "this" in "".join(bench.page.locator(".ti-space .ti-col0 .ti-on").all_inner_texts())
    token = bench.page.locator(".ti-space .ti-col0 .ti-tok", has_text="fox").first
    token.hover()
    assert "ti-hv" in card(bench, 3).get_attribute("class").split()
    token.click()
    assert "ti-on" in card(bench, 3).get_attribute("class").split()
    bench.page.locator(".ti-grid").first.press("Enter")
    assert caret(bench)[0] == "messages[3].content[0].text", "Enter goes to the origin"
    selected = bench.page.evaluate("() => document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)")  # fmt: skip
    assert "fox" in selected
    bench.page.keyboard.press("Escape")
    assert bench.page.evaluate("() => document.activeElement.classList.contains('ti-grid')")


# --- history, input, layout ------------------------------------------------------------------------------------------


def test_one_history_takes_back_typing_form_layout_example_and_paste(bench: Inspector) -> None:
    area = bench.page.locator('[data-in="messages"]')
    at = SOURCE.index("Be kind")
    area.evaluate("(node, at) => { node.focus(); node.setSelectionRange(at, at); }", at)
    bench.page.keyboard.type("Do ")
    typed = text(bench)
    assert typed == SOURCE[:at] + "Do " + SOURCE[at:]
    states = [SOURCE, typed]
    bench.page.click('[data-field="messages"] [data-wt="format"]')
    states.append(text(bench))
    assert json.loads(states[-1]) == json.loads(typed) and "1.50" in states[-1] and "\\ud83e" in states[-1]
    show(bench, "Form")
    field(bench, "messages[2].reasoning_content").fill("well")
    states.append(text(bench))
    bench.page.click('[data-act="reset"]')
    states.append(text(bench))
    assert len(set(states)) == 5
    bench.settle()
    for state in reversed(states[:-1]):
        bench.page.keyboard.press("Control+z")
        assert text(bench) == state
    assert caret(bench)[0] == "messages[0].content", "the caret goes where the step was"
    for state in states[1:]:
        bench.page.keyboard.press("Control+Shift+z")
        assert text(bench) == state
    bench.page.keyboard.press("Control+y")
    assert text(bench) == states[-1], "nothing more to redo"
    show(bench, "JSON")
    undo = bench.page.locator('[data-wt="undo"]')
    for _ in range(4):
        undo.click()
    assert text(bench) == SOURCE
    bench.page.locator('[data-in="clock"]').fill("x")
    bench.page.keyboard.press("Control+z")
    assert text(bench) == SOURCE, "another field's undo is its own"


def test_every_way_of_input_updates_and_is_taken_back(bench: Inspector) -> None:
    devtools = bench.context.new_cdp_session(bench.page)
    area = bench.page.locator('[data-in="messages"]')
    for mode, path in (("JSON", None), ("Form", "messages[0].content")):
        show(bench, mode)
        node = area if path is None else field(bench, path)
        node.evaluate(
            "node => { const at = node.value.indexOf('kind'); node.focus(); node.setSelectionRange(at, at); }"
        )
        devtools.send("Input.imeSetComposition", {"text": "ni", "selectionStart": 2, "selectionEnd": 2})
        devtools.send("Input.imeSetComposition", {"text": "你好", "selectionStart": 2, "selectionEnd": 2})
        devtools.send("Input.insertText", {"text": "你好"})
        bench.settle()
        assert "Be 你好kind" in text(bench) and "Be 你好kind" in bench.pane(0)["text"], mode
        press(bench, "Backspace")
        assert "Be 你kind" in bench.pane(0)["text"], mode
        bench.page.keyboard.press("Shift+ArrowLeft")
        press(bench, "Control+x")
        assert "Be kind" in bench.pane(0)["text"], mode
        press(bench, "Control+v")
        assert "Be 你kind" in bench.pane(0)["text"], mode
        for _ in range(4):
            press(bench, "Control+z")
            if "你" not in text(bench):
                break
        press(bench, "Control+z") if "你" in text(bench) else None
        assert text(bench) == SOURCE, mode


def test_format_and_minify_keep_the_ids_and_the_caret(bench: Inspector) -> None:
    before = bench.pane(0)["ids"]
    bench.page.locator('[data-in="messages"]').evaluate("node => { const at = node.value.indexOf('hm'); node.focus(); node.setSelectionRange(at, at); }")  # fmt: skip
    for act in ("minify", "format"):
        bench.page.click(f'[data-field="messages"] [data-wt="{act}"]')
        bench.settle()
        assert bench.pane(0)["ids"] == before
        assert after_caret(bench).startswith("hm")
        assert dump_request(parse_fields(text(bench)).messages) == dump_request(parse_fields(SOURCE).messages)


def test_json5_is_read_and_a_fault_is_one_click_away(bench: Inspector) -> None:
    loose = "// a chat\n[{role: 'user', content: 'it\\'s 5', n: [+1, .5,],},]"
    bench.type_in("messages", loose)
    assert bench.error("messages") == "" and "it's 5" in bench.pane(0)["text"]
    show(bench, "Form")
    field(bench, "messages[0].content").fill('it\'s "6"')
    assert text(bench) == loose.replace("it\\'s 5", 'it\\\'s "6"')
    show(bench, "JSON")
    broken = "// 🦊 a chat\n[{role: 'user',\n  content: 'x' oops: 1}]"
    bench.type_in("messages", broken)
    assert bench.error("messages").startswith("line 3, column 16")
    bench.page.click('[data-field="messages"] .ti-err')
    assert after_caret(bench).startswith("oops")
    bench.page.locator('[data-in="clock"]').focus()
    bench.page.locator('[data-field="messages"] .ti-goto').focus()
    bench.page.keyboard.press("Enter")
    assert caret(bench)[0] == "messages" and after_caret(bench).startswith("oops")
    bench.type_in("messages", '[{"role": "user", "content": "🦊🦊", "n": Infinity}]')
    assert "Infinity is not a JSON value" in bench.error("messages")
    bench.page.click('[data-field="messages"] .ti-err')
    assert after_caret(bench).startswith("Infinity")


def paste(bench: Inspector, what: str) -> None:
    """Paste over all, as the browser does: a paste event, then the input."""
    bench.page.locator('[data-in="messages"]').evaluate(
        """(node, text) => { const data = new DataTransfer(); data.setData('text/plain', text); node.focus(); node.select();
        node.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })); document.execCommand('insertText', false, text); }""",
        what,
    )


def test_a_pasted_body_is_recognised_said_and_taken_back(bench: Inspector) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": HOSTILE[0]}], "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"}  # fmt: skip
    paste(bench, json.dumps(body))
    notice = bench.page.locator(".ti-pasted")
    notice.wait_for()
    bench.settle()
    assert json.loads(text(bench)) == body["messages"] and json.loads(text(bench, "tools")) == body["tools"]
    said = notice.inner_text()
    for part in ("an OpenAI body", "messages → here", "tools → Tools", "dropped: model, tool_choice"):
        assert part in said, said
    bench.page.screenshot(path=shot("editor-pasted"))
    notice.get_by_role("button", name="Undo").click()
    assert text(bench) == json.dumps(body) and text(bench, "tools") == "" and not notice.is_visible()
    bench.page.keyboard.press("Control+z")
    assert text(bench) == SOURCE, "the paste itself is a step of its own"
    paste(bench, "[{'role': 'user', 'content': ('a' 'b'), 'x': None}]")
    notice.wait_for()
    assert json.loads(text(bench)) == [{"role": "user", "content": "ab", "x": None}] and "Python" in notice.inner_text()
    paste(bench, "[{'role': 'user', 'content': f'{x}', 'y': None}]")
    bench.page.wait_for_function("() => document.querySelector('.ti-pasted').textContent.includes('f-string')")
    assert text(bench).startswith("[{'role'"), "left as pasted"
    bench.settle()
    paste(bench, json.dumps(body))
    bench.page.wait_for_function("() => document.querySelector('.ti-pasted').textContent.includes('OpenAI')")
    undo = notice.get_by_role("button", name="Undo")
    bench.page.keyboard.type(" ")
    assert notice.is_visible() and not undo.is_visible(), "its way back is of the pasted text"
    bench.page.keyboard.press("Backspace")
    assert undo.is_visible()
    for plain in (SOURCE, '[{"role": "user", "content": "x"}]'):
        paste(bench, plain)
        bench.settle()
        assert text(bench) == plain and not notice.is_visible()
    paste(bench, json.dumps(body))
    notice.wait_for()
    bench.page.click('[data-act="reset"]')
    assert not notice.is_visible() and "dropped" not in notice.inner_text()


def test_hostile_strings_run_nothing_in_the_form(bench: Inspector) -> None:
    hostile = [{"role": bad, "content": bad, bad: bad, "tool_calls": [{"id": bad, "function": {"name": bad, "arguments": bad}}]} for bad in HOSTILE]  # fmt: skip
    bench.page.fill('[data-in="messages"]', json.dumps(hostile))
    show(bench, "Form")
    bench.settle()
    assert field(bench, "messages[0].content").input_value() == HOSTILE[0]
    bench.page.locator(".ti-form").first.evaluate("node => { node.scrollTop = 1e6; }")
    assert bench.page.evaluate("() => window.pwned") is None and bench.page.locator(".ti-form img, .ti-form script").count() == 0  # fmt: skip


def test_the_form_is_shown_whole_in_light_and_dark_wide_and_narrow(bench: Inspector) -> None:
    show(bench, "Form")
    for name, viewport in (("narrow", NARROW), ("wide", WIDE)):
        bench.page.set_viewport_size(viewport)
        bench.page.wait_for_function(f"() => {BENCH}.root.classList.contains('narrow') === {str(viewport is NARROW).lower()}")  # fmt: skip
        bench.page.locator(".ti-input").evaluate("node => { node.open = true; }")
        for dark in (True, False):
            bench.page.evaluate("dark => document.body.classList.toggle('dark', dark)", dark)
            bench.page.screenshot(path=shot(f"editor-form-{name}-{'dark' if dark else 'light'}"), full_page=viewport is NARROW)  # fmt: skip
        over = bench.page.evaluate("() => { const form = document.querySelector('.ti-form'); return [form.scrollWidth - form.clientWidth, document.documentElement.scrollWidth - innerWidth]; }")  # fmt: skip
        assert max(over) <= 0, (name, over)
    unnamed = bench.page.evaluate("() => Array.from(document.querySelectorAll('.ti-form :is(button, input, select, textarea)')).filter(n => !(n.getAttribute('aria-label') || n.textContent.trim() || n.title)).length")  # fmt: skip
    assert unnamed == 0
    bench.page.click('[data-act="language"]')
    assert "表单" in bench.page.inner_text('[data-field="messages"]')
    bench.page.reload()
    bench.settle()
    assert card(bench, 0).is_visible() and text(bench) == SOURCE, "a reload keeps text, form and language"
    bench.page.click('[data-act="language"]')
