"""Hostile calls, uploads and texts of data/attacks.jsonl against the running page: over HTTP as a stranger, and shown in
Chromium, where no text of a visitor may become markup, script, style or link.
"""

# ruff: noqa: F811
from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from attacks import CASES, of, payload
from page import ROOT, Inspector, messages
from test_public_page import (  # noqa: F401 - the server is a fixture
    BURN,
    FIELDS,
    PANE,
    Server,
    server,
    session,
    view,
)

READ_OTHERWISE = {
    "A01": "the route does not exist on this page: 404 where Gradio says 403, as A03; A09 likewise",
    "U02": "the page's uploads are never served: there is no address for them; U04 and U06 are answered by an error value",
    "X104": "the page has no gr.Markdown, gr.HTML with data, gr.Dataframe, gr.JSON, label or toast that a visitor's text "
    "reaches: each is looked for where its text would stand; X105 to X118 likewise",
    "X209": "there is no Markdown report; the HTML report and the CSV are looked at",
    "X210": "what a link names is rendered as if it were typed: in the visitor's own child, which is what bounds it",
}
HI = json.dumps([{"role": "user", "content": "hi"}])
CRASH = payload("T71b")


@pytest.fixture(autouse=True)
def at_rest(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").until(lambda said: not said["admission"]["running"], 15)


def run(server: Server, data: Any, client: str = "10.0.1.1") -> tuple[int, Any]:
    """Call the endpoint `inspect` at once; give its answer, parsed where it is one."""
    status, _headers, body = server.open("gradio_api/run/inspect", data, client)
    try:
        value = json.loads(body)
    except ValueError:
        return status, body.decode("utf-8", "replace")
    return status, json.loads(value["data"][0]) if isinstance(value, dict) and value.get("data") else value


def error_of(server: Server, values: list[Any]) -> dict[str, Any]:
    status, found = run(server, {"data": values})
    assert status == 200 and found["error"]["message"] and found["error"]["remedy"], (status, found)
    assert "root:" not in json.dumps(found) and "Traceback" not in json.dumps(found)
    return found["error"]


def alive(server: Server) -> None:
    began = time.monotonic()
    status, found = run(server, {"data": [HI, "bytes", "chatml"]}, "10.0.1.2")
    assert status == 200 and found["error"] is None and "hi" in found["rendered"]["text"]
    assert time.monotonic() - began < 10  # of a busy machine; a free one takes 0.1 s


# --- api ---------------------------------------------------------------------------------------------------------


def closed(path: str) -> Callable[[Server], None]:
    def check(server: Server) -> None:
        status, headers, body = server.open(path)
        assert status == 404 and b"root:" not in body and b"PATH=" not in body and headers["x-content-type-options"]
        json.loads(body)

    return check


def named(values: list[Any], kind: str, place: str) -> Callable[[Server], None]:
    def check(server: Server) -> None:
        error = error_of(server, values)
        assert error["kind"] == kind and place in json.dumps(error["where"]) + error["message"], error

    return check


def unknown(server: Server) -> None:
    for path in ("call/nope", "call/v2/nope", "run/nope"):
        status, _headers, body = server.open(f"gradio_api/{path}", {"data": []})
        assert status in (400, 404) and json.loads(body)["error"]["kind"] == "OptionInvalid", (path, status, body)


def not_a_number(server: Server) -> None:
    body = (
        b'{"data":[' + HI.encode() + b',"bytes","chatml","","","",true,false,"","transformers","jinja2",NaN,Infinity]}'
    )
    status, found = run(server, body)
    assert status == 400 or (status == 200 and found["error"]["kind"] == "OptionInvalid"), (status, found)
    assert status == 400 or found["error"]["where"]["option"] == "context_window"


def unreadable(body: bytes) -> Callable[[Server], None]:
    def check(server: Server) -> None:
        for path in ("run/inspect", "call/v2/inspect", "component_server"):
            status, _headers, answer = server.open("gradio_api/" + path, body)
            assert status in (400, 422) and b"Traceback" not in answer, (path, status, answer[:200])

    return check


def too_large(server: Server) -> None:
    status, found = run(server, {"data": ["x" * 20_000_000]})
    assert status == 413 and found["error"]["kind"] == "InputTooLarge"


def crashes(server: Server) -> None:
    before = server.process.pid
    error = error_of(server, [HI, "bytes", "", CRASH])
    assert error["kind"] == "WorkerCrashed" and "SIGSEGV" in error["message"]
    assert server.process.poll() is None and server.process.pid == before


def flood(server: Server) -> None:
    asked = {"fn_name": "view", "data": None}
    calls = []
    for _ in range(44):
        data = asked | {"data": view(session(), {**PANE, "template_text": BURN})}
        calls.append(server.begin("gradio_api/component_server", data, "10.0.1.9"))
    for _ in range(12):
        data = {"data": [HI, "bytes", "", BURN], "session_hash": session()}
        calls.append(server.begin("gradio_api/run/inspect", data, "10.0.1.9"))
    try:
        server.until(lambda said: said["admission"]["waiting"] >= 44, 20)
        status, _found = run(server, {"data": [HI, "bytes", "chatml"]}, "10.0.1.9")
        assert status == 429
        alive(server)
    finally:
        for connection in calls:
            connection.close()


def bomb_beside(server: Server) -> None:
    bombs = [server.begin("gradio_api/run/inspect", {"data": [HI, "bytes", "", BURN], "session_hash": session()}, "10.0.1.9") for _ in range(2)]  # fmt: skip
    try:
        server.until(lambda said: said["admission"]["running"] >= 2, 20)
        for _ in range(5):
            alive(server)
    finally:
        for connection in bombs:
            connection.close()


def reason(server: Server) -> None:
    error = error_of(server, [HI, "bytes", "", "{{ 10**5000 }}"])
    assert "integer too large to print" in error["message"] and error["where"]["line"] == 1


def gone(server: Server) -> None:
    connection = server.begin("gradio_api/run/inspect", {"data": [HI, "bytes", "", BURN], "session_hash": session()})
    server.until(lambda said: said["admission"]["running"] == 1, 10)
    connection.close()
    assert server.until(lambda said: said["admission"]["running"] == 0, 10) < 2.5


def guessed(server: Server) -> None:
    for guess in ("a", "0" * 32, session(), "../config", "%2e%2e"):
        for path in (f"queue/data?session_hash={guess}", f"call/v2/inspect/{guess}", f"call/inspect/{guess}"):
            status, _headers, body = server.open("gradio_api/" + path, client="10.0.1.3")
            assert status in (400, 404) and b"rendered" not in body, (path, status)


API: dict[str, Callable[[Server], None]] = {
    "A01": closed("gradio_api/file=/etc/passwd"),
    "A03": closed("gradio_api/file=/proc/self/environ"),
    "A06": named([{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}, "bytes"], "InputInvalid", "messages"),
    "A08": named(["/etc/passwd", "bytes"], "InputInvalid", "line"),
    "A09": closed("gradio_api/proxy=http://127.0.0.1:22/"),
    "A10": unknown,
    "A11": named([HI, "bytes", "chatml", "", "", "", True, False, "", "transformers", "zzz"], "OptionInvalid", "engine"),
    "A12": named([HI, "bytes", "chatml", "", "", "", True, False, "", "transformers", "jinja2", "x"], "OptionInvalid", "context_window"),
    "A14": not_a_number,
    "A15": named([], "OptionInvalid", "request"),
    "A16": unreadable(b'{"data":["\xff\xfe"]}'),
    "A17": unreadable(b'{"data":' + b"[" * 100_000),
    "A18": too_large,
    "A22": crashes,
    "A23": flood,
    "A24": bomb_beside,
    "A25": reason,
    "A26": gone,
    "A27": guessed,
}  # fmt: skip


@pytest.mark.parametrize("attack", of("api"))
def test_hostile_calls_end_as_the_file_says(server: Server, attack: str) -> None:
    assert CASES[attack]["surface"] == "api"
    API[attack](server)
    alive(server)


MORE_CALLS: dict[str, list[Any]] = {
    "true for a number": [HI, "bytes", "chatml", "", "", "", True, False, "", "transformers", "jinja2", True],
    "a negative size": [HI, "bytes", "chatml", "", "", "", True, False, "", "transformers", "jinja2", -1],
    "a path as tokenizer": [HI, "/etc/passwd"],
    "a folder as tokenizer": [HI, "folder:/etc"],
    "a path as template": [HI, "bytes", "/proc/self/environ"],
    "an upload that is none": [HI, "upload:" + "0" * 64],
    "an upload that climbs": [HI, "upload:../../../etc"],
    "bidi as tokenizer": [HI, "smollm2\u202e"],
    "an object as template": [HI, "bytes", {"a": 1}],
    "a time that is none": [HI, "bytes", "chatml", "", "", "", True, False, "9999-99-99"],
    "arguments that nest": [HI, "bytes", "chatml", "", "", "[" * 3000],
    "a list of nulls": [[None, None], "bytes"],
}


@pytest.mark.parametrize("name", MORE_CALLS)
def test_other_hostile_calls_are_answered_by_a_typed_error(server: Server, name: str) -> None:
    error = error_of(server, MORE_CALLS[name])
    assert error["kind"] != "WorkerCrashed" and "\u202e" not in error["message"] + error["remedy"], error


# --- uploads -----------------------------------------------------------------------------------------------------


def part(name: str, data: bytes, **more: Any) -> dict[str, Any]:
    return {"session": session(), "first": True, "name": name, "data": base64.b64encode(data).decode(), **more}


@pytest.mark.parametrize("attack", [i for i in of("upload", "U") if i < "U08"])
def test_hostile_uploads_end_as_the_file_says(server: Server, attack: str) -> None:
    if attack == "U02":
        multipart = (
            b'--x\r\nContent-Disposition: form-data; name="files"; filename="evil.svg"\r\n\r\n<svg/>\r\n--x--\r\n'
        )
        found = server.open("gradio_api/upload", multipart, **{"Content-Type": "multipart/form-data; boundary=x"})
        assert found[0] == 404
        answer = server.call("upload", part("evil.svg", b"<svg onload=alert(1)>"))[2]
        assert answer["kind"] == "FileNameInvalid"
    elif attack == "U04":
        answer = server.call("upload", part("n" * 5000 + ".json", b"{}"))[2]
        assert answer["kind"] == "FileNameInvalid" and len(answer["error"]) < 1000
    elif attack == "U05":
        status, _headers, answer = server.call("upload", part("tokenizer.json", b"x" * (6 << 20)))
        assert status == 413 and answer["kind"] == "InputTooLarge"
    else:
        answer = server.call("upload", part("x.exe", b"MZ"))[2]
        assert (
            answer["kind"] == "FileNameInvalid" and "tokenizer.json" in answer["error"] and ".gguf" in answer["error"]
        )


@pytest.mark.parametrize("name", ["tokenizer.json\0.exe", "a/../tokenizer.json", "/etc/tokenizer.json", "C:\\tokenizer.json", "..", "",
                                  "\u202enosj.rezinekot", "tokenizer.json\n", "ｔokenizer.json", ".json", "con", "a\u200b.gguf", 7, None, ["x"]])  # fmt: skip
def test_other_file_names_are_refused_in_one_visible_line(server: Server, name: Any) -> None:
    answer = server.call("upload", part("x", b"{}") | {"name": name})[2]
    assert answer["error"] and answer["kind"] in ("FileNameInvalid", "InputInvalid") and answer["error"].isprintable()


# --- what all share ----------------------------------------------------------------------------------------------


def test_a_thousand_hostile_errors_leave_a_bounded_log_without_their_text(server: Server) -> None:
    before = server.log.stat().st_size
    for k in range(40):
        error_of(server, [HI, "bytes", "", "{{ raise_exception('zzforged\\nINFO zzforged " + str(k) + "') }}"])
    said = server.log.read_bytes()[before:]
    assert b"zzforged" not in said and len(said) < 40 * 400


# --- html: a real browser ----------------------------------------------------------------------------------------

IMG = payload("X101")
TEXTS = {i: payload(i) for i in of("html")}
EVIL_TEMPLATE = "{{ raise_exception('" + IMG.replace("'", "\\'") + "') }}"
HOOKS = "window.hits = []; window.alert = (x) => window.hits.push(x); null;"


@pytest.fixture(scope="module")
def hostile(browser: Any, address: str) -> Iterator[Inspector]:
    """A page that holds every payload: in its messages, as a template's own text, and as an error."""
    bench = Inspector(browser, address)
    bench.page.on("dialog", lambda dialog: (bench.faults.append(dialog.message), dialog.dismiss()))
    bench.page.evaluate(HOOKS)
    bench.type_in("messages", messages(*TEXTS.values()))
    bench.paste_template(0, "".join(f"{{{{ messages[{k}].content }}}}\n" for k in range(len(TEXTS))))
    bench.title = bench.page.title()
    yield bench
    bench.context.close()


def inert(bench: Inspector) -> None:
    """Nothing of the payloads is markup, script, style, link or request."""
    found = bench.page.evaluate("""() => ({
        title: document.title, hits: window.hits, pwned: window.pwned || null,
        images: document.querySelectorAll('img[src="x"], img[src="1"], svg[onload], [onerror]').length,
        scripts: [...document.scripts].filter((s) => s.textContent.includes('alert(1)')).length,
        styles: [...document.querySelectorAll('[style]')].filter((n) => n.getAttribute('style').includes('evil')).length,
        links: [...document.links].map((a) => a.protocol).filter((p) => !['http:', 'https:', 'blob:'].includes(p)),
        outside: [...document.links].map((a) => a.href).filter((h) => !h.startsWith(location.origin) && !h.startsWith('blob:')),
    })""")
    assert found["title"] == bench.title and found["hits"] == [] and found["pwned"] is None
    assert (found["images"], found["scripts"], found["styles"], found["links"]) == (0, 0, 0, [])
    assert all(
        re.match(r"https://(huggingface\.co|github\.com|www\.gradio\.app|gradio\.app)/", each)
        for each in found["outside"]
    )
    assert bench.outside == [] and not [fault for fault in bench.faults if "Content Security" not in fault]


def shown(bench: Inspector, attack: str) -> None:
    """The payload stands in the pane to the byte, and on the screen as text."""
    assert TEXTS[attack] in bench.pane(0)["text"]


def in_tokens(bench: Inspector, attack: str) -> None:
    bench.open("tokens")
    shown(bench, attack)
    assert "onerror" in bench.page.inner_text(".ti-grid").replace("·", " ").replace("\n", "")


def source_has_no(*words: str) -> Callable[[Inspector, str], None]:
    def check(bench: Inspector, attack: str) -> None:
        sources = [path.read_text("utf-8") for path in (ROOT / "inspector" / "ui").rglob("*.py")] + [
            (ROOT / "app.py").read_text()
        ]
        assert not [word for word in words for source in sources if word in source]
        shown(bench, attack)

    return check


def in_view(name: str) -> Callable[[Inspector, str], None]:
    def check(bench: Inspector, attack: str) -> None:
        bench.open(name)
        bench.page.wait_for_function("() => document.querySelector('.ti-panel').innerText.includes('onerror')")
        bench.open("tokens")

    return check


def in_rendered(bench: Inspector, attack: str) -> None:
    bench.open("rendered")
    shown(bench, attack)
    assert "onerror" in bench.page.inner_text(".ti-grid")
    bench.open("tokens")


def in_editor(bench: Inspector, attack: str) -> None:
    assert json.loads(bench.page.input_value('[data-in="messages"]'))[list(TEXTS).index(attack)]["content"] == IMG


def in_error(bench: Inspector, attack: str) -> None:
    """What Gradio would show as a toast stands under its field."""
    before = bench.pane(0)
    bench.paste_template(1, EVIL_TEMPLATE)
    assert IMG in bench.error("template1") or IMG.split('"')[0] in bench.error("template1")
    assert bench.page.locator("[data-testid=toast-body]").count() == 0 and bench.pane(0) == before
    inert(bench)
    bench.paste_template(1, "x")


def in_label(bench: Inspector, attack: str) -> None:
    options = bench.page.locator('[data-in="tokenizer1"] option')
    bench.page.locator('[data-in="tokenizer1"]').select_option(index=options.count() - 1)
    bench.type_in("tokenizer_ref1", IMG)
    assert "img src=x" in bench.error("tokenizer1")
    inert(bench)
    bench.choose("tokenizer1", "smollm2")


def by_link(bench: Inspector, attack: str) -> None:
    for value in ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)"):
        import urllib.parse
        import urllib.request

        origin = bench.page.evaluate("location.origin")
        link = f"{origin}/?model={urllib.parse.quote(value)}&template={urllib.parse.quote(value)}"
        raw = urllib.request.urlopen(link).read().decode()
        assert "<script>alert(1)" not in raw and "<img src=x" not in raw
    other = bench.context.new_page()
    other.add_init_script(HOOKS)
    other.goto(link + "#state=" + base64.urlsafe_b64encode(json.dumps({"template": IMG}).encode()).decode())
    other.wait_for_selector("#bench .ti")
    other.wait_for_timeout(500)
    assert other.evaluate("window.hits") == [] and other.locator('img[src="x"]').count() == 0
    other.close()


def bidi(bench: Inspector, attack: str) -> None:
    bench.open("tokens")
    shown(bench, attack)
    text = bench.page.inner_text(".ti-grid")
    assert "‹202E›" in text and "\u202e" not in text and "\u202c" not in text
    assert bench.page.evaluate("getComputedStyle(document.querySelector('.ti-tok')).unicodeBidi") == "isolate"


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags |= {tag, *(name for name, _value in attrs)}


def exported(form: str, content: str) -> bytes:
    from inspector import service
    from inspector.job import make_options

    request = json.dumps([{"role": "user", "content": content}]).encode()
    options = make_options(tokenizer="bytes", template_text="{{ messages[0].content }}", clock="2026-01-31T09:30:00")
    return service.export(request, [options], form)[0].data


def formulas(bench: Inspector, attack: str) -> None:
    cells = [cell for row in exported("csv", TEXTS[attack]).decode().splitlines() for cell in row.split(",")]
    assert cells and not [cell for cell in cells if cell.strip('"')[:1] in tuple("=+@\t\r")]
    shown(bench, attack)


def report(bench: Inspector, attack: str) -> None:
    parsed = _Cells()
    parsed.feed(exported("html", TEXTS[attack] + IMG + TEXTS["X203"]).decode())
    assert not parsed.tags & {"img", "script", "onerror", "iframe", "svg"}


def large(bench: Inspector, attack: str) -> None:
    """200,000 tokens: a bounded number of nodes, and the page answers."""
    before = bench.page.input_value('[data-in="messages"]')
    template = bench.page.evaluate("document.querySelector('#bench .ti').parentNode.bench.state.panes.length")
    assert template
    bench.paste_template(0, "{{ 'ab' * 100000 }}")
    for pane in "0":
        bench.choose(f"tokenizer{pane}", "bytes")
    assert len(bench.pane(0)["ids"]) == 200_000
    assert bench.page.locator(".ti-tok").count() <= 5_000
    began = time.monotonic()
    bench.page.focus(".ti-grid")
    bench.page.keyboard.press("End")
    bench.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert time.monotonic() - began < 5 and bench.page.locator(".ti-tok").count() <= 5_000
    assert bench.page.input_value('[data-in="messages"]') == before


HTML: dict[str, Callable[[Inspector, str], None]] = {
    "X101": in_tokens,
    "X103": shown,
    "X104": source_has_no("gr.Markdown("),
    "X105": source_has_no("sanitize_html"),
    "X106": source_has_no("gr.Dataframe("),
    "X107": in_view("findings"),
    "X111": in_rendered,
    "X113": in_editor,
    "X115": in_label,
    "X116": in_error,
    "X117": in_error,
    "X118": in_error,
    "X202": shown,
    "X203": by_link,
    "X204": in_tokens,
    "X205": bidi,
    "X207": shown,
    "X208": formulas,
    "X209": report,
    "X210": by_link,
    "X211": large,
}


@pytest.mark.browser
@pytest.mark.parametrize("attack", of("html"))
def test_hostile_texts_are_shown_and_nothing_else(hostile: Inspector, attack: str) -> None:
    assert CASES[attack]["surface"] == "html"
    HTML[attack](hostile, attack)
    inert(hostile)
