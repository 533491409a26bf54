"""The slow proofs: every catalogue entry on a fresh cache, and the rebuilt SmolLM2 against llama.cpp's own server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from texts import many_texts

from inspector import presets
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer

pytestmark = pytest.mark.full
ROOT = Path(__file__).parent.parent
LOAD = """
import json, sys
from inspector.sources import resolve_tokenizer
from inspector.tokenizers import load_tokenizer
artifact = resolve_tokenizer(sys.argv[1])
tokenizer = load_tokenizer(artifact)
print(json.dumps([tokenizer.digest, {file.name: file.sha256 for file in artifact.files}]))
"""


@pytest.mark.parametrize("ref", presets.tokenizers())
def test_every_entry_loads_from_its_registry_on_a_fresh_cache(ref, tmp_path):
    environment = {**os.environ, "INSPECTOR_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, ref], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    digest, files = json.loads(done.stdout.splitlines()[-1])
    assert files == {pin.name: pin.sha256 for pin in presets.tokenizers()[ref].pins}
    assert digest == resolve_tokenizer(ref).digest


SERVE = """
import sys
import xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.hostnames, parameters.port = ["127.0.0.1"], 0
parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = 64, 1, 1
parameters.warmup, parameters.ui = False, False
server = xllamacpp.Server(parameters)
print("ADDRESS", server.listening_address, flush=True)
sys.stdin.read()
import os
os._exit(0)
"""


@pytest.fixture(scope="module")
def llama_tokenize():
    pytest.importorskip("xllamacpp")
    model = resolve_tokenizer("smollm2").files[0].path
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    line = next(line for line in process.stdout if line.startswith("ADDRESS"))
    address = line.split()[1]

    def tokenize(text: str, parse_special: bool) -> list[int]:
        body = json.dumps({"content": text, "add_special": False, "parse_special": parse_special}).encode()
        request = urllib.request.Request(f"{address}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["tokens"]

    yield tokenize
    process.stdin.close()
    process.wait(30)


def test_the_rebuilt_smollm2_gives_the_ids_of_llama_cpp(llama_tokenize):
    tok = load_tokenizer(resolve_tokenizer("smollm2"))
    special = tuple(token.content for token in tok.added_tokens[:6])
    lost = [byte for byte in range(256) if not any(tok.token_bytes(i) == bytes([byte]) for i in range(tok.size))]
    texts = [t for t in many_texts(700, special) if not set(t.encode()) & set(lost)]
    assert len(texts) >= 500
    for text in texts:
        assert tok.encode(text).input_ids.tolist() == llama_tokenize(text, True), text
        assert tok.encode_plain(text).input_ids.tolist() == llama_tokenize(text, False), text
