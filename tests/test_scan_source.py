"""What stands in a file is what is scanned: rows against the readers that everybody has, and everything else named."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from inspector import schemas
from inspector.cli import app
from inspector.errors import ErrorKind, InspectorError
from inspector.scan import packed
from inspector.scan import source as source_module
from inspector.scan.counts import Threshold
from inspector.scan.engine import run_part
from inspector.scan.output import open_output
from inspector.scan.plan import ScanPlan
from inspector.scan.requests import request_of, row_texts
from inspector.scan.rows import measured
from inspector.scan.source import fingerprint, open_source, read_part
from tests.test_scan import CHATML, CLOCK, chat, lines, plan, rows_of, side


def texts(path: Path, **how: Any) -> list[bytes | str]:
    """The rows of a file as JSON text, or the message of why one is none; numbered without a gap."""
    source = open_source([path], **how)
    found = [batch for part in source.parts for batch in read_part(source, part)]
    assert [n for batch in found for n in batch.numbers[batch.start : batch.stop]] == list(range(source.rows))
    made: list[bytes | str] = []
    for batch in found:
        if batch.kind == "unreadable":
            made += [(batch.error or {})["message"]] * len(batch)
        else:
            made += [text.message if isinstance(text, InspectorError) else text for text in row_texts(batch)]
    return made


def values(path: Path) -> list[Any]:
    return [json.loads(text) if isinstance(text, bytes) else text for text in texts(path)]


# --- CSV -------------------------------------------------------------------------------------------------------------


def as_csv_reads(data: bytes) -> list[list[str]]:
    """The records that are not empty, as Python's csv reads them."""
    return [row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if row]


def drawn_csv(draw: random.Random) -> bytes:
    """Any order of what matters to CSV, behind a header of two columns."""
    header = draw.choice(['a,"b"', '"a",b', "a,b", '\ufeff"a",b'])
    ends = draw.choice(["\n", "\r\n", "\r"])
    pieces = [
        '"',
        '"',
        '""',
        ",",
        ",",
        "x",
        "é",
        " ",
        "\n",
        "\r",
        "\r\n",
        '","',
        f'"c, ""d""{ends}e",f',
        f"{ends}g,h{ends}",
    ]
    return (header + ends + "".join(draw.choice(pieces) for _ in range(draw.randrange(60)))).encode()


def test_the_records_of_csv_are_those_of_pythons_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(b'prompt,completion\n"a",b\n5" disk,ok\nc,d\ne,f\n"g",h\n')
    assert values(path) == [
        {"prompt": a, "completion": b} for a, b in (("a", "b"), ('5" disk', "ok"), ("c", "d"), ("e", "f"), ("g", "h"))
    ]
    draw = random.Random(11)
    for block in (1 << 20, 5, 3):  # every seam
        monkeypatch.setattr(source_module, "BLOCK", block)
        for _ in range(150):
            data = drawn_csv(draw)
            path.write_bytes(data)
            known = as_csv_reads(data)[1:]
            if not known:
                with pytest.raises(InspectorError, match="no row"):
                    texts(path)
                continue
            found = values(path)
            assert len(found) == len(known), data
            for row, cells in zip(found, known):
                assert (
                    row == {"a": cells[0], "b": cells[-1]}
                    if len(cells) == 2 and isinstance(row, dict)
                    else isinstance(row, str)
                ), data
    with path.open("wb") as file:
        file.write(b'a,b\n1,2\n3,"4\n5,6\n')
    good, bad = values(path)
    assert good == {"a": "1", "b": "2"} and "unexpected end of data; it spans 2 lines" in bad


def test_a_header_that_cannot_be_read_is_said_in_each_row(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_bytes(b"a,b,a\n1,2,3\n4,5,6\n")
    assert values(path) == ["the header names the column 'a' twice"] * 2
    path.write_bytes("a,b\n1,2\n".encode("utf-16"))
    assert all(isinstance(row, str) and "the header is no CSV record" in row for row in values(path))


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_each_form_of_a_json_file_is_read_whole_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, a, b = tmp_path / "a.json", chat("One?", "1."), chat("Two?", "2.")
    row, other = {"messages": a}, {"messages": b}
    forms: list[tuple[str, list[Any]]] = [
        (json.dumps([row, other], indent=1), [row, other]),
        (json.dumps([row, other]) + " \n\n", [row, other]),
        (f"{json.dumps(a)}\n{json.dumps(b)}\n", [a, b]),  # JSON Lines of arrays of messages
        (f"\ufeff\n{json.dumps([row])}\n{json.dumps([other])}", [[row], [other]]),  # two arrays, a line each
        (f"{json.dumps(a)}\n{json.dumps(other)}", [a, other]),
        (json.dumps(a, indent=2), [a]),  # one conversation
        (json.dumps(row, indent=2) + "\n", [row]),  # one row over several lines
        (json.dumps(row), [row]),
        (f"{json.dumps(row)}\r{json.dumps(other)}\r", [row, other]),  # lines that end in CR alone
        (f"{json.dumps(row)}\r\n\r\n{json.dumps(other)}\r\n", [row, other]),
    ]
    for block in (1 << 20, 7):
        monkeypatch.setattr(source_module, "BLOCK", block)
        for text, known in forms:
            path.write_text(text, "utf-8", newline="")
            assert values(path) == known, text
    two = json.dumps([row], indent=1) + "\n" + json.dumps([other], indent=1)
    for text, why in ((two, "more text follows it at byte"), (f"{json.dumps([row])} {json.dumps([other])}", "more text follows"),
                      (json.dumps([row]) + "\nnot JSON", None), (json.dumps(a, indent=1) + "]", "more text follows"),
                      (json.dumps(a)[:-1], "is not closed")):  # fmt: skip
        path.write_text(text, "utf-8")
        if why is None:
            assert texts(path) == [json.dumps([row]).encode(), b"not JSON"]
            continue
        with pytest.raises(InspectorError, match=why) as error:
            open_source([path])
        assert "a.json" in error.value.message
    path.write_text(f"[{json.dumps(row)},]")
    assert texts(path) == [json.dumps(row).encode(), b""]
    path.write_text(f"[{json.dumps(row)} , , {json.dumps(other)}]")
    monkeypatch.setattr(source_module, "PIECE_ROWS", 1)
    assert [text.strip() for text in texts(path)] == [json.dumps(row).encode(), b"", json.dumps(other).encode()]
    found = rows_of(plan(side(tokenizer="bytes"), prefix=False), open_source([path]))
    assert [row["error_kind"] for row in found] == [None, "InputInvalid", None]


def test_a_column_of_json_text_is_read_in_every_format(tmp_path: Path) -> None:
    rows = [{"messages": json.dumps(chat("One?", "1.5")), "tools": ""}, {"messages": json.dumps(chat("Two?")), "tools": "[]"},
            {"messages": "[{'role': 'user'}]", "tools": ""}, {"messages": "Hi", "tools": ""}]  # fmt: skip
    lines(tmp_path / "a.jsonl", rows)
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    with (tmp_path / "c.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = rows_of(plan(side(tokenizer="bytes", template_text=CHATML), prefix=False), open_source([tmp_path]))
    names = ("tokens", "form", "rendered_sha256", "findings", "request_sha256", "error_message", "error_place")
    parts = [
        [tuple(row[name] for name in names) for row in found if row["file"] == file]
        for file in ("a.jsonl", "b.parquet", "c.csv")
    ]
    assert parts[0] == parts[1] == parts[2] and [part[0] is not None for part in parts[0]] == [True, True, False, False]
    assert "messages" in parts[0][2][6] and "no conversation" in parts[0][3][5]
    path = tmp_path / "answers.csv"
    path.write_text(
        'prompt,completion\nGive JSON,"{""a"": 1}"\n"[1, 2]",sum\n"[{""role"": ""user"", ""content"": ""Hi""}]",Ho\n'
    )
    requests = [json.loads(request_of(text, plan())[1])["messages"] for text in texts(path) if isinstance(text, bytes)]
    assert requests == [chat("Give JSON", '{"a": 1}'), chat("[1, 2]", "sum"), chat("Hi", "Ho")]
    several = json.dumps({"data": [{"messages": chat("One?")}, {"messages": chat("Two?")}]}).encode()
    with pytest.raises(InspectorError, match="the column 'data' holds no conversation"):  # and not the first of two
        request_of(several, ScanPlan((), column="data"))


# --- values ----------------------------------------------------------------------------------------------------------

DEEP: Any = "x"
for _ in range(90):
    DEEP = [DEEP]
ODD: list[Any] = [None, 5, -0.5, True, "", "x", "[", "[1]", "{}", '{"role": 3}', "[" * 3000, [], [5], [None], [[]], [{}], [{"role": 5}], [{"role": "user"}],
                  [{"role": "user", "content": 7}], [{"role": "user", "content": [None, 3, {"type": []}]}], [{"from": 1, "value": {}}], [{"from": "gpt", "value": None}],
                  {}, {"a": None}, {"parts": 3}, float("nan"), float("inf"), 10**30, DEEP, "\ud800", [{"role": "assistant", "tool_calls": 4}],
                  [{"role": "assistant", "content": [{"type": "tool_use", "input": 4}]}], {"messages": [3]}, [{"parts": [{"functionCall": 5}]}]]  # fmt: skip
NAMES = ("messages", "conversations", "conversation", "prompt", "completion", "chosen", "instruction", "input", "output", "system", "history",
         "tools", "functions", "documents", "chat_template_kwargs", "contents", "systemInstruction", "body", "request", "role", "content",
         "max_tokens", "prompt_token_ids", "generationConfig", "model")  # fmt: skip


def drawn_rows(count: int) -> list[Any]:
    draw = random.Random(29)
    rows: list[Any] = [
        {name: value} for name in ("messages", "prompt", "contents", "conversations", "body") for value in ODD
    ]
    rows += [{name: draw.choice(ODD) for name in draw.sample(NAMES, draw.randrange(1, 5))} for _ in range(count)]
    rows += [{"contents": [{"role": value, "parts": [{"text": "a"}]}]} for value in ODD]
    rows += [{"messages": [{"role": value, "content": value}]} for value in ODD]
    return [*rows, *ODD]


@pytest.mark.parametrize("column", [None, "messages", "prompt", "tools"])
def test_odd_values_are_rows_or_errors_of_their_own(column: str | None, tmp_path: Path) -> None:
    chosen = ScanPlan((), column=column, tools_column=None if column is None else "functions")
    for row in drawn_rows(1500):
        with contextlib.suppress(InspectorError, UnicodeDecodeError):  # anything else is a fault
            request_of(json.dumps(row).encode("utf-8", "surrogatepass"), chosen)
    some = lines(tmp_path / "odd.jsonl", drawn_rows(40)[::3])
    found = rows_of(
        plan(side(tokenizer="bytes", template_text=CHATML), prefix=False, column=column), open_source([some])
    )
    assert {row["error_kind"] for row in found} <= {
        None,
        "InputInvalid",
        "UnencodableText",
        "InputTooLarge",
        "TemplateRuntime",
        "TemplateRaised",
    }


def test_what_arrow_holds_and_json_cannot_costs_its_row_only(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0\6\0\0\0"), pa.py_buffer(b"okd\xe9ok")]
    )
    far = pa.array([0, 1, 4 * 10**18], pa.timestamp("us"))
    parquet.write_table(pa.table({"prompt": bad, "completion": ["a", "b", "c"], "input": far}), tmp_path / "a.parquet")
    first, second, third = values(tmp_path / "a.parquet")
    assert first["prompt"] == "ok" and first["completion"] == "a"
    assert all(isinstance(row, str) and "cannot be written as JSON" in row for row in (second, third))
    nowhere = pa.table(
        {"prompt": ["x"], "completion": ["y"], "input": pa.array([1], pa.timestamp("us", tz="No/Where"))}
    )
    parquet.write_table(nowhere, tmp_path / "c.parquet")
    assert "No/Where" in texts(tmp_path / "c.parquet")[0]
    table = pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["prompt", "prompt"])
    with pa.ipc.new_stream(str(tmp_path / "b.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InspectorError, match=r"b\.arrow: the file has the column 'prompt' twice"):
        open_source([tmp_path / "b.arrow"])


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_change_anywhere_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"a" * 1_000_000)
    when, known = os.stat(path).st_mtime_ns, fingerprint(str(path))
    path.write_bytes(b"a" * 500_000 + b"b" + b"a" * 499_999)
    os.utime(path, ns=(when, when))
    assert fingerprint(str(path)) != known  # small: all bytes, whatever the date
    source = open_source([lines(tmp_path / "b.jsonl", [{"messages": []}])])
    source_module.check_unchanged(source)
    lines(tmp_path / "b.jsonl", [{"messages": 12}])
    with pytest.raises(InspectorError, match=r"b\.jsonl has changed while it was scanned"):
        source_module.check_unchanged(source)
    monkeypatch.setattr(source_module, "WHOLE_BYTES", 100_000)
    known = fingerprint(str(path))
    os.utime(path, ns=(when, when + 1))
    assert fingerprint(str(path)) != known  # large: the date


def test_a_scan_into_its_own_source_goes_on_and_other_files_are_named(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{"messages": chat("Hi", "Ho")}] * 3)
    (tmp_path / "sub").mkdir()
    for name in ("notes.txt", "more.csv.gz", ".hidden", "sub/table.xlsx"):
        (tmp_path / name).write_text("x")
    chosen = plan(side(tokenizer="bytes"), prefix=False)
    for _ in range(2):
        source = open_source([tmp_path])
        assert [file.name for file in source.files] == ["a.jsonl"]
        assert source.skipped_files() == {"count": 3, "files": ["more.csv.gz", "notes.txt", "sub/table.xlsx"]}
        out = open_output(tmp_path / "sub" / "scanned", chosen, source)
        for part in out.pending():
            out.write(part, run_part(chosen, source, part, measured))
    jsonschema.validate(
        json.loads((tmp_path / "sub" / "scanned" / "manifest.json").read_text()), schemas.schema("scan/1")
    )
    (tmp_path / "manifest.json").write_text(json.dumps({"messages": chat("A row of its own")}))
    assert [file.name for file in open_source([tmp_path]).files] == ["a.jsonl", "manifest.json"]


def test_packed_lines_are_the_lines_inside_and_damage_and_bombs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    rows = [{"messages": [{"role": "user", "content": f"row {k} " + "x" * (k * 7 % 50)}]} for k in range(700)]
    text = lines(plain / "a.jsonl", rows).read_bytes()
    (plain / "b.json").write_text(json.dumps(rows[:5]))
    whole = tmp_path / "packed"
    whole.mkdir()
    half = text.index(b"\n", len(text) // 2) + 1
    (whole / "a.jsonl.gz").write_bytes(gzip.compress(text[:half]) + gzip.compress(text[half:]) + b"\0" * 512)
    (whole / "b.json.gz").write_bytes(gzip.compress((plain / "b.json").read_bytes()))
    (whole / "c.jsonl.zst").write_bytes(pa.Codec("zstd").compress(text, asbytes=True))

    def read(place: Path) -> Iterator[tuple[Any, ...]]:
        source = open_source([place], rows_per_part=300)
        assert not source.failed and not source.skipped
        for part in source.parts:
            for batch in read_part(source, part):
                yield from zip([batch.file.partition(".")[0]] * len(batch), batch.numbers, batch.offsets, batch.data)

    known = list(read(plain))
    assert len(known) == 705 and [row for row in read(whole) if row[0] != "c"] == known
    assert [row[1:] for row in read(whole) if row[0] == "c"] == [row[1:] for row in known if row[0] == "a"]

    packed_text = gzip.compress(text)
    flipped = bytearray(packed_text)
    flipped[-6] ^= 1  # the checksum: all is there, and not to be trusted
    zst = (whole / "c.jsonl.zst").read_bytes()
    for name, data, least in (
        ("cut.jsonl.gz", packed_text[:-200], 600), ("flipped.jsonl.gz", bytes(flipped), 700), ("none.jsonl.gz", text, 0),
        ("more.jsonl.gz", packed_text + b"no gzip", 700), ("cut.json.gz", gzip.compress(b"[1,2,3]")[:-9], 0),
        ("cut.jsonl.zst", zst[:-40], 0), ("second.jsonl.zst", zst + zst[:-40], 700), ("more.jsonl.zst", zst + b"no zstd", 700),
        ("empty.jsonl.zst", b"", 0), ("empty.jsonl.gz", b"", 0),
    ):  # fmt: skip
        folder = tmp_path / f"broken-{name}"
        folder.mkdir()
        (folder / name).write_bytes(data)
        lines(folder / "z.jsonl", rows[:3])
        source = open_source([folder])
        (failed,) = source.failed
        there = source.rows - 3
        assert failed.name == name and least <= there <= 700, (name, there, failed.error.message)
        assert ("the file is empty" in failed.error.message) is name.startswith("empty.")
        assert failed.error.kind is ErrorKind.InputInvalid and (f"the {there:,} rows" in failed.error.message) is (
            there > 0
        )
        found = [row for part in source.parts for batch in read_part(source, part) for row in batch.data]
        assert found[:there] == text.splitlines()[:there]

    long = b"".join(
        b'{"prompt": "row %d %d"}\n' % (k, k * k) for k in range(20_000)
    )  # several blocks in what is read at once
    torn = bytearray(pa.Codec("zstd").compress(long, asbytes=True))
    torn[len(torn) * 3 // 4 : len(torn) * 3 // 4 + 5000] = b"\xff" * 5000
    (tmp_path / "torn.jsonl.zst").write_bytes(torn)
    found_text = packed.unpacked(str(tmp_path / "torn.jsonl.zst"))
    assert "corruption" in (found_text.damage or "") and found_text.size >= len(long) // 2
    assert long.startswith(Path(found_text.path).read_bytes())

    bomb = tmp_path / "bomb"
    bomb.mkdir()
    (bomb / "bomb.jsonl.gz").write_bytes(gzip.compress(b"x" * 3_000_000))
    lines(bomb / "z.jsonl", rows[:3])
    monkeypatch.setattr(packed, "FREE_BYTES", 1_000_000)
    source = open_source([bomb])
    assert source.rows == 3 and source.failed[0].error.kind is ErrorKind.InputTooLarge
    assert "1,000,000" in source.failed[0].error.message


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("rows", [60, 4000])  # the first is still in the buffer when the file is closed
def test_no_space_to_unpack_stops_the_scan_and_is_no_fault_of_the_file(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lines(tmp_path / "a.jsonl", [{"messages": chat("Hi", "Ho")}] * rows).read_bytes()
    assert (len(text) < io.DEFAULT_BUFFER_SIZE) is (rows == 60)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text))
    with files_of_at_most(4000), pytest.raises(InspectorError, match=r"b\.jsonl\.gz cannot be unpacked") as error:
        open_source([tmp_path])
    assert error.value.kind is ErrorKind.CacheFull and "TMPDIR" in error.value.remedy
    source = open_source([tmp_path])
    assert source.rows == 2 * rows and not source.failed
    monkeypatch.setattr(packed, "_folder", None)
    monkeypatch.setattr(packed, "_known", type(packed._known)())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(InspectorError, match="temporary folder: No such file") as error:
        open_source([tmp_path])
    assert error.value.kind is ErrorKind.CacheFull


def test_what_a_killed_process_unpacked_is_removed_by_the_next_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (temporary / "inspector-unpacked-half").mkdir()  # whose removal was stopped
    (temporary / "inspector-other").mkdir()
    code = "import sys; from inspector.scan import packed; print(packed.unpacked(sys.argv[1]).path, flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / "a.jsonl.gz")]
    how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    how["env"] = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, **how) as killed:
        left = Path(killed.stdout.readline().strip())
        with subprocess.Popen(command, **how) as other:
            living = Path(other.stdout.readline().strip())
            assert left.exists() and living.exists() and not (temporary / "inspector-unpacked-half").exists()
            killed.kill()
            killed.wait()
            assert left.exists()
            with subprocess.Popen(command, **how) as third:
                third.stdout.readline()
                assert living.exists() and not left.parent.exists()
                third.communicate()
            other.communicate()
    assert [each.name for each in temporary.iterdir()] == ["inspector-other"]


def test_what_is_read_of_an_unpacked_file_stays_until_it_was_read(tmp_path: Path) -> None:
    places = []
    for name in "abcd":
        places.append(tmp_path / f"{name}.jsonl.gz")
        places[-1].write_bytes(gzip.compress(b'{"prompt": "%s"}\n' % name.encode()))
    with packed.held(str(places[0]), 2) as first:
        with packed.held(str(places[0]), 2):
            pass
        for place in places[1:]:
            with packed.held(str(place), 2) as other:
                assert Path(other.path).exists()
        assert Path(first.path).read_bytes() == b'{"prompt": "a"}\n'
    with packed.held(str(places[1]), 2) as second, packed.held(str(places[2]), 2):
        pass
    assert Path(second.path).exists() and not Path(first.path).exists()


def test_what_is_no_regular_file_is_named_and_never_opened(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", [{"messages": chat("Hi", "Ho")}])
    for name in ("pipe.jsonl", "manifest.json", "pipe.jsonl.gz"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "zeros.jsonl").symlink_to("/dev/zero")
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    (tmp_path / "lost.jsonl").symlink_to("gone.jsonl")
    source = open_source([tmp_path])
    assert [file.name for file in source.files] == ["a.jsonl"] and source.rows == 1
    assert source.skipped_files()["files"] == ["manifest.json", "pipe.jsonl", "pipe.jsonl.gz", "zeros.jsonl"]
    assert [failed.name for failed in source.failed] == ["lost.jsonl"]
    with pytest.raises(InspectorError, match=r"pipe\.jsonl' is no regular file"):
        open_source([tmp_path / "pipe.jsonl"])
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "dataset_info.json").write_text("{}")
    (saved / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../pipe.jsonl"}]}))
    with pytest.raises(InspectorError, match="is no regular file"):
        open_source([saved])


def test_what_cannot_be_read_at_all_is_an_error_and_some_of_it_can_be_one(tmp_path: Path) -> None:
    runner, data, out = CliRunner(), tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for name, held in (
        ("cut.parquet", b"PAR1 and no more"),
        ("blank.jsonl", b" \n\n"),
        ("empty.csv", b""),
        ("table.json", b"[]"),
    ):
        (data / name).write_bytes(held)
    for name in ("a.jsonl.gz", "a.csv.gz"):
        (tmp_path / name).write_bytes(b"\x1f\x8b")
    for given, named in (
        (data, ("cut.parquet", "blank.jsonl: it holds no row", "empty.csv", "table.json")),
        (tmp_path / "a.jsonl.gz", ("a.jsonl.gz", "end early")),
        (tmp_path / "a.csv.gz", ("a.csv.gz", "unpack it")),
    ):
        ran = runner.invoke(app, ["scan", str(given), "--out", str(out), "--tokenizer", "bytes"])
        assert ran.exit_code == 2 and all(name in ran.stderr for name in named) and not out.exists(), ran.output
    lines(data / "good.jsonl", [{"messages": chat("Hi", "Ho")}] * 2 + [{"messages": [5]}])
    common = ["scan", str(data), "--out", str(out), "--tokenizer", "bytes", "--clock", CLOCK, "--b", "bytes,chatml"]
    some = runner.invoke(app, common)
    assert (
        some.exit_code == 0
        and "files that could not be read: 1" in some.stdout
        and "--fail-on failed-files:1" in some.stdout
    )
    bad = runner.invoke(app, [*common, "--json", "--fail-on", "failed-files", "--fail-on", "ids-differ:3"])
    assert bad.exit_code == 1 and "files that cannot be read: 1; --fail-on failed-files:1" in bad.stderr
    counts = json.loads(bad.stdout)
    jsonschema.validate(counts, schemas.schema("scan-counts/1"))
    compare = json.loads((out / "summary.json").read_text())["compare"]
    assert counts["ids_differ"] == compare["ids_differ"]["rows"] == 2 and compare["not_compared"]["rows"] == 1
    assert compare["only_a_failed"]["rows"] == compare["both_failed"]["rows"] == 0
    with pytest.raises(InspectorError) as error:
        Threshold.read("over-5:1")
    assert "--context-window 5" in error.value.remedy
    other = runner.invoke(app, [*common[:-2], "--context-window", "9"])
    assert other.exit_code == 2 and "a scan with other sides and windows" in other.stderr
    said = runner.invoke(app, ["scan", "--help"], terminal_width=300).stdout
    assert all(
        name in said for name in ("failed-files", "control-from-content", "rejected-N", "ids-differ", "--logits-sample")
    )
