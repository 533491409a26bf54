"""The summary of a scan: every number against a plain count of the same rows, however the rows are cut and added up."""

from __future__ import annotations

import json
import random
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from inspector import schemas
from inspector.scan.columns import ORIGINS, ROLES, SCHEMA, SCRIPTS, empty_row
from inspector.scan.report import report
from inspector.scan.summary import COLUMNS, Summary

FILES = ["a.jsonl", "b/c.parquet"]
KINDS = [("render", "TemplateRaised", "messages[{}]: roles must alternate"), ("source", "InputInvalid", "no row: {}")]


def drawn_row(draw: random.Random, file: str, number: int) -> dict[str, Any]:
    """A row as a scan may write it; what one column says does not contradict another."""
    row = empty_row() | {"file": file, "row": number, "form": draw.choice(["messages", "sharegpt", None])}
    stage, kind, message = draw.choice(KINDS)
    if draw.random() < 0.15:
        return row | {"error_stage": stage, "error_kind": kind, "error_message": message.format(draw.randrange(99)),
                      "b_error_stage": stage, "b_error_kind": draw.choice([None, kind]), "b_error_message": "no"}  # fmt: skip
    tokens = draw.choice([draw.randrange(1, 60), draw.randrange(1, 5000), 70000])
    rest = tokens
    for name in ORIGINS:
        row[f"tokens_{name}"] = draw.randrange(rest + 1) if name != ORIGINS[-1] else rest
        rest -= row[f"tokens_{name}"]
    row |= {f"role_{name}": draw.choice([0, draw.randrange(9)]) for name in (*ROLES, "other")}
    trained = draw.choice([0, draw.randrange(tokens + 1)])
    found = draw.sample(["double-bos", "late-system", "mine"], draw.randrange(4))
    delta = max(draw.randrange(-5, 6), 1 - tokens)
    row |= {
        "tokens": tokens, "bytes": 3 * tokens, "trained": trained, "masked": tokens - trained,
        "last_role": draw.choice(["user", "assistant"]), "provenance": draw.choice(["traced", "unknown"]),
        "scripts": [(name, draw.randrange(1, 9)) for name in draw.sample(SCRIPTS, draw.randrange(3))],
        "findings": [*((rule, draw.randrange(1, 4)) for rule in found), ("no-generation-tag", 1)],
        "alarms": [("all_masked", 1)] if not trained else [("pad_is_eos_masks_eos", 1)],
        "control": 4, "control_from_content": draw.choice([0, 0, 2]), "control_crossing": 0, "look_alike": draw.choice([0, 1]),
        "unknown_tokens": 0, "uncovered_bytes": draw.choice([0, 7]),
        "windows": [drawn_window(draw, size, tokens) for size in (32, 1000)],
        "steps": 3, "steps_broken": draw.choice([0, 1]), "step_tokens": 90, "reused_tokens": draw.randrange(91), "steps_refused": 0,
        "b_tokens": tokens + delta, "equal_ids": delta == 0, "equal_bytes": delta == 0, "delta_tokens": delta,
        "diff_reason": None if delta == 0 else draw.choice(["bos", "trimmed"]),
    }  # fmt: skip
    if row["steps_broken"]:
        row |= draw.choice([{"broken_line": 12}, {"broken_path": f"messages[{draw.randrange(9)}].content"}])
    if draw.random() < 0.1:
        row |= {"b_tokens": None, "b_error_stage": "encode", "b_error_kind": "TimeLimit", "b_error_message": "30 s",
                "equal_ids": None, "equal_bytes": None, "delta_tokens": None, "diff_reason": None}  # fmt: skip
    return row


def drawn_window(draw: random.Random, size: int, tokens: int) -> dict[str, Any]:
    window = {field.name: None for field in SCHEMA.field("windows").type.value_type}
    window |= {"context_window": size, "fits": tokens <= size - 8, "rejected": False, "cut_units": 0, "cut_tokens": 0,
               "dropped_units": 0, "dropped_tokens": 0, "broken": [], "trained_beyond": 0}  # fmt: skip
    if window["fits"]:
        return window
    what = draw.choice(["rejected", "cut", "dropped", "error"])
    if what == "rejected":
        return window | {"rejected": True, "trained_beyond": draw.randrange(3)}
    if what == "error":
        return window | {"error_kind": "BudgetExceeded"}
    return window | {f"{what}_units": 2, f"{what}_tokens": draw.randrange(1, 50), "broken": ["bos_lost"]}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [drawn_row(draw, file, number) for file in FILES for number in range(700)]


def counted(rows: list[dict[str, Any]], cuts: list[int] | None = None) -> Summary:
    summary = Summary(FILES, compares=True)
    table = pa.Table.from_pylist(rows, schema=SCHEMA).select(COLUMNS)
    edges = [0, *(cuts or []), len(rows)]
    for start, end in zip(edges, edges[1:]):  # noqa: RUF007
        for batch in table.slice(start, end - start).combine_chunks().to_batches(max_chunksize=97):
            summary.add(batch)
    return summary


@pytest.fixture(scope="module")
def value(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return counted(rows).to_dict(reserve=8)


def places(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"file": row["file"], "row": row["row"]} for row in rows[:8]]


def entry(rows: list[dict[str, Any]], times: int | None = None) -> dict[str, Any]:
    return {"rows": len(rows), "times": len(rows) if times is None else times, "examples": places(rows)}


def test_every_count_is_the_plain_count(rows: list[dict[str, Any]], value: dict[str, Any]) -> None:
    good = [row for row in rows if row["error_kind"] is None]
    assert value["rows"] == {"total": len(rows), "measured": len(good),
                             "failed": entry([row for row in rows if row["error_kind"]])}  # fmt: skip
    for stage, kind, message in KINDS:
        failed = [row for row in rows if row["error_kind"] == kind]
        (found,) = (group for group in value["errors"] if group["kind"] == kind)
        assert found == {"stage": stage, "kind": kind, **entry(failed),
                         "reasons": [{"reason": message.format("#").replace("messages[#]", "messages[#]"), **entry(failed)}]}  # fmt: skip
    for rule in ("double-bos", "late-system", "mine"):
        hit = [row for row in rows if rule in dict(row["findings"])]
        (found,) = (row for row in value["findings"] if row["rule"] == rule)
        assert {**found, "severity": 0, "title": 0} == {
            "rule": rule, **entry(hit, sum(dict(row["findings"])[rule] for row in hit)), "severity": 0, "title": 0
        }  # fmt: skip
        assert (found["severity"] is None) == (rule == "mine")
    for name, column in (("from_content", "control_from_content"), ("look_alike", "look_alike")):
        hit = [row for row in good if row[column]]
        assert value["control"][name] == entry(hit, sum(row[column] for row in hit))
    untrained = [row for row in good if row["trained"] == 0]
    assert value["training"]["nothing_trained"] == entry(untrained)
    assert {row["rule"] for row in value["findings"]} == {"double-bos", "late-system", "mine"}
    (of_side,) = value["side_findings"]  # of the template alone: apart, and once
    assert (of_side["rule"], of_side["severity"]) == ("no-generation-tag", "note") and of_side["rows"] == len(good)
    trained = [row for row in good if row["trained"]]
    assert value["training"]["alarms"] == [
        {"alarm": "all_masked", **entry(untrained), "of_side": False},
        {"alarm": "pad_is_eos_masks_eos", **entry(trained), "of_side": True},
    ]
    assert value["training"]["trained"] == sum(row["trained"] for row in good)


def test_lengths_percentiles_and_parts(rows: list[dict[str, Any]], value: dict[str, Any]) -> None:
    good = [row for row in rows if row["error_kind"] is None]
    lengths, found = sorted(row["tokens"] for row in good), value["lengths"]
    assert (found["rows"], found["tokens"]) == (len(good), sum(lengths))
    for percentile in found["percentiles"]:
        p, n = percentile["p"], percentile["tokens"]
        assert n in lengths and sum(length <= n for length in lengths) * 100 >= p * len(good)
        assert p == 0 or sum(length < n for length in lengths) * 100 < p * len(good)
        first = next(row for row in good if row["tokens"] == n)
        assert percentile["examples"] == places([first])
    assert sum(bar["rows"] for bar in found["histogram"]) == len(good)
    of = {(row["file"], row["row"]): row["tokens"] for row in good}
    for bar in found["histogram"]:
        assert bar["rows"] == sum(bar["from"] <= length < bar["to"] for length in lengths)
        assert all(bar["from"] <= of[each["file"], each["row"]] < bar["to"] for each in bar["examples"])
        assert bool(bar["examples"]) == bool(bar["rows"])
    for part in value["by_origin"]:
        has = [row for row in good if row[f"tokens_{part['origin']}"]]
        assert (part["rows"], part["examples"]) == (len(has), places(has))
        assert part["tokens"] == sum(row[f"tokens_{part['origin']}"] for row in has)
    assert sum(part["tokens"] for part in value["by_origin"]) == found["tokens"]
    scripts = Counter[str]()
    for row in good:
        scripts.update(dict(row["scripts"]))
    assert {part["script"]: part["tokens"] for part in value["by_script"]} == dict(scripts)


def test_every_window_is_counted_from_the_lengths(rows: list[dict[str, Any]], value: dict[str, Any]) -> None:
    good = [row for row in rows if row["error_kind"] is None]
    for point in value["windows"]["curve"]:
        beyond = [row["tokens"] - (point["window"] - 8) for row in good if row["tokens"] > point["window"] - 8]
        assert (point["rows"], point["tokens"]) == (len(beyond), sum(beyond)) if point["window"] >= 8 else True
    assert [given["window"] for given in value["windows"]["given"]] == [32, 1000]
    for k, given in enumerate(value["windows"]["given"]):
        at = [(row, row["windows"][k]) for row in good]
        assert given["over"] == entry([row for row, window in at if not window["fits"]])
        assert given["rejected"] == entry([row for row, window in at if window["rejected"]])
        for name in ("cut", "dropped"):
            hit = [(row, window[f"{name}_tokens"]) for row, window in at if window[f"{name}_units"]]
            assert given[name] == entry([row for row, _lost in hit], sum(lost for _row, lost in hit))
        broken = Counter(what for _row, window in at for what in [*window["broken"], window["error_kind"]] if what)
        assert {each["what"]: each["rows"] for each in given["broken"]} == dict(broken)
        assert (
            next(p["rows"] for p in value["windows"]["curve"] if p["window"] == given["window"])
            == given["over"]["rows"]
        )


def side_b(row: dict[str, Any]) -> bool | None:
    """Whether side B refused a row; None: it was not read by then, or not asked."""
    if row["error_kind"] and (row["error_stage"] == "source" or not row["b_error_kind"]):
        return None
    return bool(row["b_error_kind"])


def test_the_two_sides(rows: list[dict[str, Any]], value: dict[str, Any]) -> None:
    found = value["compare"]
    both = [row for row in rows if row["error_kind"] is None and row["b_error_kind"] is None]
    assert found["equal"] == entry([row for row in both if row["delta_tokens"] == 0])
    assert found["bytes_differ"] == entry([row for row in both if row["delta_tokens"]])
    assert sum(e["rows"] for e in found["errors"]) == sum(side_b(row) is True for row in rows)
    assert found["ids_differ"] == found["bytes_differ"] and found["only_ids_differ"]["rows"] == 0
    for name, a, b in (
        ("only_a_failed", True, False),
        ("only_b_failed", False, True),
        ("both_failed", True, True),
        ("not_compared", True, None),
    ):
        assert found[name] == entry([r for r in rows if bool(r["error_kind"]) == a and side_b(r) == b])
    for reason in found["reasons"]:
        hit = [row for row in rows if row["diff_reason"] == reason["reason_code"]]
        assert reason == {"reason_code": reason["reason_code"], **entry(hit)}
    assert found["delta"] == sum(row["delta_tokens"] for row in both)
    assert found["longer"]["rows"] == sum(row["delta_tokens"] > 0 for row in both)
    assert sum(
        found[name]["rows"]
        for name in ("equal", "bytes_differ", "only_a_failed", "only_b_failed", "both_failed", "not_compared")
    ) == len(rows)


def test_parts_add_up_to_the_same_summary(rows: list[dict[str, Any]], value: dict[str, Any]) -> None:
    draw = random.Random(1)
    for _ in range(3):
        cuts = sorted(draw.sample(range(len(rows)), 4))
        parts = [counted(rows[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)])]
        draw.shuffle(parts)
        whole = parts[0]
        for part in parts[1:]:
            whole.merge(part)
        assert json.dumps(whole.to_dict(reserve=8)) == json.dumps(value)


def test_nothing_scanned_is_a_summary_too() -> None:
    value = Summary([]).to_dict()
    assert value["rows"]["total"] == 0 and value["lengths"]["percentiles"] == [] and value["compare"] is None


# --- the report -----------------------------------------------------------------------------------------------------

EVIL = "</script><img src=x onerror=alert(1)>\u202e\"'"


def whole(value: dict[str, Any]) -> dict[str, Any]:
    """The summary as it stands in a scan's folder, hostile wherever its texts are foreign."""
    side = {"tokenizer": {"ref": EVIL, "id": EVIL, "digest": "a" * 64}, "template": {"ref": EVIL, "revision": "r", "name": None, "digest": "b" * 64},
            "options": {"policy": "messages", "max_new_tokens": 8, "profile": "vllm", "engine": "jinja2", "clock": None}}  # fmt: skip
    scan = {"id": "0" * 16, "name": EVIL, "complete": False, "parts": {"there": 1, "of": 2}, "rows": 9, "windows": [32, 1000], "column": None,
            "source": [{"file": name, "format": "lines", "bytes": 1, "fingerprint": "x"} for name in FILES],
            "failed_files": [{"file": EVIL, "error": {"message": EVIL}}], "skipped_files": {"count": 30, "files": [EVIL]}, "sides": [side, side], "label_mode": "all", "versions": {"python": "3"}}  # fmt: skip
    answer = {"file": EVIL, "row": 1, "tokens": 3, "entropy": 1.0, "top": [{"id": 1, "piece": EVIL, "prob": 0.5, "logprob": -0.7}], "b": None,
              "kl": 0.1, "top1_changed": True, "error": {"message": EVIL}}  # fmt: skip
    logits = {"model": EVIL, "backend": "openai", "dtype": None, "seed": 0, "asked": 1, "answered": 1, "rows": [answer]}
    return {"schema": value["schema"], "scan": scan, **value, "logits": logits}


class Page(HTMLParser):
    """Every element's name and attributes, and the text of the page."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(data.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_report_holds_no_script_and_each_number_leads_to_rows(value: dict[str, Any]) -> None:
    hostile = whole(json.loads(json.dumps(value).replace("sharegpt", json.dumps(EVIL)[1:-1])))
    page = Page(report(hostile, page="http://127.0.0.1:1/"))
    text = "".join(page.words)
    assert not {tag for tag, _attrs in page.found} & {"script", "img", "iframe", "link", "object", "base", "form"}
    assert not any(name.startswith("on") or name == "src" for _tag, attrs in page.found for name in attrs)
    ids = {attrs["id"] for _tag, attrs in page.found if "id" in attrs}
    links = [attrs["href"] or "" for tag, attrs in page.found if tag == "a"]
    inside = [link for link in links if link.startswith("#")]
    assert {link[1:] for link in inside} == ids and len(inside) > 100
    assert all(link.startswith(f"http://127.0.0.1:1/?scan={'0' * 16}&row=") for link in links if link not in inside)
    assert "‹202E›" in text and "\u202e" not in text
    assert "python -m inspector row" in text and "messages[#]: roles must alternate" in text
    assert "Of the template or the tokenizer" in text and "pad is eos masks eos (of template or tokenizer" in text
    for finding in (*value["findings"], *value["side_findings"]):
        assert f"finding {finding['rule']} · {finding['rows']:,} rows, the first 8" in text


def test_the_schema_of_a_summary_is_so(value: dict[str, Any]) -> None:
    jsonschema.validate(whole(value), schemas.schema("scan-summary/1"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**whole(value), "more": 1}, schemas.schema("scan-summary/1"))
