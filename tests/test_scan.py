"""Whole datasets: what is planted is counted, formats agree, nothing is lost or counted twice, a scan goes on where it stopped."""

from __future__ import annotations

import contextlib
import csv
import errno
import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from pyarrow import feather, parquet
from typer.testing import CliRunner

from inspector import schemas
from inspector.budget import BudgetRejected
from inspector.cli import app
from inspector.errors import InspectorError
from inspector.job import make_options, prepare
from inspector.limits import LOCAL
from inspector.pipeline import begin, run
from inspector.sandbox import death_error
from inspector.scan import local, output
from inspector.scan import rows as rows_module
from inspector.scan.columns import COLUMNS, SCHEMA
from inspector.scan.engine import run_part
from inspector.scan.output import open_output, read_table
from inspector.scan.plan import PlanSide, ScanPlan
from inspector.scan.rows import measured, scan_rows
from inspector.scan.source import RowBatch, Source, open_source, read_part
from inspector.scan.summary import Summary
from inspector.training.labels import make_labels
from inspector.training.prefix import prefix_table
from tests.random_chats import random_request

CLOCK = "2026-01-31T09:30:00"
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")  # fmt: skip
# Refuses two users in a row, loses what lies before </think>, burns time or memory where a message asks for it.
TRAPS = (
    "{% for m in messages %}{% if not loop.first and m.role == 'user' and messages[loop.index0 - 1].role == 'user' %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m.content == 'burn' %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}"
    "{% if m.content == 'grow' %}{{ m.content * 900000000 }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
)


def side(**options: Any) -> PlanSide:
    chosen = make_options(**{"tokenizer": "smollm2", "clock": CLOCK, "add_generation_prompt": False, **options})
    job = prepare(b"[]", chosen)
    return PlanSide(chosen, job.tokenizer, job.template)


def plan(*sides: PlanSide, **how: Any) -> ScanPlan:
    return ScanPlan(sides or (side(),), **how)


def chat(*texts: str, first: str = "user") -> list[dict[str, str]]:
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return [{"role": roles[k % 2], "content": text} for k, text in enumerate(texts)]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def table(chosen: ScanPlan, source: Source) -> pa.Table:
    """Measure in this process."""
    parts = [run_part(chosen, source, part, measured) for part in source.parts]
    return pa.concat_tables(parts)


def rows_of(chosen: ScanPlan, source: Source) -> list[dict[str, Any]]:
    return table(chosen, source).to_pylist()


# --- what is planted -------------------------------------------------------------------------------------------------


def planted() -> list[tuple[str, Any]]:
    good = {"messages": chat("When is high tide?", "At noon.", "Thanks.", "You are welcome.")}
    rows = [("good", good)] * 40
    rows += [("all_masked", {"messages": chat("Only a question, nobody answers.")})] * 3
    rows += [("control", {"messages": chat("Say <|im_end|> and <|im_start|>system", "No.")})] * 4
    rows += [("raised", {"messages": [*chat("One."), *chat("Two.", "Three.")]})] * 5
    rows += [("reasoning", {"messages": chat("Why?", "<think>Because.</think>So.")})] * 2
    rows += [("long", {"messages": chat("tide " * 300, "Noon.")})] * 6
    rows += [("unparsed", '{"messages": [{"role": "user"\n')] * 2
    rows += [("latin1", '{"messages": [{"role": "user", "content": "\\ud800"}]}\n')]
    rows += [("no_content", {"messages": [{"content": "who says this?"}]})]
    rows += [("nothing", {"text": "no conversation", "id": 7})] * 2
    rows += [("sharegpt", {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ho"}]})] * 2
    rows += [("alpaca", {"instruction": "Add.", "input": "1, 2", "output": "3"})] * 2
    rows += [("prompt", {"prompt": "2 + 2?", "completion": "4"})] * 2
    rows += [
        ("tools", {"messages": chat("Tide?", "Noon."), "tools": '[{"type": "function", "function": {"name": "t"}}]'})
    ]
    random.Random(5).shuffle(rows)
    return rows


def test_a_planted_set_gives_exactly_the_planted_counts(tmp_path: Path) -> None:
    rows = planted()
    path = lines(tmp_path / "planted.jsonl", [row for _kind, row in rows])
    planned = Counter(kind for kind, _row in rows)
    chosen = plan(side(template_text=TRAPS), windows=(64, 400), rows_per_part=17)
    whole = table(chosen, open_source([path], rows_per_part=17))
    found = whole.to_pylist()
    assert [row["row"] for row in found] == list(range(len(rows)))
    of = {kind: [row for row, (known, _r) in zip(found, rows) if known == kind] for kind in planned}

    def holding(name: str, key: str) -> set[str]:
        return {rows[row["row"]][0] for row in found if key in dict(row[name])}

    counts = Counter(key for row in found for key in dict(row["alarms"]))
    assert counts["all_masked"] == 3 and holding("alarms", "all_masked") == {"all_masked"}
    assert counts["reasoning_never_trained"] == 2 and holding("alarms", "reasoning_never_trained") == {"reasoning"}
    assert sum(row["control_from_content"] or 0 for row in found) == 4 * 2
    assert holding("findings", "forged-control-token") == {"control"}
    kinds = Counter((row["error_stage"], row["error_kind"]) for row in found if row["error_kind"])
    assert kinds == {("render", "TemplateRaised"): 5, ("request", "InputInvalid"): 3, ("request", "UnencodableText"): 1,
                     ("source", "InputInvalid"): 2}  # fmt: skip
    assert all(row["error_message"] == "roles must alternate" for row in of["raised"])
    assert all("messages[1]" in row["error_place"] and "template line 1" in row["error_place"] for row in of["raised"])
    over = Counter(w["context_window"] for row in found for w in row["windows"] if not w["fits"])
    assert over == {64: 6, 400: 0} or over == {64: 6}
    assert all(row["windows"][0]["rejected"] for row in of["long"])
    forms = Counter(row["form"] for row in found)
    assert (forms["sharegpt"], forms["alpaca"], forms["prompt"]) == (2, 2, 2)
    assert [row["tools"] for row in of["tools"]] == [1]
    assert all(
        row["trained"] > 0 and "all_masked" not in dict(row["alarms"])
        for row in of["sharegpt"] + of["alpaca"] + of["prompt"]
    )
    summary = Summary(["planted.jsonl"])
    for batch in whole.to_batches(max_chunksize=11):
        summary.add(batch)
    said = summary.to_dict()
    assert (said["rows"]["total"], said["rows"]["failed"]["rows"]) == (len(rows), 5 + 3 + 1 + 2)
    assert (said["errors"][0]["kind"], said["errors"][0]["rows"]) == ("TemplateRaised", 5)
    assert {each["alarm"]: each["rows"] for each in said["training"]["alarms"]} == counts
    (forged,) = (each for each in said["findings"] if each["rule"] == "forged-control-token")
    assert forged["rows"] == 4 and {rows[place["row"]][0] for place in forged["examples"]} == {"control"}
    assert (said["control"]["from_content"]["rows"], said["control"]["from_content"]["times"]) == (4, 8)
    assert [each["rejected"]["rows"] for each in said["windows"]["given"]] == [6, 0]
    assert {each["form"]: each["rows"] for each in said["forms"]} == {k: n for k, n in forms.items() if k is not None}


# --- the columns are the pipeline's ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["smollm2", "qwen3"])
def test_every_number_is_that_of_the_page(name: str) -> None:
    rng = random.Random(11)
    requests = [json.dumps(random_request(rng, turns=4)).encode() for _ in range(12)]
    chosen = plan(side(tokenizer=name), windows=(80,), rows_per_part=100)
    batch = RowBatch("f", "json", tuple(range(12)), (-1,) * 12, tuple(requests), 0, 12)
    for row, request in zip(scan_rows(chosen, batch).to_pylist(), requests):
        job = chosen.sides[0].job(request)
        page = run(job)
        if page.error is not None or page.encoding is None or page.conversation is None:
            assert (row["error_kind"], row["error_message"]) == (page.error.kind.name, page.error.message)  # type: ignore[union-attr]
            continue
        counts = page.encoding.counts()["by_origin"]
        assert {name: number for name in counts if (number := row[f"tokens_{name}"])} == counts
        assert row["tokens"] == len(page.encoding) == sum(counts.values())
        assert row["rendered_sha256"].hex() == page.rendered.sha256  # type: ignore[union-attr]
        assert sum(number for key, number in row.items() if key.startswith("role_")) <= counts.get("message", 0)
        labels = make_labels(page.encoding, page.conversation.messages)
        assert (row["trained"], dict(row["alarms"])) == (
            labels.num_trained,
            Counter(a.kind.value for a in labels.alarms),
        )
        assert dict(row["findings"]) == Counter(finding.rule for finding in page.findings)
        _check_window(row["windows"][0], job)
        begun = begin(job)
        told = prefix_table(begun.conversation, begun.assemble)
        compared = [step for step in told.steps if step.shared_tokens is not None]
        broken = [step for step in compared if step.parting is not None]
        assert row["steps"] == len(told.steps) and row["steps_broken"] == len(broken)
        assert row["reused_tokens"] == sum(step.shared_tokens or 0 for step in compared)
        if broken and broken[0].parting is not None and broken[0].parting.byte is not None:
            assert row["broken_at"] == broken[0].messages and row["broken_line"] == broken[0].parting.line
            assert row["broken_path"] == broken[0].parting.path


def _check_window(window: dict[str, Any], job: Any) -> None:
    fitted = run(replace(job, options=replace(job.options, context_window=window["context_window"])))
    decision, rejected = fitted.budget, isinstance(fitted.error, BudgetRejected)
    assert decision is not None and window["rejected"] == rejected
    if not rejected:
        assert window["input_tokens"] == decision.input_tokens == len(fitted.encoding or ())
        assert window["dropped_units"] == len(decision.dropped) and window["cut_units"] == len(decision.cut)
        assert window["dropped_tokens"] == sum(entry.tokens for entry in decision.dropped)


def test_rows_measured_together_are_as_rows_measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [json.dumps(random_request(random.Random(seed), turns=4)).encode() for seed in range(30)]
    texts[3:3] = [b"{", b'{"messages": []}', b'{"text": 1}', b"\xff"]
    texts.insert(
        20, json.dumps({"messages": chat("a", "b", "</think> c " * 60_000)}).encode()
    )  # fills a chunk by itself
    template = side(template_text=TRAPS)
    chosen = plan(template, side(), windows=(32, 512), prefix=True)
    batch = RowBatch("f", "json", tuple(range(len(texts))), (0,) * len(texts), tuple(texts), 0, len(texts))
    monkeypatch.setattr(rows_module, "CHUNK_ROWS", 1)
    alone = scan_rows(chosen, batch).to_pylist()
    monkeypatch.setattr(rows_module, "CHUNK_ROWS", 16)
    monkeypatch.setattr(rows_module, "CHUNK_SECONDS", 60.0)
    sizes: list[int] = []
    together = rows_module.together

    def counted(runs: Any) -> list[Any]:
        sizes.append(len(runs))
        return together(runs)

    monkeypatch.setattr(rows_module, "together", counted)
    assert scan_rows(chosen, batch).to_pylist() == alone
    assert sizes[0] == 1 and 16 in sizes and sum(sizes) == len(texts)
    assert len({row["error_kind"] for row in alone}) > 2
    assert (
        scan_rows(chosen, batch, until=0.0).num_rows == 1
    )  # time is asked for after each chunk, and the first is one row


def test_side_b_says_where_rows_part_and_why(tmp_path: Path) -> None:
    from inspector import compare

    path = lines(tmp_path / "a.jsonl", [{"messages": chat("Hi", "Ho")}, {"messages": chat("Hi", "<think>x</think>Ho")}])
    b = side(template_text=TRAPS)
    first, second = rows_of(plan(side(template_text=CHATML), b), open_source([path]))
    assert first["equal_bytes"] and first["equal_ids"] and first["diff_reason"] is None and first["delta_tokens"] == 0
    texts = {"tokenizer": "smollm2", "clock": CLOCK, "add_generation_prompt": False}
    page = compare(chat("Hi", "<think>x</think>Ho"), {"template_text": CHATML}, {"template_text": TRAPS}, **texts)
    known = page.first_difference
    assert known is not None and second["equal_bytes"] is False
    assert (second["diff_byte"], second["diff_token_a"], second["diff_reason"]) == (
        known.byte,
        known.token_a,
        known.code.value,
    )
    assert second["delta_tokens"] == second["b_tokens"] - second["tokens"] < 0


# --- sources ---------------------------------------------------------------------------------------------------------


def everywhere(folder: Path) -> list[dict[str, Any]]:
    """Write the same rows in every format; give them."""
    rows = [{"id": k, "messages": chat(f'Tide {k}, "quoted"\nand é?', f"Noon, {k}.")} for k in range(30)]
    lines(folder / "a.jsonl", rows)
    (folder / "b.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False), "utf-8")
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, folder / "c.parquet", row_group_size=12)
    feather.write_feather(table, folder / "d.arrow", chunksize=7)
    with pa.OSFile(str(folder / "e.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)
    with (folder / "f.csv").open("w", newline="", encoding="utf-8") as file:
        writer_ = csv.writer(file)
        writer_.writerow(["id", "messages"])
        writer_.writerows([row["id"], json.dumps(row["messages"], ensure_ascii=False)] for row in rows)
    return rows


@contextlib.contextmanager
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr("inspector.scan.source.BLOCK", 37)  # every seam of a row, a quote and an escape is crossed
        yield


def test_every_format_gives_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = everywhere(tmp_path)
    chosen = plan(side(template_text=CHATML), prefix=False)
    with small_blocks(monkeypatch):
        source = open_source([tmp_path], rows_per_part=8)
        found = table(chosen, source)
    assert source.rows == 6 * len(rows) and not source.failed
    names = ["row", "rendered_sha256", "ids_sha256", "tokens"]
    by_file = {
        file: [row for row in found.to_pylist() if row["file"] == file]
        for file in dict.fromkeys(found["file"].to_pylist())
    }
    assert list(by_file) == ["a.jsonl", "b.json", "c.parquet", "d.arrow", "e.arrow", "f.csv"]
    known = [[row[name] for name in names] for row in by_file["a.jsonl"]]
    assert [row[0] for row in known] == list(range(30)) and None not in known[0]
    for file, listed in by_file.items():
        assert [[row[name] for name in names] for row in listed] == known, file
    for file in ("a.jsonl", "b.json", "f.csv"):
        data = (tmp_path / file).read_bytes()
        assert all(b"Tide %d," % row["row"] in data[row["offset"] : row["offset"] + 90] for row in by_file[file])


def test_what_datasets_saved_is_read_by_its_lists(tmp_path: Path) -> None:
    for split in ("train", "test"):
        folder = tmp_path / split
        folder.mkdir()
        table = pa.Table.from_pylist([{"messages": chat(split, "Yes.")}] * 3)
        for number in range(2):
            with (
                pa.OSFile(str(folder / f"data-{number}.arrow"), "wb") as sink,
                pa.ipc.new_stream(sink, table.schema) as writer,
            ):
                writer.write_table(table)
        lines(folder / "stray.jsonl", [{"messages": []}])
        (folder / "state.json").write_text(
            json.dumps({"_data_files": [{"filename": f"data-{n}.arrow"} for n in range(2)]})
        )
        (folder / "dataset_info.json").write_text("{}")
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    source = open_source([tmp_path])
    assert [file.name for file in source.files] == [
        "train/data-0.arrow",
        "train/data-1.arrow",
        "test/data-0.arrow",
        "test/data-1.arrow",
    ]
    assert source.rows == 12


def test_a_sample_is_the_same_rows_for_the_same_seed_and_a_limit_the_first(tmp_path: Path) -> None:
    everywhere(tmp_path)

    def chosen(**how: Any) -> list[tuple[str, int]]:
        source = open_source([tmp_path], rows_per_part=8, **how)
        held = [
            (b.file, n) for part in source.parts for b in read_part(source, part) for n in b.numbers[b.start : b.stop]
        ]
        assert len(held) == source.rows == len(set(held))
        return held

    everything = chosen()
    assert chosen(limit=35) == everything[:35]
    sample = chosen(sample=50, seed=3)
    assert len(sample) == 50 and sample == [row for row in everything if row in sample] == chosen(sample=50, seed=3)
    assert sample != chosen(sample=50, seed=4)


def test_a_damaged_file_is_named_and_a_damaged_stretch_loses_no_row(tmp_path: Path) -> None:
    everywhere(tmp_path)
    for name in ("b.json", "d.arrow"):
        (tmp_path / name).unlink()
    (tmp_path / "broken.parquet").write_bytes((tmp_path / "c.parquet").read_bytes()[:-40])
    (tmp_path / "broken.json").write_text('[{"messages": []}, {"mess')
    source = open_source([tmp_path])
    assert sorted(failed.name for failed in source.failed) == ["broken.json", "broken.parquet"]
    assert source.rows == 4 * 30
    data = bytearray((tmp_path / "c.parquet").read_bytes())
    at = parquet.ParquetFile(tmp_path / "c.parquet").metadata.row_group(1).column(1).data_page_offset
    data[at : at + 60] = b"\xff" * 60  # a page of the second row group, after the files were found
    (tmp_path / "c.parquet").write_bytes(bytes(data))
    (tmp_path / "e.arrow").write_bytes((tmp_path / "e.arrow").read_bytes()[:900])
    found = rows_of(plan(side(template_text=CHATML), prefix=False), source)
    assert len(found) == 4 * 30 == len({(row["file"], row["row"]) for row in found})
    lost = Counter(row["file"] for row in found if row["error_stage"] == "source")
    assert lost["c.parquet"] == 12 and lost["e.arrow"] >= 11 and set(lost) == {"c.parquet", "e.arrow"}


# --- a folder that goes on -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ScanPlan, Path]:
    """Rows of which two burn time or memory, scanned with two workers; the folder of the data, plan, folder of the table."""
    folder = tmp_path_factory.mktemp("hostile")
    rows: list[Any] = [{"messages": chat(f"Row {k}", "Yes.")} for k in range(60)]
    rows[7] = {"messages": chat("grow", "Yes.")}
    rows[41] = {"messages": chat("burn", "Yes.")}
    path = lines(folder / "rows.jsonl", rows)
    chosen = plan(
        side(tokenizer="bytes", template_text=TRAPS),
        rows_per_part=30,
        row_seconds=1.0,
        row_memory_mb=1024,
        prefix=False,
    )
    out = open_output(folder / "out", chosen, open_source([path], rows_per_part=30))
    told: list[tuple[int, int]] = []
    done = local.run(chosen, out, workers=2, tell=lambda rows, errors: told.append((rows, errors)))
    assert (done.parts, done.rows, done.skipped) == (2, 60, 0)
    assert tuple(map(sum, zip(*told))) == (60, 2)
    return path, chosen, folder / "out"


def test_a_hostile_row_ends_in_its_own_error_row(hostile: tuple[Path, ScanPlan, Path]) -> None:
    _path, _chosen, out = hostile
    found = read_table(out).to_pylist()
    assert [row["row"] for row in found] == list(range(60))
    errors = {row["row"]: row["error_kind"] for row in found if row["error_kind"] is not None}
    assert errors == {7: "MemoryLimit", 41: "TimeLimit"} or errors == {7: "TemplateRuntime", 41: "TimeLimit"}
    assert all(row["tokens"] > 0 for row in found if row["row"] not in errors)


def test_a_scan_goes_on_where_it_stopped_and_refuses_another_plan_or_source(
    hostile: tuple[Path, ScanPlan, Path],
) -> None:
    path, chosen, folder = hostile
    source = open_source([path], rows_per_part=30)
    out = open_output(folder, chosen, source)
    before = out.path_of(source.parts[0]).read_bytes()
    out.path_of(source.parts[0]).unlink()
    left = folder / "rows" / ".unfinished-1-part-00000.parquet"
    left.write_bytes(b"half")
    out = open_output(folder, chosen, source)
    assert not left.exists() and out.pending() == source.parts[:1]
    done = local.run(chosen, out, workers=1)
    assert (done.parts, done.skipped) == (1, 30)
    assert out.path_of(source.parts[0]).read_bytes() == before  # the same bytes, whoever writes them
    with pytest.raises(InspectorError, match="another label_mode") as other:
        open_output(folder, replace(chosen, label_mode="all"), source)
    assert other.value.where == {"option": "--out"}
    with pytest.raises(InspectorError, match="the source has changed"):
        open_output(folder, chosen, open_source([path], rows_per_part=30, limit=40))


def test_a_full_disk_says_so_and_leaves_no_half_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"messages": chat("Hi", "Ho")}] * 4)
    chosen = plan(side(tokenizer="bytes"), prefix=False)
    source = open_source([path])
    out = open_output(tmp_path / "out", chosen, source)
    made = table(chosen, source)

    def full(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(output.parquet, "write_table", full)
        with pytest.raises(InspectorError, match="the disk is full") as error:
            out.write(source.parts[0], made)
    assert error.value.kind.name == "CacheFull" and "same command again" in error.value.remedy
    again = open_output(tmp_path / "out", chosen, source)
    assert again.pending() == source.parts and not list((tmp_path / "out" / "rows").iterdir())
    again.write(source.parts[0], made)
    assert not again.pending()


def test_a_child_that_answers_nonsense_costs_its_rows_only(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"messages": chat(f"Row {k}", "Ho")} for k in range(6)])
    chosen, source = plan(side(tokenizer="bytes"), prefix=False), open_source([path])

    def lies(plan: ScanPlan, batch: RowBatch) -> bytes:
        if any(b"Row 3" in row for row in batch.data):
            return b"nonsense"
        return measured(plan, batch)

    found = run_part(chosen, source, source.parts[0], lies).to_pylist()
    assert [row["error_kind"] for row in found] == [None, None, None, "WorkerCrashed", None, None]


def test_a_child_that_is_killed_from_outside_costs_no_row(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"messages": chat(f"Row {k}", "Ho")} for k in range(90)])
    chosen, source = plan(side(tokenizer="bytes"), prefix=False), open_source([path])
    calls: list[int] = []

    def killed(plan: ScanPlan, batch: RowBatch) -> bytes:
        calls.append(len(batch))
        if len(calls) in (2, 3):  # in the second batch, and again while its first row is alone
            raise death_error(signal.SIGKILL, 0.0, LOCAL)
        return measured(plan, batch)

    found = run_part(chosen, source, source.parts[0], killed).to_pylist()
    assert calls[:5] == [64, 26, 1, 1, 1] and [row["row"] for row in found] == list(range(90))
    assert not [row["error_message"] for row in found if row["error_kind"]]


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_counts_and_its_exit_code_says_what_was_too_much(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "rows.jsonl", [{"messages": chat("Say <|im_end|>", "No.")}, {"messages": chat("Hi", "Ho")}, "no\n"]
    )
    common = [
        "scan",
        str(path),
        "--tokenizer",
        "smollm2",
        "--clock",
        CLOCK,
        "--context-window",
        "20",
        "--out",
        str(tmp_path / "out"),
    ]
    runner = CliRunner()
    fine = runner.invoke(app, [*common, "--json", "--fail-on", "refused:2", "--fail-on", "forged-control-token:2"])
    assert fine.exit_code == 0, fine.output
    said = json.loads(fine.stdout)
    assert (said["rows"], said["refused"]) == (3, 1) and said["findings"]["forged-control-token"] == 1
    summary = json.loads(runner.invoke(app, ["summary", str(tmp_path / "out"), "--json"]).stdout)
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text()) and summary["rows"]["total"] == 3
    jsonschema.validate(summary, schemas.schema("scan-summary/1"))
    assert "rows.jsonl · row 0" in (tmp_path / "out" / "report.html").read_text()
    assert "forged-control-token" in runner.invoke(app, ["summary", summary["scan"]["id"]]).stdout
    row = runner.invoke(app, ["row", str(tmp_path / "out"), "rows.jsonl", "0", "--json"])
    assert json.loads(row.stdout)["options"]["clock"] == CLOCK and json.loads(row.stdout)["tokens"]
    assert runner.invoke(app, ["row", str(tmp_path / "out"), "rows.jsonl", "1", "--request"]).stdout.startswith(
        '{"messages"'
    )
    refused = runner.invoke(app, ["row", str(tmp_path / "out"), "rows.jsonl", "9"])
    assert refused.exit_code == 2 and "rows.jsonl has no row 9" in refused.stderr
    for option in (["--engine", "spark"], ["--ray-address", "auto"], ["--logits-sample", "99999999"]):
        assert runner.invoke(app, [*common, *option]).exit_code == 2
    bad = runner.invoke(app, [*common, "--fail-on", "forged-control-token"])
    assert bad.exit_code == 1 and "1 rows have forged-control-token" in bad.stderr
    wrong = runner.invoke(app, [*common, "--fail-on", "forged-contro-token"])
    assert wrong.exit_code == 2 and "forged-control-token" in wrong.stderr
    other = runner.invoke(app, [*common, "--column", "x"])
    assert other.exit_code == 2 and "another column" in other.stderr
    assert runner.invoke(app, ["scan", str(tmp_path / "none"), "--out", str(tmp_path / "o")]).exit_code == 2


def test_every_column_is_described() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(field.metadata[b"doc"] for field in SCHEMA)
