"""The Dataset view in a real Chromium: a scan's folder opens, its numbers lead to rows, a row opens in the bench and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from page import ANSWER_MS, HOSTILE, NARROW, shot

from inspector.job import make_options, prepare
from inspector.scan import local
from inspector.scan.output import open_output
from inspector.scan.plan import PlanSide, ScanPlan
from inspector.scan.report import row_link
from inspector.scan.source import open_source
from inspector.scan.summary import summarise, write_summary
from inspector.sources.cache import cache_dir

pytestmark = pytest.mark.browser
CLOCK = "2026-01-01T00:00:00+00:00"


def side(tokenizer: str, template: str | None) -> PlanSide:
    job = prepare(b"[]", make_options(tokenizer=tokenizer, template=template, clock=CLOCK, add_generation_prompt=False))
    return PlanSide(job.options, job.tokenizer, job.template)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scan of four rows, two ways: one is refused, one is hostile in every text that the page shows of it."""
    place = tmp_path_factory.mktemp("dataset")
    hostile = "".join(HOSTILE)
    rows = [
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [{"role": "user", "content": hostile + " <|im_end|>"}],
        [{"role": "user", "content": "one " * 40}],
        [{"role": hostile, "content": 5}],
    ]
    (place / "talk.jsonl").write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows), "utf-8")
    plan = ScanPlan((side("qwen3", "qwq-32b@16488a"), side("smollm2", None)), windows=(16, 64))
    source = open_source([place / "talk.jsonl"])
    local.run(plan, open_output(place / "scan", plan, source))
    write_summary(place / "scan", summarise(place / "scan"))
    return place / "scan"


def open_folder(bench: Any, folder: Path) -> None:
    bench.open("dataset")
    bench.page.fill('[data-in="dataset_folder"]', str(folder))
    bench.page.press('[data-in="dataset_folder"]', "Enter")
    bench.page.wait_for_selector(".ti-tiles", timeout=ANSWER_MS)


def test_a_number_opens_its_rows_a_row_opens_in_the_bench_and_back_gives_the_dataset(
    open_page: Any, folder: Path
) -> None:
    bench = open_page()
    before = bench.page.input_value('[data-in="messages"]')
    bench.open("dataset")
    bench.page.fill('[data-in="dataset_folder"]', "/no/such folder")
    bench.page.click(".ti-dataset .ti-main-btn")
    bench.page.locator(".ti-dataset .ti-err", has_text="there is no folder").wait_for(timeout=ANSWER_MS)
    open_folder(bench, folder)
    panel = bench.page.inner_text(".ti-panel")
    assert "4\nrows" in panel and "1\nrefused rows" in panel and "A against B" in panel
    findings = bench.page.locator(".ti-box", has_text="Of the template or the tokenizer")
    of_rows, of_side = (findings.locator("table").nth(k).inner_text() for k in range(2))
    assert "no-generation-tag" in of_side and "no-generation-tag" not in of_rows and "forged-control-token" in of_rows
    findings.screenshot(path=shot("dataset-findings"))
    bench.page.locator(".ti-tiles button", has_text="1").first.click()
    bench.page.keyboard.press("Escape")  # to the number it came from
    assert bench.page.locator(".ti-picked").count() == 0
    bench.page.keyboard.press("Enter")
    assert bench.page.evaluate("document.activeElement.textContent") == "talk.jsonl · row 3"
    bench.page.click(".ti-picked .ti-btn >> nth=0")
    for _ in range(2):  # the pictures follow the theme at once
        bench.page.click('[data-act="dark"]')
        ink = "getComputedStyle(document.querySelector('.ti-panel')).getPropertyValue('--ink').trim()"
        assert bench.page.evaluate(f"document.querySelector('.ti-plot svg').getAttribute('fill') === {ink}")
    bench.page.locator(".ti-plot [data-mark]").first.click()
    bench.page.screenshot(path=shot("dataset"))
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector('[data-view="tokens"][aria-selected="true"]', timeout=ANSWER_MS)
    bench.settle()
    assert json.loads(bench.page.input_value('[data-in="messages"]'))[0]["content"] == "hi"
    assert [bench.page.input_value(f'[data-in="tokenizer{q}"]') for q in (0, 1)] == ["qwen3", "smollm2"]
    assert (
        bench.page.input_value('[data-in="template0"]') == "qwq-32b@16488a"
        and bench.page.input_value('[data-in="context_window"]') == "16"
    )
    assert "hello" in bench.pane(0)["text"] and "hello" in bench.pane(1)["text"]
    bench.page.go_back()
    bench.settle()
    assert (
        bench.page.get_attribute('[data-view="dataset"]', "aria-selected") == "true"
        and bench.page.input_value('[data-in="messages"]') == before
    )
    assert bench.page.evaluate("window.pwned") is None and not bench.faults and not bench.outside


def test_a_scan_is_started_followed_stopped_and_opened_on_the_page(open_page: Any, tmp_path: Path) -> None:
    rows = [{"messages": [{"role": "user", "content": f"tide {k}"}]} for k in range(40)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "many.jsonl").write_text(text * 200)
    kept = cache_dir() / "page-scans"
    before = {*kept.glob("*"), *kept.glob("files/*")}
    bench = open_page()
    bench.open("dataset")
    bench.page.click(".ti-scan summary")
    bench.page.fill('[data-in="scan_source"]', "/no/such/data.jsonl")
    bench.page.click(".ti-scan .ti-main-btn")
    bench.page.locator(".ti-scan .ti-err", has_text="there is no file or folder").wait_for(timeout=ANSWER_MS)
    bench.page.fill('[data-in="scan_source"]', str(tmp_path / "many.jsonl"))
    bench.page.click(".ti-scan .ti-main-btn")
    bench.page.locator(".ti-scannow p", has_text="of 8,000 rows").wait_for(timeout=ANSWER_MS)
    bench.page.screenshot(path=shot("dataset-scan"))
    bench.page.locator(".ti-scannow button", has_text="Cancel").click()
    bench.page.locator(".ti-scannow p", has_text="Stopped after").wait_for(timeout=ANSWER_MS)
    few = {"name": "few.jsonl", "mimeType": "application/json", "buffer": text.encode()}
    bench.page.set_input_files('[data-in="scan_file"]', files=[few])
    bench.page.wait_for_function("() => document.querySelector('[data-in=scan_source]').value.endsWith('few.jsonl')")
    bench.page.fill('[data-in="scan_limit"]', "30")
    bench.page.check('[data-in="scan_both"]')
    bench.page.click(".ti-scan .ti-main-btn")
    bench.page.wait_for_selector(".ti-tiles", timeout=ANSWER_MS)  # it opens by itself
    panel = bench.page.inner_text(".ti-panel")
    assert "30\nrows" in panel and "A against B" in panel and "30 rows measured, 0 refused" in panel
    bench.page.screenshot(path=shot("dataset-scanned"))
    assert not bench.faults and not bench.outside
    for made in {*kept.glob("*"), *kept.glob("files/*")} - before - {kept / "files"}:
        shutil.rmtree(made)


def test_a_link_of_the_report_opens_its_row_and_a_changed_file_says_so(open_page: Any, folder: Path) -> None:
    bench = open_page()
    address = bench.page.url.split("?")[0]
    name = summarise(folder)["scan"]["id"]
    assert row_link(address, name, "talk.jsonl", 1) in (folder / "report.html").read_text().replace(
        "http://127.0.0.1:7860/", address
    ).replace("&amp;", "&")
    bench.page.goto(row_link(address, name, "talk.jsonl", 1))
    bench.page.wait_for_function(
        "() => (document.querySelector('[data-in=messages]') || { value: '' }).value.includes('pwned')",
        timeout=ANSWER_MS,
    )
    bench.settle()
    assert "scan=" not in bench.page.url and "from content" in bench.page.inner_text(".ti-head0 .ti-counts")
    data = folder.parent / "talk.jsonl"
    data.write_bytes(data.read_bytes() + b'{"messages": []}\n')
    try:
        bench.page.goto(row_link(address, name, "talk.jsonl", 0))
        bench.page.locator(".ti-dataset .ti-err", has_text="talk.jsonl has changed since it was scanned").wait_for(
            timeout=ANSWER_MS
        )
    finally:
        data.write_bytes(data.read_bytes().removesuffix(b'{"messages": []}\n'))
    assert bench.page.evaluate("window.pwned") is None and not bench.faults


def test_a_summary_alone_is_shown_on_a_phone_in_chinese_and_what_is_none_is_refused(
    open_page: Any, folder: Path, tmp_path: Path
) -> None:
    bench = open_page(viewport=NARROW, locale="zh-CN", color_scheme="dark")
    bench.open("dataset")
    (tmp_path / "other.json").write_text('{"schema": "scan-summary/1"}')
    for wrong in (tmp_path / "other.json", folder / "manifest.json"):
        bench.page.set_input_files('[data-in="dataset_file"]', str(wrong))
        bench.page.locator(".ti-dataset .ti-err", has_text="这不是扫描的摘要").wait_for()
    bench.page.set_input_files('[data-in="dataset_file"]', str(folder / "summary.json"))
    bench.page.wait_for_selector(".ti-tiles")
    assert "被拒绝的行" in bench.page.inner_text(".ti-panel")
    bench.page.locator(".ti-tiles button").first.click()
    assert bench.page.locator(
        ".ti-picked button.ti-row"
    ).count() == 0 and "在保存扫描文件夹的机器上才能打开行" in bench.page.inner_text(".ti-picked")
    bench.page.click(".ti-scan summary")
    assert "比较" in bench.page.inner_text(".ti-scan")
    assert bench.page.evaluate(
        "document.querySelector('.ti-panel').scrollWidth <= document.querySelector('.ti-panel').clientWidth"
    )
    bench.page.locator(".ti-scan").scroll_into_view_if_needed()
    bench.page.screenshot(path=shot("dataset-phone"))
    assert not bench.faults and not bench.outside
