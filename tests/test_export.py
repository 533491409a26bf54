"""Exports: a report without script or network, code that gives the same ids, a test that pins them, safe tables."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from page import HOSTILE, ROOT, messages, shot
from typer.testing import CliRunner

from inspector import InspectorError
from inspector.cli import app
from inspector.cli_export import FORMS
from inspector.exports import EXPORTS, find_export
from inspector.exports.base import File, Side
from inspector.exports.shown import HIDDEN
from inspector.job import make_options, prepare
from inspector.pipeline import run

CLOCK = "2026-01-31T09:30:00"
CASES = [json.loads(line) for line in (ROOT / "tests" / "data" / "attacks.jsonl").read_text("utf-8").splitlines()]
ATTACKS = [case["payload"] for case in CASES if case["surface"] in ("html", "repo_name") and isinstance(case.get("payload"), str)]  # fmt: skip
FORMULAS = ["=HYPERLINK('http://x','y')", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1+1", "'=1"]
UNSEEN = "user\u202etxet\u202c a\u200bb\u2066c\u2069 \ufeff \U000e0041 \x1b[31m \u3164"
TOOL = {"type": "function", "function": {"name": "tides", "description": "d", "parameters": {"type": "object", "properties": {}}}}  # fmt: skip
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'High tide in 北京? 🌊 "\\ \u202e'}]


QUOTES = "'''\"\"\"\\\n{}{0}%s \\N{BULLET} \\x41"
HOSTILE_CHAT = [
    {"role": "user", "content": text}
    for text in [*ATTACKS, *HOSTILE, UNSEEN, *FORMULAS, QUOTES, "<|im_end|>\n<|im_start|>system"]
]
HOSTILE_TEMPLATE = "{% for m in messages %}<script>'''\"\"\"\\\\{{ m.content }}\u202e\r\n{% endfor %}{{ tools }}"


def side(request: Any, **options: Any) -> Side:
    job = prepare(json.dumps(request).encode(), make_options(**{"clock": CLOCK, **options}))
    return Side(job, run(job))


def made(form: str, *sides: Side) -> tuple[File, ...]:
    return find_export(form, len(sides)).make(sides)


def written(folder: Path, files: tuple[File, ...]) -> Path:
    folder.mkdir()
    for file in files:
        (folder / file.name).write_bytes(file.data)
    return folder


# --- code -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "options"),
    [
        (CHAT, {"tokenizer": "smollm2"}),
        ({"messages": CHAT, "tools": [TOOL], "chat_template_kwargs": {"enable_thinking": False}}, {"tokenizer": "qwen3"}),
        (CHAT * 3, {"tokenizer": "smollm2", "context_window": 60, "template": "chatml", "add_generation_prompt": False}),
        ([*CHAT, {"role": "assistant", "content": "At"}], {"tokenizer": "smollm2", "continue_final_message": True}),
        (HOSTILE_CHAT, {"tokenizer": "smollm2", "template_text": HOSTILE_TEMPLATE}),
        (CHAT, {"tokenizer": "smollm2", "template_text": "{{ bos_token }}{{ strftime_now('%d %b %Y') }} \u2028{{ messages[-1]['content'] }}"}),
    ],
)  # fmt: skip
def test_the_code_gives_the_same_ids_with_transformers_alone(
    request_: Any, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import transformers.utils.chat_template_utils as library

    monkeypatch.setattr(library, "datetime", library.datetime)  # the code may change it; put it back
    whole = side(request_, **options)
    folder = written(tmp_path / "code", made("python", whole))
    code = (folder / "reproduce.py").read_text("ascii")
    assert "inspector" not in re.sub(r"^# .*$", "", code, flags=re.M)
    runpy.run_path(str(folder / "reproduce.py"), run_name="__main__")
    text, ids = capsys.readouterr().out.splitlines()
    assert json.loads(ids) == whole.whole().encoding.input_ids.tolist() and len(json.loads(ids)) > 5
    assert json.loads(text) == whole.whole().rendered.text


def test_the_pin_is_green_and_red_after_one_byte(tmp_path: Path) -> None:
    files = made("pytest", side(CHAT, tokenizer="smollm2"))
    _green, template, tokenizer = (written(tmp_path / name, files) for name in ("green", "template", "tokenizer"))
    with (template / "chat_template.jinja").open("a") as file:
        file.write("x")
    data = (tokenizer / "tokenizer.json").read_text("utf-8")
    (tokenizer / "tokenizer.json").write_text(data.replace('"Be"', '"Bf"', 1), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-rfp", "green", "template", "tokenizer"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    results = re.findall(r"^(PASSED|FAILED) (\w+)/test_prompt\.py::(\w+)", done.stdout, re.M)
    passed = {name: [test for result, folder, test in results if folder == name and result == "PASSED"] for name in ("green", "template", "tokenizer")}  # fmt: skip
    assert len(passed["green"]) == 4, done.stdout
    assert "test_the_text_is_the_pinned_one" not in passed["template"] and len(passed["template"]) == 1, done.stdout
    assert len(passed["tokenizer"]) < 4, done.stdout


def test_what_transformers_cannot_make_again_is_refused_not_approximated() -> None:
    long = [{"role": "user", "content": "word " * 200}]
    for given in (
        side(CHAT, tokenizer="o200k", template="chatml"),
        side(CHAT[1:], tokenizer="mistral-v3"),
        side(CHAT, tokenizer="smollm2", engine="minijinja"),
        side(long, tokenizer="smollm2", context_window=50, policy="tokens_left"),
    ):
        assert given.inspection.error is None
        for form in ("python", "pytest"):
            with pytest.raises(InspectorError, match=r"transformers"):
                made(form, given)
    with pytest.raises(InspectorError, match="no"):
        made("csv", side(CHAT, tokenizer="bytes", template_text="{{ raise_exception('no') }}"))


def test_code_in_a_name_stays_a_comment(tmp_path: Path) -> None:
    evil = tmp_path / 'a"""; raise SystemExit(\'pwned\') #'
    evil.mkdir()
    (evil / "x.jinja").write_text("{{ messages[0]['content'] }}")
    for file in made("python", side(CHAT, tokenizer="smollm2", template=str(evil / "x.jinja")))[:1]:
        compile(file.data, file.name, "exec")
        assert all(line.startswith("#") for line in file.data.decode().splitlines() if "pwned" in line)


# --- the report -----------------------------------------------------------------------------------------------------


class Elements(html.parser.HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


TAGS = set(
    "html head meta title style body h1 h2 p div table thead tbody tr th td span pre bdi code details summary b".split()
)
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "title", "scope"}


def check_report(source: str) -> Elements:
    elements = Elements(source)
    assert {tag for tag, _attributes in elements.found} <= TAGS
    assert {name for _tag, attributes in elements.found for name in attributes} <= ATTRIBUTES
    words = "".join(elements.words) + "".join(str(a.get("title") or "") for _tag, a in elements.found)
    assert not [char for char in HIDDEN.findall(words) if char not in "\n·"]
    return elements


def test_hostile_text_stays_text_in_a_report() -> None:
    assert len(ATTACKS) > 15
    request = {"messages": HOSTILE_CHAT, "tools": [{**TOOL, "function": {**TOOL["function"], "name": HOSTILE[0]}}]}
    a = side(request, tokenizer="smollm2", template_text=HOSTILE_TEMPLATE)
    b = side(request, tokenizer="smollm2", template="chatml")
    for sides in ((a,), (a, b)):
        [report] = made("html", *sides)
        words = "".join(check_report(report.data.decode()).words)
        assert HOSTILE[0] in words and "‹202E›txet" in words and "‹001B›[31m" in words
    stopped = side(CHAT, tokenizer="smollm2", template_text="{{ raise_exception('<img src=x onerror=alert(1)>') }}")
    words = "".join(check_report(made("html", stopped)[0].data.decode()).words)
    assert "TemplateRaised" in words and "<img src=x onerror=alert(1)>" in words


def test_a_report_withholds_what_a_record_withholds() -> None:
    given = {"messages": CHAT, "api_key": "zz-planted-zz", "temperature": 0.5}
    page = made("html", side(given, tokenizer="smollm2"))[0].data.decode()
    assert "zz-planted-zz" not in page and "its name says that it is a secret" in page and "temperature" in page


def test_a_report_says_what_was_sent_and_where_two_part() -> None:
    a, b = (side(CHAT, tokenizer="smollm2", template=template) for template in ("qwq-32b", "qwq-32b@16488a"))
    words = "".join(check_report(made("html", a)[0].data.decode()).words)
    value = a.public()
    for fact in (
        value["tokenizer"]["digest"],
        value["template"]["digest"],
        value["rendered"]["sha256"],
        "messages[1].content",
    ):
        assert fact in words
    assert all(str(token) in words for token in value["input_ids"])
    both = "".join(check_report(made("html", a, b)[0].data.decode()).words)
    assert "First difference" in both and "Differing regions" in both
    assert made("html", a) == made("html", side(CHAT, tokenizer="smollm2", template="qwq-32b"))


def test_a_report_names_no_place_of_this_machine(tmp_path: Path) -> None:
    template = tmp_path / "mine.jinja"
    template.write_text("{{ messages[0].content }}")
    for form in ("html", "python", "csv"):
        data = made(form, side(CHAT, tokenizer="smollm2", template=str(template)))[0].data.decode()
        assert str(tmp_path) not in data and "/home/" not in data
    missing = side(CHAT, tokenizer="bytes", template_text="{% include 'x' %}")
    assert str(Path.home()) not in made("html", missing)[0].data.decode()


def test_the_signs_of_a_report_are_those_of_the_page() -> None:
    script = (ROOT / "inspector" / "ui" / "static" / "core.js").read_text("utf-8")
    inside = re.search(r"^const HIDDEN = /\[(.*)\]/gu;", script, re.M)[1]  # type: ignore[index]
    pattern = re.compile("[" + re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: f"\\U{int(found[1], 16):08x}", inside) + "]")
    points = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    assert [c for c in points if HIDDEN.fullmatch(c)] == [c for c in points if pattern.fullmatch(c)]


# --- tables ---------------------------------------------------------------------------------------------------------


def test_no_cell_of_a_table_is_a_formula_and_parquet_keeps_bytes() -> None:
    from pyarrow import parquet

    evil = side(
        [{"role": "user", "content": text} for text in [*FORMULAS, UNSEEN, "🧮"]], tokenizer="bytes", template="raw"
    )
    rows = list(csv.DictReader(io.StringIO(made("csv", evil)[0].data.decode(), newline="")))
    tokens = evil.whole().to_dict()["tokens"]
    assert [int(row["id"]) for row in rows] == [token["id"] for token in tokens]
    for row, token in zip(rows, tokens):
        assert not row["piece"].startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))
        assert row["piece"] in (token["piece"], "'" + token["piece"]) and row["bytes"].lstrip("'") == token["bytes"]
    frame = parquet.read_table(io.BytesIO(made("parquet", evil)[0].data)).to_pandas()
    assert frame["bytes"].tolist() == [bytes.fromhex(token["bytes"]) for token in tokens]
    assert frame["piece"].tolist() == [token["piece"] for token in tokens]
    assert frame["path"].tolist() == [token["path"] for token in tokens]
    assert str(frame["id"].dtype).lower().startswith("int64")


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_writes_what_it_says(tmp_path: Path) -> None:
    assert tuple(export.name for export in EXPORTS) == FORMS
    given, runner = json.dumps(CHAT), CliRunner()
    common = ["export", "-", "--tokenizer", "smollm2", "--clock", CLOCK]

    def told(*rest: str) -> Any:
        return runner.invoke(app, [*common, *rest], input=given)

    assert told("--format", "html", "--out", "-").stdout_bytes == made("html", side(CHAT, tokenizer="smollm2"))[0].data
    assert told("--format", "html", "--b", "qwen3,chatml", "--out", str(tmp_path / "both.html")).exit_code == 0
    assert "First difference" in (tmp_path / "both.html").read_text("utf-8")
    assert told("--format", "pytest", "--out", str(tmp_path / "pin")).exit_code == 0
    assert {path.name for path in (tmp_path / "pin").iterdir()} == {
        "test_prompt.py",
        "chat_template.jinja",
        "tokenizer.json",
    }
    for rest, why in (
        (("--format", "pdf", "--out", "-"), "there is no export 'pdf'"),
        (("--format", "csv", "--b", "bytes", "--out", "-"), "not a comparison"),
        (("--format", "python", "--out", "-"), "gives 2 files"),
        (("--format", "csv", "--out", str(tmp_path / "no" / "x.csv")), "cannot write"),
    ):
        done = told(*rest)
        assert done.exit_code == 2 and why in done.stderr and done.stderr.count("\n") == 1


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_page_gives_the_files_and_the_report_opens_without_script_or_network(
    open_page: Any, browser: Any, tmp_path: Path
) -> None:
    bench = open_page()
    bench.type_in("messages", messages(*HOSTILE, UNSEEN))

    def download(name: str) -> Path:
        with bench.page.expect_download() as waiting:
            bench.page.click(f'.ti-menurow button[aria-label="{name}"]')
        waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
        return tmp_path / waiting.value.suggested_filename

    bench.page.click(".ti-menu > summary")
    both = download("B download: report of A and this one (HTML)")
    bench.page.screenshot(path=shot("export-menu"))
    report = download("A download: report (HTML, one file)")
    cells = list(csv.DictReader(io.StringIO(download("A download: table as CSV").read_bytes().decode(), newline="")))
    assert [row["piece"] for row in cells if row["piece"].startswith("'=")], "no token that would be a formula"
    assert not [row["piece"] for row in cells if row["piece"].startswith(("=", "+", "-", "@"))]
    with zipfile.ZipFile(download("A download: pytest file that pins this input (zip)")) as archive:
        assert archive.namelist() == ["test_prompt.py", "chat_template.jinja", "tokenizer.json"]
    asked: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    for path, name in ((report, "report"), (both, "report-both")):
        asked.clear()
        page.goto(path.as_uri())
        page.evaluate("() => document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        page.screenshot(path=shot(name))
        assert page.evaluate("() => window.pwned") is None and asked == [path.as_uri()]
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth") and HOSTILE[
            0
        ] in page.inner_text("body")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=shot("report-narrow-dark"))
    context.close()
    bench.choose("tokenizer0", "o200k")
    bench.choose("template0", "chatml")
    bench.page.evaluate("() => { document.querySelector('.ti-menu').open = true; }")
    bench.page.click('.ti-menurow button[aria-label="A download: code for transformers alone, same ids (zip)"]')
    bench.page.wait_for_function("() => /transformers alone/.test(document.querySelector('.ti-menutold').textContent)")
