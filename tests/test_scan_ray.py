"""The Ray engine on a cluster of this machine: the bytes of the local engine, whatever happens to a worker or is in a row."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from inspector.errors import ErrorKind, InspectorError
from inspector.job import make_options, prepare
from inspector.scan import local, ray_engine
from inspector.scan.output import Output, open_output, read_table
from inspector.scan.plan import PlanSide, ScanPlan
from inspector.scan.source import open_source

if importlib.util.find_spec("ray") is None and os.environ.get("CI") != "true":
    pytest.skip("Ray is not installed: pip install -r requirements-scan-ray.txt", allow_module_level=True)
ROOT = Path(__file__).parent.parent
HOSTILE = """{% for m in messages %}{% if m.content == "boom" %}{{ "x" * 999999999999 }}{% endif %}{{ m.role }}: {{ m.content }}
{% endfor %}"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_engine.cluster(workers=2):
        yield


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ScanPlan:
    path = tmp_path_factory.mktemp("template") / "chat.jinja"
    path.write_text(HOSTILE)
    options = make_options(tokenizer="smollm2", template=str(path), clock="2026-01-01T00:00:00+00:00")
    job = prepare(b"[]", options)
    return ScanPlan((PlanSide(options, job.tokenizer, job.template),), windows=(8,), rows_per_part=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty rows: good ones, some that no parser reads, one that the template makes too much of, one file that is none."""
    place = tmp_path_factory.mktemp("data")
    rows = [json.dumps({"messages": [{"role": "user", "content": f"row {k} " * (k % 5 + 1)}]}) for k in range(40)]
    rows[7], rows[13], rows[21] = (
        '{"messages": [',
        '{"messages": [{"role": "user", "content": "boom"}]}',
        '{"messages": 5}',
    )
    (place / "a.jsonl").write_text("\n".join(rows) + "\n")
    (place / "b.parquet").write_bytes(b"PAR1 no more")
    return place


def opened(data: Path, folder: Path, plan: ScanPlan) -> Output:
    return open_output(folder, plan, open_source([data], rows_per_part=plan.rows_per_part))


@pytest.fixture(scope="module")
def expected(data: Path, plan: ScanPlan, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("local") / "out"
    local.run(plan, opened(data, folder, plan), workers=2)
    table = read_table(folder)
    assert table.num_rows == 40
    assert table.column("error_kind").drop_null().to_pylist() == ["InputInvalid", "MemoryLimit", "InputInvalid"]
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in [folder / "manifest.json", *sorted((folder / "rows").iterdir())]}


# What `scan --engine ray --ray-address ADDRESS --workers 1` runs, in a program of its own.
JOINS = """
import json, pickle, sys
from inspector.cli_scan import _engine
from inspector.scan.output import open_output
from inspector.scan.source import open_source

told = []
address, folder, data, kept = sys.argv[1:]
plan = pickle.load(open(kept, "rb"))
run = _engine("ray", address, 1)
done = run(plan, open_output(folder, plan, open_source([data], rows_per_part=4)), tell=lambda *each: told.append(each))
print(json.dumps([done.parts, done.rows, done.skipped, *map(sum, zip(*told))]))
"""


def test_both_engines_write_the_same_bytes_and_a_killed_worker_loses_and_doubles_no_row(
    cluster: None, data: Path, plan: ScanPlan, expected: dict[str, bytes], tmp_path: Path
) -> None:
    import ray

    told: list[tuple[int, int]] = []
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    command = [sys.executable, "-c", JOINS, ray.get_runtime_context().gcs_address, str(tmp_path / "out"), str(data)]
    joined = subprocess.run([*command, str(tmp_path / "plan")], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert joined.returncode == 0, joined.stderr[-4000:]
    assert json.loads(joined.stdout) == [10, 40, 0, 40, 3]
    assert files(tmp_path / "out") == expected
    assert ray.cluster_resources()["CPU"] == 2  # who joined has left, and it runs on for who started it
    for part in range(2, 9):  # as after a stop
        (tmp_path / "out" / "rows" / f"part-{part:05d}.parquet").unlink()
    killed: list[int] = []

    def kill(rows: int, _errors: int) -> None:
        told.append((rows, 0))
        for child in psutil.Process().children(recursive=True) if not killed else ():
            if "_Measurer" in " ".join(child.cmdline()):
                killed.append(child.pid)
                os.kill(child.pid, signal.SIGKILL)

    told.clear()
    done = ray_engine.run(plan, opened(data, tmp_path / "out", plan), workers=2, tell=kill)
    assert killed and (done.parts, done.skipped) == (7, 12) and sum(rows for rows, _errors in told) == 28
    assert files(tmp_path / "out") == expected


def test_a_worker_with_other_files_or_versions_refuses(
    plan: ScanPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray")
    with pytest.raises(InspectorError, match="other versions"):
        ray_engine._check_same(plan, replace(plan, windows=()).digest())
    monkeypatch.setenv("INSPECTOR_CACHE", str(tmp_path))  # of a machine that has no artifact yet
    file = plan.sides[0].tokenizer.files[0]
    data = Path(file.path).read_bytes()
    monkeypatch.setattr(ray, "get", lambda shipped: shipped)
    landed = ray_engine._file(file, {file.sha256: data})
    assert landed.path != file.path and Path(landed.path).read_bytes() == data and tmp_path in Path(landed.path).parents
    Path(landed.path).unlink()
    with pytest.raises(InspectorError) as refused:
        ray_engine._file(file, {file.sha256: data + b" "})
    assert refused.value.kind is ErrorKind.ArtifactMismatch


def test_without_ray_one_line_names_the_requirements(
    monkeypatch: pytest.MonkeyPatch, data: Path, plan: ScanPlan, tmp_path: Path
) -> None:
    monkeypatch.setattr(ray_engine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InspectorError) as refused:
        ray_engine.run(plan, opened(data, tmp_path / "out", plan))
    assert "requirements-scan-ray.txt" in refused.value.one_line() and "\n" not in refused.value.one_line()
    assert (ROOT / ray_engine.REQUIREMENTS).read_text().splitlines()[-1] == "ray[data]==2.60.0"
