"""The engine of a cluster: Ray Data streams parts to actors, and this process writes the tables they give.

read: one task on this machine, where the files are, streams each part's rows; map_batches: actors that each load the
tokenizer once, from files verified there by SHA-256, measure them in sandboxed children of their own; write: output.py,
as every engine does, so the bytes are the same. A part that was written is never asked for again, and one whose actor
died is given to another. Ray itself is an optional extra; it is started without a dashboard and reports to nobody.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import pickle
import re
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from inspector.errors import ErrorKind, InspectorError
from inspector.scan.columns import SCHEMA
from inspector.scan.engine import Tell, in_sandbox, measure_batches, part_batches, scan_sandbox
from inspector.scan.local import Done
from inspector.scan.output import Output
from inspector.scan.plan import ScanPlan
from inspector.scan.source import Part, Source
from inspector.sources import cache
from inspector.tokenizers.base import ArtifactFile

REQUIREMENTS = "requirements-scan-ray.txt"
MOST_TRIES = 5  # of one part: an actor that dies again and again over the same rows is a fault of the tool
_ROOT = Path(__file__).parents[2]  # of the package and of presets/
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def run(
    plan: ScanPlan,
    output: Output,
    *,
    workers: int | None = None,
    address: str | None = None,
    tell: Tell | None = None,
) -> Done:
    """Measure every part that is not there yet on `workers` actors: on this machine, or on the cluster at `address`.

    Errors: CapabilityMissing without Ray; ServerUnreachable for no cluster; CacheFull, WorkerCrashed, InputInvalid.
    """
    check_installed()
    pending = output.pending()
    rows = sum(part.rows for part in pending)
    if pending:
        with cluster(address, workers) as cores:
            _run(plan, output, pending, min(workers or cores, len(pending)), tell)
    return Done(len(pending), rows, output.source.rows - rows)


@contextlib.contextmanager
def cluster(address: str | None = None, workers: int | None = None) -> Iterator[int]:
    """Start Ray on this machine, or join the cluster at `address`; give its cores. One that runs already is used and left.

    Errors: ServerUnreachable, OptionInvalid.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is None and "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:
        # A token of this process alone: else Ray writes one into the home folder, or takes what lies there. It is read
        # when Ray is imported.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    import ray

    if ray.is_initialized():
        yield int(ray.cluster_resources().get("CPU", 1))
        return
    if address is not None and address.startswith("ray://"):
        raise InspectorError(
            ErrorKind.OptionInvalid, "the scan runs on a machine of the cluster, not through Ray's client",
            stage="options", where={"option": "--ray-address"},
            remedy="give HOST:PORT or auto there, or send the command with `ray job submit`",
        )  # fmt: skip
    place = tempfile.mkdtemp(prefix="ray-")
    try:
        _start(ray, address, workers, place)
        yield int(ray.cluster_resources().get("CPU", 1))
    finally:
        ray.shutdown()
        shutil.rmtree(place, ignore_errors=True)


def _start(ray: Any, address: str | None, workers: int | None, place: str) -> None:
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        how |= {"num_cpus": workers or os.cpu_count(), "include_dashboard": False, "_temp_dir": place,
                "_node_ip_address": "127.0.0.1"}  # fmt: skip
    else:
        for name in ("inspector", "presets"):  # the code of this very version; what it needs is installed there
            shutil.copytree(_ROOT / name, Path(place, name), ignore=shutil.ignore_patterns("__pycache__"))
        how |= {"address": address, "runtime_env": {"working_dir": place}}
    try:
        ray.init(**how)
    except (ConnectionError, RuntimeError, TimeoutError) as error:
        raise InspectorError(
            ErrorKind.ServerUnreachable, f"no Ray cluster at {address or 'this machine'}: {_line(error)}",
            stage="options", where={"option": "--ray-address"},
            remedy="start one: ray start --head, or leave the option out; RAY_AUTH_TOKEN, where the cluster wants one",
        ) from None  # fmt: skip


def check_installed() -> None:
    """See that Ray is there. Errors: CapabilityMissing."""
    if importlib.util.find_spec("ray") is None:
        raise InspectorError(
            ErrorKind.CapabilityMissing, "--engine ray needs Ray Data, which is not installed", stage="options",
            where={"option": "--engine"}, remedy=f"pip install -r {REQUIREMENTS}, or use --engine local",
        )  # fmt: skip


def _run(plan: ScanPlan, output: Output, pending: tuple[Part, ...], actors: int, tell: Tell | None) -> None:
    """Write the table of every part that Ray gives, each once."""
    waiting = {part.index: part for part in pending}
    try:
        for answer in _answers(plan, output.source, pending, actors):
            if answer["error"] is not None:
                raise InspectorError.from_dict(json.loads(answer["error"]))
            part = waiting.pop(answer["part"], None)
            if part is None:
                continue  # given twice: the engine tried it again although it had ended
            table = _table(answer["table"], part)
            output.write(part, table)
            if tell is not None:
                tell(table.num_rows, table.num_rows - table.column("error_kind").null_count)
    except InspectorError:
        raise
    except Exception as error:  # Ray's own errors have no common type
        raise _gave_up(_line(error)) from None
    if waiting:
        raise _gave_up(f"{len(waiting)} of {len(pending)} parts were lost")


def _gave_up(why: str) -> InspectorError:
    return InspectorError(
        ErrorKind.WorkerCrashed, f"Ray gave up: {why}", stage="sandbox",
        remedy="give the same command again: parts that are written stay",
    )  # fmt: skip


def _answers(plan: ScanPlan, source: Source, parts: tuple[Part, ...], actors: int) -> Iterator[dict[str, Any]]:
    import ray
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = context.target_min_block_size = 1  # a part is a block: never merged, never cut
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    kept = _shipped(plan)  # held here, so that an actor that starts later finds them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the pinned version's remarks on how these arguments will be named
        given = ray.data.read_datasource(
            _reader(plan, source, parts), override_num_blocks=1, num_cpus=0, ray_remote_args={"scheduling_strategy": here}
        ).map_batches(
            _Measurer, fn_constructor_args=(pickle.dumps(plan), plan.digest(), kept), batch_size=1, batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=actors), num_cpus=1, max_task_retries=MOST_TRIES,
        )  # fmt: skip
    for batch in given.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
        yield from batch.to_pylist()


def _shipped(plan: ScanPlan) -> dict[str, Any]:
    """Put the artifacts' files where every actor can have them, by SHA-256."""
    import ray

    files = {file.sha256: file for side in plan.sides for file in side.tokenizer.files}
    return {sha256: ray.put(cache.read_verified(file)) for sha256, file in files.items()}


def _reader(plan: ScanPlan, source: Source, parts: tuple[Part, ...]) -> Any:
    """Give the source to Ray Data: one task that streams a block a part, so that parts wait in no memory."""
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class Parts(Datasource):
        def estimate_inmemory_data_size(self) -> None:
            return None

        def get_read_tasks(self, parallelism: int, *_args: Any, **_more: Any) -> list[Any]:
            about = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(lambda: _blocks(plan, source, parts), about)]

    return Parts()


def _blocks(plan: ScanPlan, source: Source, parts: Iterable[Part]) -> Iterator[pa.Table]:
    for part in parts:
        batches = pickle.dumps(list(part_batches(plan, source, part)))
        yield pa.table({"part": pa.array([part.index], pa.int64()), "rows": pa.array([batches], pa.large_binary())})


class _Measurer:
    """An actor: measures parts in a sandboxed child of its own. What went wrong is an answer, never an exception."""

    def __init__(self, plan: bytes, digest: str, shipped: dict[str, Any]) -> None:
        self.error: str | None = None
        try:
            self.plan = _landed(pickle.loads(plan), shipped)
            _check_same(self.plan, digest)
            self.measure = in_sandbox(scan_sandbox(self.plan), "scan")
        except InspectorError as error:
            self.error = json.dumps(error.to_dict())

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Give `part, table, error` of the one part in the batch."""
        (part,), (rows,) = batch.column("part").to_pylist(), batch.column("rows").to_pylist()
        table, error = b"", self.error
        if error is None:
            try:
                table = _stream(measure_batches(self.plan, pickle.loads(rows), self.measure))
            except InspectorError as failure:
                error = json.dumps(failure.to_dict())
        return pa.table({"part": pa.array([part], pa.int64()), "table": pa.array([table], pa.large_binary()),
                         "error": pa.array([error], pa.string())})  # fmt: skip


def _landed(plan: ScanPlan, shipped: dict[str, Any]) -> ScanPlan:
    """Give the plan with the places that its artifacts have on this machine: its cache's, filled with what was shipped.

    Errors: ArtifactMismatch, CacheFull.
    """
    sides = [
        replace(
            side, tokenizer=replace(side.tokenizer, files=tuple(_file(file, shipped) for file in side.tokenizer.files))
        )
        for side in plan.sides
    ]
    return replace(plan, sides=tuple(sides))


def _file(file: ArtifactFile, shipped: dict[str, Any]) -> ArtifactFile:
    import ray

    known = cache.lookup(file.sha256, file.name)
    if known is None:
        known = cache.store_bytes(ray.get(shipped[file.sha256]), file.name)
        if known.sha256 != file.sha256:
            raise cache.mismatch(file.name, file.sha256, known.sha256)
    return known


def _check_same(plan: ScanPlan, digest: str) -> None:
    """See that this machine would give the same bytes: the plan's digest covers every library's version."""
    if plan.digest() != digest:
        from inspector.pipeline import versions

        has = ", ".join(f"{name} {version}" for name, version in versions().items())
        raise InspectorError(
            ErrorKind.CapabilityMissing, f"a machine of the cluster has other versions: {has}", stage="options",
            where={"option": "--ray-address"}, remedy="install the same requirements on every machine of the cluster",
        )  # fmt: skip


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _table(data: bytes, part: Part) -> pa.Table:
    """Read an actor's table. Errors: WorkerCrashed for what is no table of the part's rows."""
    with contextlib.suppress(pa.ArrowException, OSError):
        table = pa.ipc.open_stream(data).read_all()
        if table.schema.equals(SCHEMA) and table.num_rows == part.rows:
            table.validate(full=True)
            return table.combine_chunks()
    raise _gave_up(f"what an actor gave is no table of part {part.index}")


def _line(error: BaseException) -> str:
    text = " ".join(_COLOUR.sub("", str(error)).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"
