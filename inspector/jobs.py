"""The registry of what a sandbox child may run: job name -> "module:function", each a function bytes -> bytes.

A request names a job of this table and nothing else, so no data can choose the code. The module holds the table and
the jobs themselves; it starts no process (sandbox.py). Payloads come from our own process and may be pickles; answers
go the other way and are JSON text, because a child is not to be trusted.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from datetime import datetime
from typing import Any

from inspector import confinement
from inspector.errors import InspectorError

JOBS: dict[str, str] = {
    "echo": "inspector.jobs:echo",
    "self_test": "inspector.jobs:self_test",
    "inspect": "inspector.jobs:inspect",
    "compare": "inspector.jobs:compare",
    "count": "inspector.jobs:count",
    "ids": "inspector.jobs:ids",
    "model_ids": "inspector.jobs:model_ids",
    "model_input": "inspector.jobs:model_input",
    "token_names": "inspector.jobs:token_names",
    "encode_text": "inspector.jobs:encode_text",
    "decoded": "inspector.jobs:decoded",
    "view": "inspector.jobs:view",
    "view_comparison": "inspector.jobs:view_comparison",
    "page_hunks": "inspector.jobs:page_hunks",
    "control": "inspector.jobs:control",
    "make_record": "inspector.jobs:make_record",
    "record": "inspector.jobs:record",
    "paste": "inspector.jobs:paste",
    "stages": "inspector.jobs:stages",
    "stream": "inspector.jobs:stream",
    "tokenizers": "inspector.jobs:tokenizers",
    "differences": "inspector.jobs:differences",
    "arguments": "inspector.jobs:arguments",
    "lint": "inspector.jobs:lint",
    "page_findings": "inspector.jobs:page_findings",
    "train": "inspector.jobs:train",
    "budget": "inspector.jobs:budget",
    "labels": "inspector.jobs:labels",
    "batch": "inspector.jobs:batch",
    "prefix": "inspector.jobs:prefix",
    "scan_rows": "inspector.jobs:scan_rows",
    "scan_row": "inspector.jobs:scan_row",
    "scan_summary": "inspector.jobs:scan_summary",
    "export": "inspector.jobs:export",
    "api_inspect": "inspector.jobs:api_inspect",
    "api_compare": "inspector.jobs:api_compare",
    "api_lint": "inspector.jobs:api_lint",
    "api_budget": "inspector.jobs:api_budget",
    "page_stages": "inspector.jobs:page_stages",
    "page_merges": "inspector.jobs:page_merges",
    "page_stream": "inspector.jobs:page_stream",
    "page_tokenizers": "inspector.jobs:page_tokenizers",
    "page_budget": "inspector.jobs:page_budget",
    "page_labels": "inspector.jobs:page_labels",
    "page_batch": "inspector.jobs:page_batch",
    "page_prefix": "inspector.jobs:page_prefix",
    "page_vocabulary": "inspector.jobs:page_vocabulary",
}


def echo(payload: bytes) -> bytes:
    """Give the payload back: the cheapest job, for benchmarks and start-up checks."""
    return payload


def self_test(payload: bytes) -> bytes:
    """Tell, as JSON, which limits the operating system really has in force on this child, and what it refuses."""
    import resource

    names = ("AS", "CPU", "FSIZE", "NOFILE", "CORE")
    soft = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0] for name in names}
    facts = {
        **confinement.in_force(),
        "refused": confinement.tried(),
        "rlimits": {name: None if value == resource.RLIM_INFINITY else value for name, value in soft.items()},
        "own_session": os.getsid(0) == os.getpid(),
        "environment": sorted(os.environ),
        "torch_loaded": "torch" in sys.modules,
    }
    return json.dumps(facts).encode()


def inspect(payload: bytes) -> bytes:
    """Run one pickled `job.Job`; give `inspection/1`."""
    from inspector.pipeline import run

    return _answer(run(pickle.loads(payload)).to_dict())


def compare(payload: bytes) -> bytes:
    """Run two pickled `job.Job`s; give `comparison/1`."""
    from inspector.comparison import compare_inspections
    from inspector.pipeline import run

    a, b = (run(job) for job in pickle.loads(payload))
    return _answer(compare_inspections(a, b).to_dict())


def api_inspect(payload: bytes) -> bytes:
    """Run a pickled (Job, how to write it); give the text of an endpoint's answer, as the next three do."""
    from inspector.pipeline import run

    return _text(payload, lambda job: run(job).to_dict())


def api_compare(payload: bytes) -> bytes:
    """Run ([two Jobs], how to write it); give the text of `comparison/1`."""
    from inspector.comparison import compare_inspections
    from inspector.pipeline import run

    return _text(payload, lambda jobs: compare_inspections(*map(run, jobs)).to_dict())


def api_lint(payload: bytes) -> bytes:
    """Run (what `lint` takes, how to write it); give the text of `lint/1`."""
    return _text(payload, _linted)


def api_budget(payload: bytes) -> bytes:
    """Run (Job, how to write it); give the text of `budget/1`."""
    from inspector.training import runs

    return _text(payload, runs.budget)


def count(payload: bytes) -> bytes:
    """Estimate OpenAI tokens for a pickled (request bytes or Fields, model, TokenizerArtifact)."""
    from inspector.job import Fields, request_limits
    from inspector.openai_count import count_openai, plain_encoding
    from inspector.request import parse_fields, parse_request
    from inspector.tokenizers import load_tokenizer

    given, model, artifact = pickle.loads(payload)
    limits = request_limits()
    request = (
        parse_fields(*astuple(given), limits=limits)
        if isinstance(given, Fields)
        else parse_request(given, limits=limits)
    )
    encode = plain_encoding(load_tokenizer(artifact))
    return _answer(count_openai(request, model, lambda _preset: encode).to_dict())


def ids(payload: bytes) -> bytes:
    """Run one pickled `job.Job`; give only its input_ids and its error."""
    from inspector.pipeline import run

    inspection = run(pickle.loads(payload))
    if inspection.error is not None or inspection.encoding is None:
        return _answer({"input_ids": None, "error": inspection.error.to_dict() if inspection.error else None})
    return _answer({"input_ids": inspection.encoding.input_ids.tolist(), "error": None})


def model_ids(payload: bytes) -> bytes:
    """Run one pickled `job.Job`; give its input_ids if a model may be asked about so many, or its error."""
    from inspector.job import check_model_tokens
    from inspector.pipeline import run

    encoding = run(pickle.loads(payload)).raise_for_error().encoding
    assert encoding is not None  # a run without an error has one
    check_model_tokens(len(encoding))
    return _answer({"input_ids": encoding.input_ids.tolist()})


def model_input(payload: bytes) -> bytes:
    """Run one pickled `job.Job`; give what a model is asked about it (modelinput.py), or its error."""
    from inspector.job import Job, check_model_tokens
    from inspector.modelinput import model_input as give
    from inspector.pipeline import run

    job = pickle.loads(payload)
    inspection = _inspection(job)
    if inspection.error is not None or inspection.encoding is None:
        return _answer({"error": inspection.error.to_dict() if inspection.error else None})
    check_model_tokens(len(inspection.encoding))
    options = replace(job.options, add_generation_prompt=False, context_window=None, clock=inspection.clock)
    answered = run(Job(_SHORT_CHAT, options, job.tokenizer, job.template)).encoding
    return _answer({**give(inspection, answered), "error": None})


def token_names(payload: bytes) -> bytes:
    """Name ids for a pickled (TokenizerArtifact, ids): [piece, bytes in hexadecimal], null for an id that it lacks."""
    from inspector.tokenizers import load_tokenizer

    artifact, ids = pickle.loads(payload)
    tokenizer = load_tokenizer(artifact)
    return _answer(
        [[tokenizer.piece(i), tokenizer.token_bytes(i).hex()] if 0 <= i < tokenizer.size else None for i in ids]
    )


def encode_text(payload: bytes) -> bytes:
    """Encode a pickled (TokenizerArtifact, text) as it stands, control strings as control tokens: {ids, error}."""
    from inspector.tokenizers import load_tokenizer

    artifact, text = pickle.loads(payload)
    try:
        return _answer({"ids": load_tokenizer(artifact).encode(text).input_ids.tolist(), "error": None})
    except InspectorError as error:
        return _answer({"ids": [], "error": error.to_dict()})


def decoded(payload: bytes) -> bytes:
    """Decode a pickled (TokenizerArtifact, ids) one at a time: [[bytes that each settles in hexadecimal, whether it is a
    control token]], an id that the tokenizer lacks settles nothing and is null."""
    from inspector.decode import IncrementalDecoder
    from inspector.tokenizers import load_tokenizer

    artifact, ids = pickle.loads(payload)
    tokenizer = load_tokenizer(artifact)
    control = {token.id for token in tokenizer.added_tokens if token.special} | {*tokenizer.special_token_ids.values()}
    decoder = IncrementalDecoder(tokenizer)
    return _answer([[decoder.push(i).hex(), i in control] if 0 <= i < tokenizer.size else None for i in ids])


_RUNS_KEPT = 2  # inspections that a child remembers: of its own pane, and of the pane that it is compared with
_runs: list[tuple[Any, Any]] = []  # (Job, Inspection), newest last
_sent: dict[str, Any] = {}  # what the page was last sent of the pane that this child is for, by kind of answer


def _inspection(job: Any) -> Any:
    """Run a job, or give the inspection of the same job that this child has just run."""
    from inspector.pipeline import run

    for known, inspection in _runs:
        if known == job:
            return inspection
    inspection = run(job)
    _runs.append((job, inspection))
    del _runs[:-_RUNS_KEPT]
    return inspection


def view(payload: bytes) -> bytes:
    """Run a pickled (Job, base, safe); give a pane of the page against its answer `base` (ui/payload.py).

    `base` None, or one that this child did not give last: the whole pane. `safe`: of the safe ids.
    """
    from inspector.ui import payload as page

    job, base, safe = pickle.loads(payload)
    inspection = _inspection(job)
    kind, shown = ("safe", page.safe_inspection(inspection)) if safe else ("view", inspection)
    known = _sent.get(kind)
    answer, sent = page.answer(shown, known if known is not None and known.number == base else None)
    if sent is not None:
        _sent[kind] = sent
    return page.dumps(answer)


def view_comparison(payload: bytes) -> bytes:
    """Run two pickled Jobs; give the page's comparison of them (ui/payload.py)."""
    from inspector.comparison import compare_inspections
    from inspector.ui import payload as page

    a, b = (_inspection(job) for job in pickle.loads(payload))
    return page.dumps(page.comparison(compare_inspections(a, b)))


def page_hunks(payload: bytes) -> bytes:
    """Run two pickled Jobs; give the rows of the page's Differences view."""
    from inspector.comparison import compare_inspections
    from inspector.ui.views import diff as page

    a, b = (_inspection(job) for job in pickle.loads(payload))
    return _answer(page.answer(compare_inspections(a, b)))


def control(payload: bytes) -> bytes:
    """Run a pickled Job; give the tables of the page's Control view."""
    from inspector.ui.views import control as page

    return _answer(page.answer([_inspection(pickle.loads(payload))]))


def make_record(payload: bytes) -> bytes:
    """Run a pickled (Job, whether digests only, reasons to ignore rules, places of the machine); give `record/1`."""
    from inspector.record import record as make

    job, digests_only, ignore, places = pickle.loads(payload)
    return make(job, digests_only=digests_only, ignore=ignore, places=places).to_bytes()


def record(payload: bytes) -> bytes:
    """Run a pickled (Job, places of the machine); give its record as readable JSON text: {records: [text]}."""
    from inspector.record import record_of, unbudgeted
    from inspector.ui.views import record as page

    job, places = pickle.loads(payload)
    inspection = _inspection(job)
    whole = _inspection(unbudgeted(job, inspection)) if job.options.context_window is not None else inspection
    return _answer({"records": [page.text(record_of(job, inspection, whole, places=places).value)]})


def paste(payload: bytes) -> bytes:
    """Recognise a pickled text that was pasted; give the editors' texts it stands for, or null."""
    from inspector.job import request_limits
    from inspector.pasting import recognise

    found = recognise(pickle.loads(payload), limits=request_limits())
    return _answer({"pasted": None if found is None else found.to_dict(), "error": None})


def stages(payload: bytes) -> bytes:
    """Trace a pickled (text, TokenizerArtifact) through the four stages; give `stages/1`."""
    from inspector.stages import trace_stages
    from inspector.tokenizers import load_tokenizer

    text, artifact = pickle.loads(payload)
    return _answer(trace_stages(text, load_tokenizer(artifact)).to_dict())


def stream(payload: bytes) -> bytes:
    """Step through a pickled (ids, TokenizerArtifact, skip_special_tokens, stop_strings); give `stream/1`."""
    from inspector.decode import stream_steps
    from inspector.tokenizers import load_tokenizer

    ids, artifact, skip, stops = pickle.loads(payload)
    return _answer(stream_steps(ids, load_tokenizer(artifact), skip_special_tokens=skip, stop_strings=stops).to_dict())


def tokenizers(payload: bytes) -> bytes:
    """Tokenize a pickled (text, TokenizerArtifacts, prices) side by side; give `tokenizers/1` and its CSV."""
    from inspector.tokenizers import load_tokenizer
    from inspector.vocabularies import side_by_side

    text, artifacts, prices = pickle.loads(payload)
    table = side_by_side(text, [load_tokenizer(artifact) for artifact in artifacts], prices=prices)
    return _answer({**table.to_dict(), "csv": table.to_csv()})


def train(payload: bytes) -> bytes:
    """Learn merges from a pickled (text, number); give `training/1`."""
    from inspector.stages import train as learn

    return _answer(learn(*pickle.loads(payload)).to_dict())


def page_stages(payload: bytes) -> bytes:
    """Trace a pickled (text, TokenizerArtifact); give the table of the page's Stages view."""
    from inspector.stages import trace_stages
    from inspector.tokenizers import load_tokenizer
    from inspector.ui.views import stages as page

    text, artifact = pickle.loads(payload)
    return _answer(page.table(trace_stages(text, load_tokenizer(artifact)).to_dict()))


def page_merges(payload: bytes) -> bytes:
    """Tell the merges of a token from a pickled (ids before, of and after it, TokenizerArtifact)."""
    from inspector.stages import token_merges
    from inspector.tokenizers import load_tokenizer

    ids, artifact = pickle.loads(payload)
    return _answer(token_merges(ids, load_tokenizer(artifact)))


def page_stream(payload: bytes) -> bytes:
    """Step through a pickled (ids, TokenizerArtifact, skip_special_tokens, stop_strings); give the Stream view's table."""
    from inspector.decode import stream_steps
    from inspector.tokenizers import load_tokenizer
    from inspector.ui.views import stream as page

    ids, artifact, skip, stops = pickle.loads(payload)
    steps = stream_steps(ids, load_tokenizer(artifact), skip_special_tokens=skip, stop_strings=stops)
    return _answer(page.table(steps.to_dict()))


_compared: dict[tuple[str, str], Any] = {}  # of this child's last comparison: more than load_tokenizer keeps


def page_tokenizers(payload: bytes) -> bytes:
    """Tokenize a pickled (text, TokenizerArtifacts by reference, prices by reference, whether as CSV); give the table of
    the page's Tokenizers view, or its CSV. A tokenizer that cannot be loaded is in `missing` and stops no other."""
    from inspector.tokenizers import load_tokenizer
    from inspector.ui.payload import error_text
    from inspector.ui.views import tokenizers as page
    from inspector.vocabularies import side_by_side

    text, artifacts, prices, as_csv = pickle.loads(payload)
    loaded, missing = {}, []
    for ref, artifact in artifacts.items():
        try:
            loaded[ref] = _compared.get((ref, artifact.digest)) or load_tokenizer(artifact)
        except InspectorError as error:
            missing.append({"ref": ref, "error": error_text(error)})
    _compared.clear()
    _compared.update({(ref, artifacts[ref].digest): tokenizer for ref, tokenizer in loaded.items()})
    side = side_by_side(text, list(loaded.values()))
    priced = [replace(row, price=prices.get(ref)) for row, ref in zip(side.rows, loaded, strict=True)]
    side = replace(side, rows=tuple(priced))
    return _answer({"missing": missing, **({"csv": side.to_csv()} if as_csv else page.table(side, list(loaded)))})


_SHORT_CHAT = b'[{"role":"user","content":"When is high tide?"},{"role":"assistant","content":"At noon."}]'


def differences(payload: bytes) -> bytes:
    """Give the differences that bite of a pickled (TokenizerArtifact, config.json, generation_config.json)."""
    from inspector.job import Job, Options
    from inspector.pipeline import run
    from inspector.tokenizers import load_tokenizer
    from inspector.tokenizers.config import parse_object
    from inspector.vocabularies import differences as give

    artifact, *texts = pickle.loads(payload)
    names = ("config.json", "generation_config.json")
    config, generation = (None if text is None else parse_object(text, name) for text, name in zip(texts, names))
    tokenizer = load_tokenizer(artifact)
    options = Options(tokenizer=artifact.ref, add_generation_prompt=False, clock=datetime(2026, 1, 1))
    encoding = run(Job(_SHORT_CHAT, options, artifact, None)).encoding if tokenizer.chat_templates else None
    return _answer(give(artifact, tokenizer, config=config, generation_config=generation, encoding=encoding))


def arguments(payload: bytes) -> bytes:
    """Give the arguments of a pickled template text: {arguments: [TemplateArgument], error}."""
    from inspector.errors import InspectorError
    from inspector.job import check_template
    from inspector.template_arguments import template_arguments

    text = pickle.loads(payload)
    try:
        check_template(text)
        found = [argument.to_dict() for argument in template_arguments(text)]
    except InspectorError as error:
        return _answer({"arguments": [], "error": error.to_dict()})
    return _answer({"arguments": found, "error": None})


def lint(payload: bytes) -> bytes:
    """Check a pickled (Job, Job of the base tokenizer or None, files, reasons to ignore) with every rule; give `lint/1`.

    `files`: parsed JSON of config, generation_config and sent, each if there is one.
    """
    return _answer(_linted(pickle.loads(payload)))


def page_findings(payload: bytes) -> bytes:
    """Check what `lint` takes; give the answer of the page's Findings view."""
    from inspector.ui.views import findings as page

    return _answer(page.answer(_linted(pickle.loads(payload))))


def _linted(given: Any) -> dict[str, Any]:
    from inspector.lint import lint as check
    from inspector.lint.evidence import Evidence, read_sent
    from inspector.pipeline import lint_dict
    from inspector.sources import read_verified
    from inspector.tokenizers.config import parse_object

    job, base, files, ignore = given
    named = {file.name: file for file in job.tokenizer.files}
    stated = named.get("tokenizer_config.json")
    evidence = Evidence(
        config=files.get("config") or {},
        generation_config=files.get("generation_config") or {},
        tokenizer_config=parse_object(read_verified(stated), stated.name) if stated is not None else {},
        sent=read_sent(files.get("sent") or {}),
        base=None if base is None else _inspection(base),
    )
    inspection = _inspection(job)
    return lint_dict(inspection, check(inspection, evidence=evidence, ignore=ignore))


def export(payload: bytes) -> bytes:
    """Export one or two pickled Jobs in a form; give `{files: [{name, size, data: base64 of deflated bytes}]}`."""
    import base64
    import zlib

    from inspector.exports import find_export
    from inspector.exports.base import Side

    jobs, form = pickle.loads(payload)
    made = find_export(form, len(jobs)).make([Side(job, _inspection(job)) for job in jobs])
    packed = ((file, base64.b64encode(zlib.compress(file.data, 6)).decode("ascii")) for file in made)
    return _answer({"files": [{"name": file.name, "size": len(file.data), "data": data} for file, data in packed]})


def budget(payload: bytes) -> bytes:
    """Fit one pickled `job.Job`; give `budget/1`."""
    from inspector.training import runs

    return _answer(runs.budget(pickle.loads(payload)))


_FITTINGS_KEPT = 6  # as many as a page has panes
_fittings: list[tuple[Any, Any, Any]] = []  # (Job without its window, Fitting, picture), newest last


def page_budget(payload: bytes) -> bytes:
    """Fit pickled [(Job, key of the picture that the page has)]; give the panes of the page's Budget view.

    The conversation is rendered and tokenized once for all windows that are tried. A pane that fails has an `error`.
    """
    return _answer({"panes": [_pane_budget(*each) for each in pickle.loads(payload)]})


def _pane_budget(job: Any, key: str | None) -> dict[str, Any]:
    from inspector.budget import BudgetRejected
    from inspector.pipeline import budget_of
    from inspector.ui.payload import error_text, place_of
    from inspector.ui.views import budget as page

    try:
        budget = budget_of(job.options)
        fitting, picture = _fitting(job)
        try:
            fitted = fitting.fit(job.options)
        except BudgetRejected as error:
            return page.answer(picture, key, budget, error.decision, error.encoding, error_text(error))
    except InspectorError as error:
        return {"error": error_text(error), "place": place_of(error)}
    if fitted is None:
        return page.answer(picture, key, None, None, fitting.whole)
    return page.answer(picture, key, budget, fitted.decision, fitted.encoding)


def _fitting(job: Any) -> tuple[Any, Any]:
    """Give what fits the job's conversation, and its picture; those of other windows are the same."""
    from inspector.job import without_window
    from inspector.pipeline import Fitting
    from inspector.ui.views import budget as page

    plain = without_window(job)
    for known, fitting, picture in _fittings:
        if known == plain:
            return fitting, picture
    fitting = Fitting(plain)
    picture = {**page.picture(fitting.whole, fitting.conversation), "required": fitting.required_tokens()}
    _fittings.append((plain, fitting, picture))
    del _fittings[:-_FITTINGS_KEPT]
    return fitting, picture


def page_labels(payload: bytes) -> bytes:
    """Label pickled [(Job, mode, longest length or None, whether only the tag counts)]; give the page's panes."""
    from inspector.tokenizers import load_tokenizer
    from inspector.training import runs
    from inspector.ui.views import training as page

    def one(job: Any, mode: str, max_length: int | None, tag_only: bool) -> dict[str, Any]:
        return page.labels(runs.labelled(job, mode, max_length, tag_only), load_tokenizer(job.tokenizer))

    return _answer({"panes": [_or_line(one, *each) for each in pickle.loads(payload)]})


def page_prefix(payload: bytes) -> bytes:
    """Compare the steps of pickled [(Job, block size, model revision, adapter)]; give the page's panes."""
    from inspector.training import runs
    from inspector.ui.views import training as page

    def one(job: Any, block_size: int, model_revision: str, adapter: str) -> dict[str, Any]:
        return runs.prefix(job, block_size, model_revision, adapter, page.MOST_STEPS)

    return _answer({"panes": [_or_line(one, *each) for each in pickle.loads(payload)]})


def page_batch(payload: bytes) -> bytes:
    """Lay out pickled ([(name, Job)], padding side, pad id or None, whether packed, label mode); give the page's batch.

    A row that fails has an `error` and is left out.
    """
    from inspector.tensors import PaddingSide
    from inspector.tokenizers import load_tokenizer
    from inspector.training import runs
    from inspector.training.batch import pack_rows, pad_batch
    from inspector.training.labels import LabelMode, make_labels
    from inspector.ui.views import tensors as page

    given, side, pad_id, as_one, mode = pickle.loads(payload)
    chosen, padding = runs.member(LabelMode, mode, "mode"), runs.member(PaddingSide, side, "side")
    rows: list[dict[str, Any]] = []
    made = []
    for name, job in given:

        def row(job: Any) -> dict[str, Any]:
            inspection = _inspection(job).raise_for_error()
            made.append(make_labels(inspection.encoding, inspection.conversation.messages, chosen))
            return {"tokens": len(inspection.encoding), "error": None}

        rows.append({"name": name, **_or_line(row, job)})
    if not made:
        return _answer({"rows": rows, "batch": None})
    page.check_size([len(each.input_ids) for each in made])
    tokenizer = load_tokenizer(given[0][1].tokenizer)
    ids, targets = [each.input_ids for each in made], [each.labels for each in made]
    if as_one:
        eos = tokenizer.special_token_ids.get("eos_token")
        return _answer({"rows": rows, "batch": page.packed(pack_rows(ids, targets), tokenizer, eos)})
    fill, eos = runs.pad_and_eos(tokenizer, pad_id)
    batch = pad_batch(ids, fill, padding_side=padding, eos_id=eos, labels=targets)
    return _answer({"rows": rows, "batch": page.batch(batch, tokenizer)})


def page_vocabulary(payload: bytes) -> bytes:
    """Plan a pickled (TokenizerArtifact, new tokens, rows or None, multiple or None, whether tied or None); give the
    page's plan."""
    from inspector.tokenizers import load_tokenizer
    from inspector.training.vocabulary import plan
    from inspector.ui.views import training as page

    artifact, tokens, rows, multiple, tied = pickle.loads(payload)
    tokenizer = load_tokenizer(artifact)
    planned = plan(tokenizer, tokens, rows=rows, pad_to_multiple_of=multiple, tied=tied)
    return _answer(page.vocabulary(planned, tokenizer, tokens))


def _or_line(work: Any, *given: Any) -> dict[str, Any]:
    """Give what work gives, or the line of its error: one pane's fault leaves the others."""
    from inspector.ui.payload import error_text

    try:
        return dict(work(*given))
    except InspectorError as error:
        return {"error": error_text(error)}


def labels(payload: bytes) -> bytes:
    """Label a pickled (Job, mode, longest length or None, whether only the template's tag counts); give `labels/1`."""
    from inspector.training import runs

    return _answer(runs.labels(*pickle.loads(payload)))


def batch(payload: bytes) -> bytes:
    """Lay out pickled (Jobs, padding side, pad id or None, whether packed, label mode); give `batch/1` or `packed/1`."""
    from inspector.training import runs

    return _answer(runs.batch(*pickle.loads(payload)))


def prefix(payload: bytes) -> bytes:
    """Compare the steps of a pickled (Job, block size, model revision, adapter); give `prefix/1`."""
    from inspector.training import runs

    return _answer(runs.prefix(*pickle.loads(payload)))


def scan_row(payload: bytes) -> bytes:
    """Give one row of a scan as the page's inputs and as a request."""
    from inspector.scan.picked import picked_row

    return picked_row(payload)


def scan_summary(payload: bytes) -> bytes:
    """Summarise the scan in a folder; an error of the folder is the value's `error`."""
    from inspector.scan.summary import current_summary

    try:
        value = current_summary(pickle.loads(payload))
    except InspectorError as error:
        value = {"error": error.to_dict()}
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def scan_rows(payload: bytes) -> bytes:
    """Measure the rows of a pickled (ScanPlan, RowBatch), as many as it has time for; give them as an Arrow IPC stream."""
    from inspector.scan.rows import measured

    return measured(*pickle.loads(payload))


def _answer(value: Any) -> bytes:
    from inspector.request import dump_request

    return dump_request(value).encode("utf-8", "surrogatepass")


def _text(payload: bytes, work: Callable[[Any], dict[str, Any]]) -> bytes:
    from inspector.answers import text_of

    given, how = pickle.loads(payload)
    return text_of(work(given), **how).encode()


def warm() -> None:
    """Run once in the zygote before the first fork: good and bad templates through the real pipeline, so that no child
    has to import or compile what they need."""
    from inspector.job import Options, prepare
    from inspector.tokenizers.normalization import stretches

    request = b'[{"role": "user", "content": "warm"}]'
    for template in (None, "{% if", "{{ 1 // 0 }}", "{{ raise_exception('warm') }}", "{{ messages | tojson }}"):
        inspect(pickle.dumps(prepare(request, Options(tokenizer="bytes", template_text=template))))
    list(stretches("e\u0301暖", "NFC"))  # its table takes longer than an answer


def preload(names: Sequence[str]) -> None:
    """Run in the zygote before the first fork: load those of the presets whose files are here, so that no child has to.

    Their bytes are pinned and the same for everybody; nothing is fetched.
    """
    from inspector import presets
    from inspector.job import Options, prepare
    from inspector.sources.cache import lookup

    for name in names:
        preset = presets.tokenizers().get(name)
        if preset and all(presets.local_pin_path(pin) or lookup(pin.sha256, pin.name) for pin in preset.pins):
            job = prepare(b'[{"role": "user", "content": "warm"}]', Options(tokenizer=name))
            inspect(pickle.dumps(job))
            page_stages(pickle.dumps(("warm", job.tokenizer)))  # its merges
