"""A model behind a URL: llama.cpp's own server under the contract, both shapes of log-probabilities, every fault by name."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import Told, llama_server, told_server
from typer.testing import CliRunner

from inspector import schemas
from inspector.backends import RawLogits, load_backend, zerogpu
from inspector.backends.endpoint import KEY_VARIABLE, LIST_VARIABLE, endpoint
from inspector.backends.openai import OpenAIBackend
from inspector.backends.topn import compare_top, entropy_bounds, missing_mass
from inspector.cli import app
from inspector.errors import ErrorKind, InspectorError
from inspector.logits import log_softmax, next_token_logits, top_ids
from inspector.sandbox import CallCancelled
from inspector.sources import resolve_model, resolve_tokenizer
from inspector.sources.resolve import ModelArtifact
from inspector.tokenizers import load_tokenizer
from inspector.verdict import distance

KEY = "sk-test-5d1f0c"
# "What is the capital of France?" in SmolLM2's template, with the generation prompt
IDS = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198,
       1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]  # fmt: skip
REMOTE = ModelArtifact("m", "m", (), "", "remote")


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    with llama_server(resolve_model("smollm2").files[0].path, 256, KEY) as address:
        yield address


@pytest.fixture
def keyed(llama: str, monkeypatch: pytest.MonkeyPatch) -> OpenAIBackend:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return OpenAIBackend(llama + "/v1")


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with told_server() as server:
        yield server


@pytest.fixture
def server(told: Told) -> Told:
    told.answers.clear()
    told.asked.clear()
    told.gone.clear()
    return told


def kind_of(work: Any) -> InspectorError:
    with pytest.raises(InspectorError) as caught:
        work()
    assert caught.value.message and caught.value.remedy and caught.value.stage == "logits"
    assert KEY not in json.dumps(caught.value.to_dict()) + repr(caught.value)
    return caught.value


# --- llama.cpp's own server ------------------------------------------------------------------------------------------


def test_llama_cpp_and_the_local_backend_agree_on_the_top_ten(keyed: OpenAIBackend) -> None:
    capable = keyed.capabilities
    assert capable.full_vocabulary and capable.token_id_prompts and not capable.prompt_logprobs
    model = keyed.model()
    assert model.id == "SmolLM2-135M-Instruct.Q4_1.gguf" and model.kind == "remote"
    (there,) = keyed.next_token_logits(model, [IDS])
    (here,) = load_backend("local").next_token_logits(resolve_model("smollm2"), [IDS])
    assert there.values.shape == here.values.shape == (49152,) and there.ids is None
    assert set(top_ids(there.values, 10)) == set(top_ids(here.values, 10))
    # Q4_1 with 8-bit activations against the same weights in float32
    p, q = np.exp(log_softmax(there.values)), np.exp(log_softmax(here.values))
    assert p.sum() == pytest.approx(1.0, abs=1e-3) and np.abs(p - q).max() < 0.03
    assert (there.backend, there.device, there.dtype) == ("openai", "llama.cpp", "Q4_1")
    assert set(there.timings_ms) == {"prefill", "server"} and all(v >= 0 for v in there.timings_ms.values())


def test_llama_cpp_keeps_the_contract_of_the_backends(keyed: OpenAIBackend) -> None:
    model = keyed.model()
    one, other, again = keyed.next_token_logits(model, [IDS, IDS[:5], IDS])
    np.testing.assert_allclose(np.exp(one.values), np.exp(again.values), atol=0.02)
    assert not np.array_equal(one.values, other.values)
    logits = next_token_logits(IDS, model, backend=keyed, tokenizer=load_tokenizer(resolve_tokenizer("smollm2")))
    assert {row.piece for row in logits.top[:3]} == {"L", "The", "La"} and 1.0 < logits.entropy < 6.0
    for work, kind in [
        (lambda: keyed.next_token_logits(model, [[]]), ErrorKind.InputInvalid),
        (lambda: keyed.next_token_logits(model, [[1, 49152]]), ErrorKind.TokenOutOfModelVocab),
        (lambda: keyed.next_token_logits(model, [IDS * 8]), ErrorKind.PromptTooLong),
        (lambda: keyed.next_token_logits(model, [IDS], dtype="float32"), ErrorKind.OptionInvalid),
        (lambda: keyed.prompt_logprobs(model, IDS), ErrorKind.CapabilityMissing),
        (lambda: keyed.padded_logits(model, None), ErrorKind.CapabilityMissing),  # type: ignore[arg-type]
    ]:
        assert kind_of(work).kind is kind
    stop = threading.Event()
    stop.set()
    with pytest.raises(CallCancelled):
        keyed.next_token_logits(model, [IDS], cancel=stop)


def test_a_top_n_answer_names_its_ids_and_is_the_head_of_the_whole(llama: str, keyed: OpenAIBackend) -> None:
    few = OpenAIBackend(llama, top_n=7)
    model = few.model()
    (head,), (whole,) = few.next_token_logits(model, [IDS]), keyed.next_token_logits(model, [IDS])
    assert not few.capabilities.full_vocabulary and head.ids is not None and head.values.shape == (7,)
    assert (np.diff(head.values) <= 0).all()
    np.testing.assert_allclose(np.exp(head.values), np.exp(whole.values[head.ids]), atol=0.02)
    assert 0.2 < missing_mass(head.values) < 0.9
    assert float(-(np.exp(whole.values) @ whole.values.astype(np.float64))) in entropy_bounds(head.values, 49152)


def test_a_server_of_another_tokenizer_is_found_by_what_it_reads(keyed: OpenAIBackend) -> None:
    model, own = keyed.model(), load_tokenizer(resolve_tokenizer("smollm2"))
    text = own.decode(IDS).decode()
    assert keyed.check_tokenizer(model, text, IDS).same is True
    split = [own.encode("Fr").input_ids[0], own.encode("ance").input_ids[0]]  # the same text in other tokens
    assert own.decode(split) == b"France"
    other_cut = keyed.check_tokenizer(model, "France", split)
    assert other_cut.same is False and "token 0" in other_cut.note
    qwen = load_tokenizer(resolve_tokenizer("qwen3")).encode("Where is Paris?").input_ids.tolist()
    error = kind_of(lambda: keyed.check_tokenizer(model, "Where is Paris?", qwen))
    assert error.kind is ErrorKind.ModelInvalid and "token" in error.where


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_key_that_is_absent_or_wrong_is_said_without_saying_it(
    llama: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    backend = OpenAIBackend(llama)
    error = kind_of(lambda: backend.next_token_logits(REMOTE, [IDS]))
    assert error.kind is ErrorKind.ServerAuth and KEY_VARIABLE in error.message + error.remedy
    assert "wrong" not in error.one_line()


# --- shapes: what vLLM 0.32 and the documents of SGLang and OpenAI give ------------------------------------------------

VLLM = {"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 64}]}
TOP = {"token_id:504": -1.8827052, "token_id:60": -1.9648051, "token_id:15319": -2.2656817}


def completion(logprobs: Any, read: int | None = 3, **more: Any) -> dict[str, Any]:
    usage = {} if read is None else {"usage": {"prompt_tokens": read}}
    return {"choices": [{"index": 0, "text": "The", "logprobs": logprobs, **more}], **usage}


def legacy(top: Any, echoed: int = 0) -> dict[str, Any]:
    return {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [None] * echoed + [top]}


def next_of(server: Told, ids: tuple[int, ...] = (1, 2, 3), **more: Any) -> RawLogits:
    (raw,) = OpenAIBackend(server.url, **more).next_token_logits(REMOTE, [ids], timeout_s=5)
    return raw


def test_the_legacy_shape_is_read_by_token_id_and_a_bound_that_is_named_is_kept(server: Told) -> None:
    said = {"error": {"message": "Requested sample logprobs of 49152, which is greater than max allowed: 20"}}

    def complete(body: Any) -> Any:
        if body["logprobs"] == -1:
            return 400, {}, json.dumps(said).encode()
        return completion(legacy(TOP))

    server.answers.update({"/v1/models": VLLM, "/v1/completions": complete})
    backend = OpenAIBackend(server.url)
    raw, _again = (backend.next_token_logits(REMOTE, [[1, 2, 3]])[0] for _ in range(2))
    assert raw.ids is not None and raw.ids.tolist() == [504, 60, 15319] and raw.device == "vllm"
    bodies = server.bodies("/v1/completions")
    assert [body["logprobs"] for body in bodies] == [-1, 20, 20]
    assert all(body["prompt"] == [1, 2, 3] and body["return_tokens_as_token_ids"] for body in bodies)
    assert not backend.capabilities.full_vocabulary and backend.capabilities.prompt_logprobs


def test_all_log_probabilities_make_a_whole_vocabulary(server: Told) -> None:
    values = np.log(np.random.default_rng(3).dirichlet(np.ones(40)))
    every = {f"token_id:{n}": float(values[n]) for n in np.argsort(-values)}
    server.answers.update({"/v1/models": VLLM, "/v1/completions": completion(legacy(every))})
    raw = next_of(server)
    assert raw.ids is None and raw.values.tolist() == pytest.approx(values.tolist(), rel=1e-6)
    del every["token_id:7"]  # one is missing: no whole vocabulary any more
    server.answers["/v1/completions"] = completion(legacy(every))
    found = next_of(server)
    assert found.ids is not None and len(found.ids) == 39


def test_prompt_scores_of_vllm_sglang_and_an_echo_are_the_same_numbers(server: Told) -> None:
    figures = [-7.783651, -1.053334]
    rows = [None, {"9690": {"logprob": figures[0], "rank": 133}, "29": {"logprob": -0.98, "rank": 1}},
            {"198": {"logprob": figures[1], "rank": 1}}]  # fmt: skip
    ids = (1, 9690, 198)
    server.answers.update({"/v1/models": VLLM, "/v1/completions": completion(None, prompt_logprobs=rows)})
    vllm = OpenAIBackend(server.url).prompt_logprobs(REMOTE, ids)
    assert math.isnan(vllm.logprobs[0]) and vllm.logprobs[1:].tolist() == figures
    assert vllm.ranks.tolist() == [0, 133, 1]

    tokens = [[None, 1, None], [figures[0], 9690, None], [figures[1], 198, None]]
    meta = {"prompt_tokens": 3, "cached_tokens": 2, "input_token_logprobs": tokens,
            "output_top_logprobs": [[[-0.5, 7, None], [-2.0, 9, None]]]}  # fmt: skip
    server.answers = server.answers | {"/v1/models": {"data": [{"id": "m", "owned_by": "sglang"}]},
                                       "/generate": {"text": "x", "meta_info": meta}}  # fmt: skip
    sglang = OpenAIBackend(server.url)
    assert sglang.prompt_logprobs(REMOTE, ids).logprobs[1:].tolist() == figures
    (raw,) = sglang.next_token_logits(REMOTE, [ids])
    assert raw.ids is not None and raw.ids.tolist() == [7, 9] and raw.reused == 2
    assert server.bodies("/generate")[-1]["input_ids"] == list(ids)

    echo = {"tokens": list("abcd"), "token_logprobs": [None, *figures, -1.0], "top_logprobs": [None, {}, {}, {}]}
    server.answers = server.answers | {"/v1/models": {"data": [{"id": "m"}]}, "/v1/completions": completion(echo)}
    assert OpenAIBackend(server.url).prompt_logprobs(REMOTE, ids).logprobs[1:].tolist() == figures


def test_tokens_that_are_named_by_text_need_somebody_who_knows_them(server: Told) -> None:
    rows = [{"token": "The", "bytes": [84, 104, 101], "logprob": -1.0}, {"token": "�", "bytes": [226], "logprob": -2.0}]
    server.answers["/v1/completions"] = completion({"content": [{"token": "The", "top_logprobs": rows}]})
    server.answers["/v1/models"] = {"data": [{"id": "m"}]}
    error = kind_of(lambda: next_of(server))
    assert error.kind is ErrorKind.LogprobsMissing and "2 of 2" in error.message
    assert next_of(server, token_of={b"The": 504, b"\xe2": 161}.get).ids.tolist() == [504, 161]  # type: ignore[union-attr]


# --- faults, each by its own name --------------------------------------------------------------------------------------

HTML = b"<!doctype html><title>Sign in</title>"
FAULTS: dict[str, tuple[Any, ErrorKind, str]] = {
    "no key": ((401, {}, b'{"error": {"message": "no"}}'), ErrorKind.ServerAuth, "wants a key"),
    "no model": ((404, {}, b'{"error": {"message": "The model `m` does not exist."}}'), ErrorKind.ServerModelMissing, "`m`"),
    "no path": ((404, {}, b"File Not Found"), ErrorKind.ServerError, "has no /v1/completions"),
    "too many": ((429, {"Retry-After": "17"}, b"{}"), ErrorKind.ServerBusy, "wait 17 s"),
    "loading": ((503, {}, b'{"error": {"message": "Loading model"}}'), ErrorKind.ServerBusy, "not ready"),
    "failed": ((500, {}, b'{"error": "CUDA out of memory"}'), ErrorKind.ServerError, "status 500: CUDA out of memory"),
    "web page": ((200, {"Content-Type": "text/html"}, HTML), ErrorKind.ServerError, "a web page answered"),
    "not found page": ((502, {"Content-Type": "text/html"}, HTML), ErrorKind.ServerError, "(status 502)"),
    "elsewhere": ((302, {"Location": "http://169.254.169.254/latest?k=1"}, b""), ErrorKind.ServerError, "to http://169.254.169.254"),
    "half": ("half", ErrorKind.ServerError, "the connection broke after 13 bytes"),
    "cut JSON": ((200, {}, b'{"choices": ['), ErrorKind.ServerError, "no whole JSON"),
    "nothing": ((200, {}, b""), ErrorKind.ServerError, "nothing"),
    "deep": ((200, {}, b"[" * 200_000), ErrorKind.ServerError, "no whole JSON"),
    "no choices": ({"id": "x"}, ErrorKind.ServerError, "no completion"),
    "slow": ("silence", ErrorKind.TimeLimit, "limit of 0.5 s; nothing had come"),
    "text only": ((400, {}, b'{"detail": [{"loc": ["body", "prompt"], "msg": "Input should be a valid string"}]}'), ErrorKind.CapabilityMissing, "no prompt of token ids"),
    "too long": ((400, {}, b'{"error": {"message": "maximum context length is 2 tokens"}}'), ErrorKind.PromptTooLong, "3 tokens"),
    "no token": ((400, {}, b'{"error": {"message": "Token id 3 is out of vocabulary"}}'), ErrorKind.TokenOutOfModelVocab, "Token id 3"),
    "dropped": (completion(None), ErrorKind.LogprobsMissing, "said nothing of it"),
    "dropped whole": ({"choices": [{"text": "The"}]}, ErrorKind.LogprobsMissing, "said nothing of it"),
    "empty": (completion(legacy({})), ErrorKind.LogprobsMissing, "said nothing of it"),
    "zeros": (completion(legacy({"token_id:1": 0.0, "token_id:2": 0.0})), ErrorKind.ServerError, "sum to 2"),
    "no number": (completion(legacy({"token_id:1": math.nan})), ErrorKind.NonFiniteLogits, "NaN"),
    "other prompt": (completion(legacy(TOP), read=4), ErrorKind.ServerError, "read 4 tokens where 3 ids"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_server_has_its_name_and_remedy(server: Told, fault: str) -> None:
    answer, kind, words = FAULTS[fault]
    server.answers.update({"/v1/models": {"data": [{"id": "m"}]}, "/v1/completions": answer})
    backend = OpenAIBackend(server.url)
    error = kind_of(lambda: backend.next_token_logits(REMOTE, [[1, 2, 3]], timeout_s=0.5 if fault == "slow" else 20))
    assert error.kind is kind and words in error.message, error.one_line()
    assert str(error.where["url"]).startswith(server.url)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with told_server() as gone:
        url = gone.url
    for address in (url, "http://no-such-host.invalid:1"):
        error = kind_of(lambda address=address: OpenAIBackend(address).model())
        assert error.kind is ErrorKind.ServerUnreachable and "no connection" in error.message


def test_a_request_that_is_cancelled_closes_its_connection(server: Told) -> None:
    server.answers.update({"/v1/models": VLLM, "/v1/completions": "silence"})
    stop, seen = threading.Event(), []

    def work() -> None:
        try:
            OpenAIBackend(server.url).next_token_logits(REMOTE, [[1, 2]], cancel=stop)
        except CallCancelled:
            seen.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    while not server.bodies("/v1/completions"):
        time.sleep(0.01)
    stop.set()
    assert server.gone.wait(5), "the server still has the connection"
    thread.join(5)
    assert len(seen) == 1


# --- addresses and keys ------------------------------------------------------------------------------------------------


def test_a_key_goes_as_a_header_only_and_is_in_no_error_even_if_the_server_says_it(
    server: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    said = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    server.answers["/v1/models"] = VLLM
    for status in (400, 401, 404, 429, 500):
        server.answers["/v1/completions"] = (status, {}, said)
        kind_of(lambda: next_of(server))
    assert {headers["Authorization"] for _path, headers, _body in server.asked} == {f"Bearer {KEY}"}
    assert KEY not in json.dumps([body for _path, _headers, body in server.asked]) + repr(endpoint(server.url))


def test_with_a_list_the_key_goes_to_the_servers_in_it_only(server: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setenv(LIST_VARIABLE, "https://models.example/v1")
    server.answers.update({"/v1/models": (401, {}, b"{}")})
    error = kind_of(OpenAIBackend(server.url).model)
    assert "Authorization" not in server.asked[0][1] and LIST_VARIABLE in error.remedy
    monkeypatch.setenv(LIST_VARIABLE, f"https://models.example/v1 {server.url}/v1")
    kind_of(OpenAIBackend(server.url).model)
    assert server.asked[1][1]["Authorization"] == f"Bearer {KEY}"


def test_a_page_for_others_asks_listed_servers_only(server: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LIST_VARIABLE in kind_of(lambda: OpenAIBackend(server.url, public=True)).remedy
    monkeypatch.setenv(LIST_VARIABLE, server.url)
    assert OpenAIBackend(server.url + "/v1/", public=True)
    for other in (
        "http://127.0.0.1:1",
        "http://127.0.0.1:80000",
        server.url + "/x",
        server.url.replace("127.0.0.1", "localhost"),
    ):
        error = kind_of(lambda other=other: OpenAIBackend(other, public=True))
        assert error.kind is ErrorKind.OptionInvalid and ("80000" in other or server.url in error.remedy)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "100.100.100.200", "0xa9fea9fe"]
)
def test_no_link_local_or_credential_giving_address_is_asked(host: str) -> None:
    error = kind_of(lambda: OpenAIBackend(f"http://{host}").model())
    assert error.kind is ErrorKind.OptionInvalid and LIST_VARIABLE in error.remedy


@pytest.mark.parametrize("url", ["ftp://h", "h:8000", "", "http://", f"http://u:{KEY}@h", f"http://h/?key={KEY}", f"http://h/#{KEY}", "http://h:99999", "http://[::1"])  # fmt: skip
def test_what_is_no_address_or_holds_a_key_is_refused_unquoted(url: str) -> None:
    assert kind_of(lambda: endpoint(url)).kind is ErrorKind.OptionInvalid


# --- what is not shown --------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_the_bounds_hold_whatever_the_missing_tokens_are(data: st.DataObject) -> None:
    size = data.draw(st.integers(3, 12))
    weights = st.lists(st.floats(0.001, 1.0), min_size=size, max_size=size)
    p, q = (np.array(data.draw(weights)) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    tops = []
    for values in (p, q):
        ids = np.argsort(-values)[: data.draw(st.integers(1, size))]
        tops += [ids, np.log(values[ids])]
    found, m = compare_top(*tops), (p + q) / 2
    kl = lambda a, b: float((a * np.log(a / b)).sum())  # noqa: E731
    assert kl(p, q) in found.kl_ab and kl(q, p) in found.kl_ba
    assert (kl(p, m) + kl(q, m)) / 2 in found.js
    assert float(-(p * np.log(p)).sum()) in entropy_bounds(tops[1], size)
    assert found.missing_a == pytest.approx(1 - np.exp(tops[1]).sum(), abs=1e-9)
    assert found.top1_changed == (tops[0][0] != tops[2][0])


def test_whole_distributions_have_exact_divergences_and_a_missing_one_has_no_upper_bound() -> None:
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.3, 0.3, 0.1, 0.3])
    whole = compare_top(np.arange(4), np.log(p), np.arange(4), np.log(q))
    assert whole.kl_ab.low == whole.kl_ab.high == pytest.approx(float((p * np.log(p / q)).sum()))
    part = compare_top(np.arange(2), np.log(p[:2]), np.arange(2), np.log(q[:2]))
    assert part.kl_ab.high is None and part.js.high is not None and part.kl_ab.low < whole.kl_ab.low


# --- a borrowed GPU ------------------------------------------------------------------------------------------------------


def test_zerogpu_says_that_it_is_for_spaces_and_computes_what_the_local_backend_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend, model = load_backend("zerogpu"), resolve_model("smollm2")
    error = kind_of(lambda: backend.next_token_logits(model, [IDS]))
    assert error.kind is ErrorKind.CapabilityMissing and "Spaces" in error.message
    arguments = {"batch": [IDS[:6]], "dtype": None, "timeout_s": None}
    monkeypatch.setattr(zerogpu, "_in_fork", load_backend("local"))  # its weights are in memory already
    (there,) = zerogpu.compute("next_token_logits", model, arguments)
    (here,) = load_backend("local").next_token_logits(model, [IDS[:6]])
    np.testing.assert_array_equal(there.values, here.values)
    refused = zerogpu.compute("next_token_logits", model, {**arguments, "batch": [[49152]]})
    assert InspectorError.from_dict(refused).kind is ErrorKind.TokenOutOfModelVocab
    assert zerogpu.seconds("next_token_logits", model, {"batch": [[1] * 8000]}) == 14


# --- the command -----------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, [*arguments, "--json"])


def valid(name: str, value: Any) -> Any:
    jsonschema.Draft202012Validator(schemas.schema(name)).validate(value)
    return value


@pytest.fixture
def question(tmp_path: Path) -> str:
    path = tmp_path / "chat.json"
    path.write_text('[{"role": "user", "content": "What is the capital of France?"}]')
    return str(path)


def test_the_command_asks_a_server_and_refuses_another_tokenizer_s_ids(
    llama: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    done = run("inspect", question, "--backend-url", llama, "--top-k", "3")
    assert done.exit_code == 0, done.stderr
    found = valid("inspection/1", json.loads(done.stdout))["logits"]
    assert (found["backend"], found["device"], found["model"]) == (
        "openai",
        "llama.cpp",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
    )
    assert {row["piece"] for row in found["top"]} == {"L", "The", "La"} and found["note"] is None
    assert KEY not in done.stdout + done.stderr
    other = run("inspect", question, "--backend-url", llama, "--tokenizer", "bytes", "--template", "raw")
    error = json.loads(other.stdout)["error"]
    assert (
        other.exit_code == 2
        and error["kind"] == "ModelInvalid"
        and "reads these ids as another text" in error["message"]
    )


def test_a_comparison_over_most_probable_tokens_gives_bounds_and_no_divergence(server: Told, question: str) -> None:
    tops = iter([{"token_id:504": -1.0, "token_id:60": -2.0}, {"token_id:60": -0.5, "token_id:28": -3.0}])
    server.answers.update({"/v1/models": VLLM | {"data": [{"id": "m", "owned_by": "vllm"}]},
                           "/v1/completions": lambda _body: completion(legacy(next(tops)), read=None)})  # fmt: skip
    done = run(
        "compare", question, "--a", "smollm2", "--b", "smollm2,raw", "--backend", "openai", "--backend-url", server.url
    )
    assert done.exit_code == 1, done.stderr
    both = valid("comparison/1", json.loads(done.stdout))
    logits, a = both["logits"], both["a"]["logits"]
    assert (logits["kl_ab"], logits["js"], logits["top1_changed"]) == (None, None, True)
    assert (
        logits["bounds"]["kl_ab"][0] > 0
        and logits["bounds"]["kl_ab"][1] is None
        and 0 < logits["bounds"]["js"][1] < 0.7
    )
    assert (
        logits["missing"]["a"]
        == pytest.approx(a["missing"])
        == pytest.approx(1 - math.exp(-1) - math.exp(-2), rel=1e-4)
    )
    assert a["entropy"] is None and a["top"][0]["logit"] is None and "no /tokenize" in a["note"]


def test_a_verdict_and_a_walk_over_listed_tokens_conform_and_what_is_not_listed_has_no_figure(
    server: Told, question: str
) -> None:
    server.answers.update({"/v1/models": VLLM, "/v1/completions": lambda _body: completion(legacy(TOP), read=None)})
    done = run("logits", question, "--b", "smollm2,raw", "--backend-url", server.url, "--text", "zebra", "--what-if")
    assert done.exit_code == 0, done.stderr
    value = valid("logits/1", json.loads(done.stdout))
    verdict = valid("verdict/1", value["verdict"])
    assert verdict["full_vocabulary"] is False and verdict["distances"][0]["bounds"]["kl_ab"][1] is None
    step = value["walk"][0]
    assert (step["logprob"], step["rank"]) == (None, 0) and step["piece"] and len(step["candidates"]) == 3
    assert any(row["distance"] and row["distance"]["js"] is None for row in value["whatif"]["rows"])


def test_backend_options_that_contradict_each_other_are_refused(question: str) -> None:
    for options in (("--backend", "openai"), ("--backend", "local", "--backend-url", "http://h"), ("--backend", "x")):
        done = run("inspect", question, *options)
        assert done.exit_code == 2 and json.loads(done.stdout)["error"]["kind"] == "OptionInvalid", done.stdout


def test_the_verdict_of_listed_tokens_has_bounds_and_no_numbers() -> None:
    def side(ids: list[int], probs: list[float]) -> RawLogits:
        return RawLogits(np.log(np.array(probs, np.float32)), "openai", "vllm", "unknown", {}, np.array(ids))

    found = distance(side([3, 5], [0.6, 0.3]), side([5, 9], [0.5, 0.25])).to_dict()
    assert found["kl_ab"] is None and found["top1_changed"] is True
    assert found["bounds"]["kl_ab"][0] > 0 and found["bounds"]["kl_ab"][1] is None and found["bounds"]["js"][1] < 0.7
    assert (found["bounds"]["missing_a"], found["bounds"]["missing_b"]) == (pytest.approx(0.1), pytest.approx(0.25))
    whole = RawLogits(np.zeros(4, np.float32), "local", "cpu", "float32")
    assert "bounds" not in distance(whole, whole).to_dict()
    assert distance(whole, side([3], [0.5])).bounds is not None
