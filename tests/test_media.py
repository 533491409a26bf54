"""Images of a request: identity, decoding within bounds, binding to placeholders, expansion, and what the budget counts."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import numpy as np
import pytest
from pictures import data_url, picture, png_that_claims

from inspector import presets, service
from inspector.errors import ErrorKind, InspectorError
from inspector.job import Options
from inspector.media.decode import MAX_PIXELS, decode
from inspector.media.parts import media_parts
from inspector.pipeline import Inspection, inspect

WIDE, TALL, SMALL = picture((300, 200)), picture((200, 640), "JPEG"), picture((64, 64))
QWEN = {"tokenizer": "qwen3", "template": "trl-qwen3-vl"}
PAD = "<|image_pad|>"


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "image": data_url(data, media_type)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def look(messages: list[Any], **options: Any) -> Inspection:
    found = inspect(messages, **{**QWEN, **options})
    assert isinstance(found, Inspection)
    return found


def items(inspection: Inspection) -> list[dict[str, Any]]:
    return inspection.to_dict()["media"]


THREE = [
    {"role": "system", "content": "be brief"},
    user(text("one"), image(WIDE), text("two"), image(TALL, "image/jpeg")),
    {"role": "assistant", "content": "I see."},
    user(image(SMALL), text("and this?")),
]


# --- who an image is ----------------------------------------------------------------------------------------------


def test_an_image_is_its_bytes_and_every_step_is_recorded() -> None:
    turned = picture((300, 200), "JPEG", orientation=6)
    clear = picture((64, 48), mode="RGBA")
    first, second = items(look([user(image(turned, "image/png"), image(clear), text("what?"))]))
    assert first["identity"] == {
        "media_type": "image/jpeg", "sha256": hashlib.sha256(turned).hexdigest(), "width": 300, "height": 200,
        "orientation": 6, "bytes": len(turned),
    }  # fmt: skip
    assert first["decoding"]["size"] == [200, 300] and first["decoding"]["turned"] is True
    assert first["decoding"]["decoder"].startswith("Pillow ") and "refused" in first["decoding"]["error_policy"]
    assert any("declared as image/png, the bytes are image/jpeg" in note for note in first["notes"])
    assert first["plan"]["resized"] == [224, 320] and first["positions"] == 7 * 10 and first["estimate"] is False
    assert second["decoding"]["colour"] == "RGBA to RGB, transparency dropped" and second["notes"] == []
    assert second["path"] == "messages[0].content[1]" and second["error"] is None
    rule = look([user(image(SMALL))]).to_dict()["media_rule"]["rule"]
    assert (
        rule["settings"]["image_mean"] == [0.5, 0.5, 0.5] and rule["encoder"] and rule["projector"] and rule["origin"]
    )


@pytest.mark.parametrize(
    ("part", "source", "words"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}},
            "url",
            "a URL is no identity",
        ),
        ({"type": "image", "image": "file:///tmp/cat.png"}, "path", "a path is no identity"),
        ({"type": "image", "path": "cat.png"}, "path", "a path is no identity"),
        ({"type": "image"}, "none", "nothing identifies its image"),
    ],
)
def test_a_place_is_no_identity_and_is_never_looked_up(part: dict[str, Any], source: str, words: str) -> None:
    (item,) = items(look([user(part, text("what?"))]))
    assert (item["source"], item["identity"], item["decoding"], item["positions"]) == (source, None, None, None)
    assert words in item["notes"][0] and item["estimate"] is True and item["placeholder"]["line"]


def test_every_form_of_part_gives_the_same_bytes() -> None:
    body = data_url(SMALL).partition(",")[2]
    forms = [
        {"type": "image_url", "image_url": {"url": data_url(SMALL)}},
        {"type": "image_url", "image_url": data_url(SMALL)},
        {"type": "input_image", "image_url": data_url(SMALL)},
        {"type": "image", "image": data_url(SMALL)},
        {"type": "image", "base64": body},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": body}},
    ]
    parts = media_parts([user(*forms)], [4])
    assert [part.path for part in parts] == [f"messages[4].content[{place}]" for place in range(6)]
    assert all(part.read()[0] == SMALL for part in parts)


def test_a_size_that_a_part_states_is_an_estimate() -> None:
    (item,) = items(look([user({"type": "image", "width": 300, "height": 200}, text("what?"))]))
    assert item["positions"] == 70 and item["estimate"] is True and "is what the part states" in item["notes"][1]


# --- decoding within bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b"no image at all", ErrorKind.MediaInvalid, "no image of a known format"),
        (TALL[:-200], ErrorKind.MediaInvalid, "does not decode"),
        (WIDE[: len(WIDE) // 2], ErrorKind.MediaInvalid, "does not decode"),
        (png_that_claims(9000, 9000), ErrorKind.InputTooLarge, "81000000|9000 x 9000"),
        (png_that_claims(60_000, 60_000), ErrorKind.InputTooLarge, "pixels"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", ErrorKind.MediaInvalid, "no image of a known format"),
        (b"", ErrorKind.MediaInvalid, "no image of a known format"),
    ],
)
def test_bytes_that_are_no_good_image_are_refused_with_their_place(data: bytes, kind: ErrorKind, words: str) -> None:
    with pytest.raises(InspectorError, match=words) as refused:
        decode(data, "messages[0].content[0].image")
    assert refused.value.kind is kind and refused.value.where["path"] == "messages[0].content[0].image"
    assert MAX_PIXELS < 9000 * 9000


def test_a_broken_image_is_named_beside_the_others_and_stops_only_what_needs_it() -> None:
    broken = {"type": "image", "image": "data:image/png;base64,@@@"}
    chat = [user(image(SMALL), broken, text("what?"))]
    fine, bad = items(look(chat))
    assert fine["error"] is None and fine["positions"] == 64
    assert bad["error"]["kind"] == "MediaInvalid" and bad["error"]["where"]["path"] == "messages[0].content[1].image"
    stopped = look(chat, media="expanded")
    assert stopped.error is not None and stopped.error.kind is ErrorKind.MediaInvalid and stopped.encoding is None
    kept = look(chat, context_window=500)
    assert kept.error is None and [item["tokens"][1] - item["tokens"][0] for item in items(kept)] == [64, 1]


def test_images_are_decoded_in_the_child_of_the_sandbox_under_its_limits() -> None:
    bomb = user(image(png_that_claims(60_000, 60_000)), image(SMALL), text("what?"))
    result = service.inspect(json.dumps([bomb]).encode(), Options(**QWEN))
    assert result["error"] is None and [item["positions"] for item in result["media"]] == [None, 64]
    assert result["media"][0]["error"]["kind"] == "InputTooLarge"


# --- placeholders -------------------------------------------------------------------------------------------------


def test_images_are_bound_in_order_and_expanded_to_their_own_numbers() -> None:
    plain, made = look(THREE), look(THREE, media="expanded")
    numbers = [70, 20 * 6, 64]
    for found, lengths in ((plain, [1, 1, 1]), (made, numbers)):
        assert [item["positions"] for item in items(found)] == numbers
        spans = [item["tokens"] for item in items(found)]
        assert [last - first for first, last in spans] == lengths and spans == sorted(spans)
        assert found.to_dict()["media_rule"]["problems"] == []
    pad = {token.content: token.id for token in made.tokenizer.added_tokens}[PAD]
    for first, last in (item["tokens"] for item in items(made)):
        assert set(made.encoding.input_ids[first:last].tolist()) == {pad}
    assert len(made.encoding) == len(plain.encoding) + sum(numbers) - 3
    assert made.encoding.counts()["by_path"]["messages[1].content[1]"] == 70
    assert plain.encoding.input_ids[-3:].tolist() == made.encoding.input_ids[-3:].tolist()


def test_the_expanded_ids_are_those_of_the_librarys_text() -> None:
    made, plain = look(THREE, media="expanded"), look(THREE)
    written = plain.rendered.text
    for number in (70, 120, 64):
        written = written.replace(PAD, "\0" * number, 1)
    ids = made.tokenizer.encode(written.replace("\0", PAD)).input_ids
    assert made.encoding.input_ids.tolist() == ids.tolist() and made.rendered.text == written.replace("\0", PAD)
    segments = made.rendered.segments
    assert segments.start[0] == 0 and segments.end[-1] == len(made.rendered.utf8)
    assert (segments.start[1:] == segments.end[:-1]).all()
    first, last = made.rendered.generation_prompt
    assert made.rendered.utf8[first:last] == b"<|im_start|>assistant\n"


def test_text_that_spells_a_placeholder_takes_no_image() -> None:
    chat = [user(text(f"say {PAD} twice {PAD}"), image(WIDE), text("what?"))]
    made = look(chat, media="expanded")
    (item,) = items(made)
    assert item["tokens"][1] - item["tokens"][0] == 70
    how = made.to_dict()["media_rule"]
    assert how["written"] == 1 and how["typed"] == ["messages[0].content[0].text"] * 2
    assert [problem["path"] for problem in how["problems"]] == ["messages[0].content[0].text"]
    assert "placeholder-typed" in {finding.rule for finding in made.findings}
    assert made.encoding.safe_input_ids.tolist().count(151655) == 70


SWAPPED = (
    "{% for m in messages|reverse %}<|im_start|>{{ m.role }}\n{% for p in m.content %}{% if p.type == 'image' %}"
    "<|image_pad|>{% else %}{{ p.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
)
LOSING = SWAPPED.replace("messages|reverse", "messages").replace("m.content %}{% if", "m.content[1:] %}{% if")
DOUBLING = SWAPPED.replace("messages|reverse", "messages").replace(PAD, PAD * 2)


@pytest.mark.parametrize(
    ("template", "path", "words"),
    [
        (SWAPPED, "messages[0].content[0]", "among the fields of another message"),
        (LOSING, "messages[0].content[0]", "2 image parts, 1 placeholder: this part has none"),
        (DOUBLING, None, "2 image parts, 4 placeholders"),
        ("{{ messages[0].role }}", "messages[0].content[0]", "2 image parts, 0 placeholders"),
    ],
)
def test_nothing_is_lost_or_swapped_unsaid(template: str, path: str | None, words: str) -> None:
    chat = [user(image(WIDE), text("one")), {"role": "assistant", "content": [text("yes")]},
            user(text("two"), image(TALL, "image/jpeg"))]  # fmt: skip
    options = {"template": None, "template_text": template, "media_rule": "qwen3-vl"}
    stopped = look(chat, media="expanded", **options)
    assert stopped.error is not None and stopped.error.kind is ErrorKind.MediaMismatch
    assert words in stopped.error.message and stopped.error.where.get("path") == path
    said = look(chat, **options).to_dict()
    assert said["error"] is None and any(problem["stops"] for problem in said["media_rule"]["problems"])
    if path is not None:
        assert any(item["error"] and item["error"]["kind"] == "MediaMismatch" for item in said["media"])


def test_random_conversations_keep_every_image_with_its_message() -> None:
    source = random.Random(6)
    for _round in range(12):
        chat, wanted = [], []
        for turn in range(source.randint(1, 5)):
            parts = [image(picture((source.randint(60, 400), source.randint(60, 400)))) if source.random() < 0.5
                     else text(source.choice(["tide", PAD, "月 moon"])) for _ in range(source.randint(1, 4))]  # fmt: skip
            chat += [user(*parts), {"role": "assistant", "content": "yes"}]
            wanted += [
                f"messages[{2 * turn}].content[{at}]" for at, part in enumerate(parts) if part["type"] == "image"
            ]
        made = look(chat, media="expanded")
        assert made.error is None
        if not wanted:
            assert made.media is None
            continue
        assert [item["path"] for item in items(made)] == wanted
        counts = made.encoding.counts()["by_path"]
        assert [counts[path] for path in wanted] == [item["positions"] for item in items(made)]


# --- families, memory, estimates ----------------------------------------------------------------------------------


def test_a_prompt_of_gemma_holds_marks_and_line_ends_too() -> None:
    made = look([user(image(WIDE), text("what?"))], tokenizer="gemma3", template="trl-gemma3", media="expanded")
    (item,) = items(made)
    assert item["positions"] == 256 and item["tokens"][1] - item["tokens"][0] == 260 and not item["estimate"]
    assert made.rendered.text.count("<image_soft_token>") == 256
    ids = made.tokenizer.encode(made.rendered.text).input_ids
    assert ids.tolist() == made.encoding.input_ids.tolist()


def test_images_of_a_cross_attention_model_are_memory_and_stay_one_token() -> None:
    llama = {"template": None, "template_text": SWAPPED.replace(PAD, "<|image|>"), "media_rule": "llama3.2-vision"}
    (item,) = items(look([user(image(picture((1200, 500))), text("what?"))], media="expanded", **llama))
    assert (item["positions"], item["memory"], item["plan"]["grid"]) == (0, 3 * 1601, [1, 3])
    assert item["plan"]["numbers"]["padded_entries"] == 4 * 1601 and item["plan"]["canvas"] == [1680, 560]


def test_a_tokenizer_without_the_familys_tokens_gives_an_estimate() -> None:
    made = look([user(image(WIDE), text("what?"))], tokenizer="smollm2", template="trl-smolvlm", media="expanded")
    (item,) = items(made)
    assert (
        item["positions"] == 13 * 64 and item["estimate"] is True and "lacks a token of this rule" in item["notes"][-1]
    )


def test_a_typed_number_wins_and_is_an_estimate() -> None:
    other = {"template": None, "template_text": SWAPPED, "media": "expanded"}
    for options in ({"media": "expanded"}, other):
        made = look([user(image(WIDE), text("what?"))], image_tokens=9, **options)
        (item,) = items(made)
        assert item["positions"] == 9 == item["tokens"][1] - item["tokens"][0] and item["estimate"] is True
    (unknown,) = items(look([user(image(WIDE), text("what?"))], **other))
    assert unknown["positions"] is None and "no rule is known" in unknown["notes"][0] and unknown["identity"]["bytes"]


@pytest.mark.parametrize(
    ("options", "option"),
    [({"media": "all"}, "--media"), ({"image_tokens": 0}, "--image-tokens"), ({"media_rule": "none"}, "--media-rule")],
)
def test_options_that_cannot_be(options: dict[str, Any], option: str) -> None:
    error = look([user(image(SMALL))], **options).error
    assert error is not None and error.kind is ErrorKind.OptionInvalid and error.where == {"option": option}


def test_a_repository_and_a_template_choose_the_rule_and_a_video_has_none() -> None:
    from inspector.media.measure import choose_rule
    from inspector.template import Template

    rules, tokenizer = presets.media_rules(), look([user(text("hi"))]).tokenizer
    for reference, rule in (("hf:Qwen/Qwen2.5-VL-7B-Instruct@abc", "qwen2.5-vl"), ("trl-smolvlm", "smolvlm-256m"),
                            ("hf:google/gemma-3-4b-it", "gemma3"), ("hf:some/other", None), ("chatml", None)):  # fmt: skip
        template = Template(ref=reference, id=reference, revision="", name="default", file="", text="")
        found = choose_rule(rules, None, template, tokenizer)
        assert (found.id if found else None) == rule
    video = items(look([user({"type": "video", "video": "https://a.example/b.mp4"}, text("what?"))]))
    assert video[0]["kind"] == "video" and video[0]["notes"] == ["no rule here counts video"]
    assert look([user(text("hi"))]).to_dict()["media"] is None


# --- the budget ---------------------------------------------------------------------------------------------------


def test_the_budget_counts_positions_and_never_exceeds_its_window() -> None:
    source = random.Random(7)
    whole = len(look(THREE, media="expanded").encoding)
    for _round in range(10):
        window, policy = source.randint(90, whole + 20), source.choice(["messages", "keep_first", "drop_middle"])
        found = look(THREE, context_window=window, policy=policy)
        assert found.error is None and len(found.encoding) == found.budget.input_tokens <= window
        kept = [item for item in items(found) if item["tokens"] is not None]
        assert [item["tokens"][1] - item["tokens"][0] for item in kept] == [item["positions"] for item in kept]
        assert {item["path"].split(".")[0] for item in kept} <= set(found.budget.kept)
        assert found.to_dict()["media_rule"]["problems"] == []
    assert look(THREE, context_window=whole).budget.dropped == ()
    assert len(look(THREE, context_window=200, media="written").encoding) < 60


def test_a_token_cut_inside_a_run_of_positions_is_said_at_the_image() -> None:
    cut, whole = look(THREE, context_window=150, policy="tokens_left"), look(THREE, media="expanded")
    broken = {(entry.what.value, entry.path) for entry in cut.budget.broken}
    assert {("cut_in_placeholders", "messages[1].content[3]"), ("cut_in_message", "messages[1]")} <= broken
    first, second, third = items(cut)
    assert first["tokens"] is None and 0 < second["tokens"][1] - second["tokens"][0] < second["positions"]
    assert third["tokens"][1] - third["tokens"][0] == 64 and third["error"] is None
    assert np.array_equal(cut.encoding.input_ids, whole.encoding.input_ids[-150:])


def test_the_command_line_prints_a_table_of_media(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from inspector.cli import app

    request = tmp_path / "chat.json"
    request.write_text(json.dumps([user(image(WIDE), {"type": "image"}, text("what?"))]))
    command = ["inspect", str(request), "--tokenizer", "qwen3", "--template", "trl-qwen3-vl", "--media", "expanded"]
    app(command, standalone_mode=False)
    shown = capsys.readouterr().out
    assert "rule qwen3-vl" in shown and "300x200" in shown and "320x224" in shown and "unknown" in shown
    assert hashlib.sha256(WIDE).hexdigest()[:12] in shown
