"""Every image rule of the presets against transformers' own processors: sizes, grids, tiles, and the text they write."""

from __future__ import annotations

import functools
import importlib
import random
from typing import Any

import numpy as np
import pytest
from PIL import Image

from inspector import presets
from inspector.errors import ErrorKind, InspectorError
from inspector.media.base import MediaRule, Plan
from inspector.media.families import FAMILIES, plan

RULES = presets.media_rules()
EDGES = [(1, 1), (16, 16), (224, 224), (336, 336), (640, 480), (480, 640), (1024, 1024), (1000, 100), (100, 1000),
         (1600, 900), (364, 364), (365, 364), (513, 512), (512, 2049), (896, 896), (199, 1), (672, 336)]  # fmt: skip


def sizes(count: int) -> list[tuple[int, int]]:
    source = random.Random(20_260)
    drawn = [(source.randint(20, 1400), source.randint(20, 1400)) for _ in range(count)]
    return (EDGES + drawn)[:count]


def processor(family: str, name: str, **settings: Any) -> Any:
    module = importlib.import_module(f"transformers.models.{family}.image_processing_pil_{family}")
    return getattr(module, f"{name}ImageProcessorPil")(**settings)


def writer(family: str, name: str, **attributes: Any) -> Any:
    """The library's processor without a tokenizer: only what writes the text of an image is used."""
    module = importlib.import_module(f"transformers.models.{family}.processing_{family}")
    made = object.__new__(getattr(module, f"{name}Processor"))
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


def qwen_vl(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    ours = processor("qwen2_vl", "Qwen2VL", patch_size=of["patch_size"], merge_size=of["merge_size"],
                     min_pixels=of["min_pixels"], max_pixels=of["max_pixels"])  # fmt: skip
    found = ours(images=[image], return_tensors="np")
    assert found["image_grid_thw"][0].tolist() == [1, *made.grid]
    write = writer("qwen2_vl", "Qwen2VL", image_processor=ours, image_token=rule.placeholder)
    assert write.replace_image_token(found, 0) == made.text


def llava(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    ours = processor("llava", "Llava", size={"shortest_edge": of["shortest_edge"]}, crop_size=of["crop_size"])
    found = ours(images=[image], return_tensors="np")
    resized = ours.resize(image=np.asarray(image).transpose(2, 0, 1), size=ours.size, resample=ours.resample)
    assert resized.shape[1:] == made.resized[::-1] and found["pixel_values"].shape[2:] == made.crops[0].size[::-1]
    write = writer("llava", "Llava", image_token=rule.placeholder, patch_size=of["patch_size"],
                   num_additional_image_tokens=of["additional_tokens"], vision_feature_select_strategy="default")  # fmt: skip
    assert write.replace_image_token(found, 0) == made.text


def llava_next(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    ours = processor("llava_next", "LlavaNext", size={"shortest_edge": of["tile_size"]}, crop_size=of["tile_size"])
    found = ours(images=[image], return_tensors="np")
    assert found["pixel_values"].shape[1] == len(made.crops)
    write = writer("llava_next", "LlavaNext", image_processor=ours, image_token=rule.placeholder,
                   patch_size=of["patch_size"], num_additional_image_tokens=of["additional_tokens"],
                   vision_feature_select_strategy="default")  # fmt: skip
    assert write.replace_image_token(found, 0) == made.text


def pixtral(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    unit = of["patch_size"] * of["merge_size"]
    ours = processor("pixtral", "Pixtral", size={"longest_edge": of["longest_edge"]}, patch_size=unit)
    found = ours(images=[image], return_tensors="np")
    assert tuple(found["image_sizes"][0]) == made.resized[::-1]
    # The library's text needs torchvision to import: rows of placeholders, each with its mark, the last with the end's.
    rows = made.text.removesuffix("[IMG_END]").split("[IMG_BREAK]")
    assert rows == ["[IMG]" * (made.resized[0] // unit)] * (made.resized[1] // unit)


def idefics3(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    ours = processor("idefics3", "Idefics3", size={"longest_edge": of["longest_edge"]},
                     max_image_size={"longest_edge": of["tile_size"]})  # fmt: skip
    found = ours(images=[image], return_row_col_info=True, return_tensors="np")
    assert (found["rows"][0][0], found["cols"][0][0]) == made.grid
    assert found["pixel_values"].shape[1] == len(made.crops)
    write = writer("idefics3", "Idefics3", image_token=rule.placeholder, image_seq_len=of["tokens_per_tile"],
                   fake_image_token=of["around"], global_image_tag=of["overview"])  # fmt: skip
    assert write.replace_image_token(found, 0) == made.text and made.text.count("<image>") == made.positions


def gemma3(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    square = {"height": of["image_size"], "width": of["image_size"]}
    ours = processor("gemma3", "Gemma3", size=square, do_pan_and_scan=of["pan_and_scan"],
                     pan_and_scan_min_crop_size=of["min_crop_size"], pan_and_scan_max_num_crops=of["max_crops"],
                     pan_and_scan_min_ratio_to_activate=of["min_ratio"])  # fmt: skip
    found = ours(images=[image], return_tensors="np")
    assert len(found["pixel_values"]) == len(made.crops)
    run = of["soft_token"] * of["tokens_per_image"]
    write = writer("gemma3", "Gemma3", full_image_sequence=f"\n\n{rule.placeholder}{run}{of['image_end']}\n\n")
    assert write.replace_image_token(found, 0) == made.text and made.text.count(of["soft_token"]) == made.positions
    boxes = [crop.box for crop in made.crops[1:]]
    pixels = np.asarray(image).transpose(2, 0, 1)
    if of["pan_and_scan"]:
        cut = ours.pan_and_scan(pixels, of["min_crop_size"], of["max_crops"], of["min_ratio"])
        assert [part.shape[1:] for part in cut] == [(bottom - top, right - left) for left, top, right, bottom in boxes]


def internvl(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    of = rule.settings
    square = {"height": of["tile_size"], "width": of["tile_size"]}
    ours = processor("got_ocr2", "GotOcr2", size=square, crop_to_patches=True, min_patches=of["min_tiles"],
                     max_patches=of["max_tiles"])  # fmt: skip
    found = ours(images=[image], return_tensors="np")
    assert found["num_patches"][0] == len(made.crops)
    write = writer("internvl", "InternVL", image_token=rule.placeholder, image_seq_length=of["tokens_per_tile"],
                   start_image_token=of["image_start"], end_image_token=of["image_end"])  # fmt: skip
    assert write.replace_image_token(found, 0) == made.text


def mllama(rule: MediaRule, image: Image.Image, made: Plan) -> None:
    from transformers.models.mllama import image_processing_pil_mllama as library

    of = rule.settings
    square = {"height": of["tile_size"], "width": of["tile_size"]}
    ours = processor("mllama", "Mllama", size=square, max_image_tiles=of["max_tiles"])
    assert ours(images=[image], return_tensors="np")["num_tiles"][0][0] == len(made.crops)
    width, height = image.size
    canvas = library.get_optimal_tiled_canvas(height, width, of["max_tiles"], of["tile_size"])
    assert (canvas[1], canvas[0]) == made.canvas
    fitted = library.get_image_size_fit_to_canvas(height, width, *canvas, of["tile_size"])
    assert (fitted[1], fitted[0]) == made.resized
    assert made.memory == len(made.crops) * 1601 and made.positions == 0 and made.text == "<|image|>"


CHECKS = {check.__name__: check for check in (qwen_vl, llava, llava_next, pixtral, idefics3, gemma3, internvl, mllama)}


@functools.lru_cache(maxsize=1)
def blank(size: tuple[int, int]) -> Image.Image:
    return Image.new("RGB", size)


def hold(rule: MediaRule, size: tuple[int, int]) -> None:
    CHECKS[rule.family](rule, blank(size), plan(rule, size))


def test_every_family_has_its_check_and_every_rule_its_family() -> None:
    assert set(CHECKS) == set(FAMILIES) == {rule.family for rule in RULES.values()}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_what_the_library_does(name: str) -> None:
    source = random.Random(name)
    for size in source.sample(sizes(60), 3):
        hold(RULES[name], size)


@pytest.mark.full
@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_what_the_library_does_on_many_sizes(name: str) -> None:
    for size in sizes(60):
        hold(RULES[name], size)


def test_the_sides_of_an_image_of_the_qwen_family_may_not_differ_two_hundredfold() -> None:
    ours = processor("qwen2_vl", "Qwen2VL")
    with pytest.raises(ValueError, match="200"):
        ours(images=[Image.new("RGB", (201, 1))])
    with pytest.raises(InspectorError) as refused:
        plan(RULES["qwen2.5-vl"], (201, 1))
    assert refused.value.kind is ErrorKind.MediaInvalid and refused.value.where == {"width": 201, "height": 1}


def test_the_templates_of_the_rules_are_presets_that_write_the_placeholder() -> None:
    from inspector.sources import resolve_template

    named = [(rule, template) for rule in RULES.values() for template in rule.templates]
    assert len({template for _rule, template in named}) == len(named) >= 9
    for rule, template in named:
        assert rule.placeholder in resolve_template(template).text, (rule.id, template)
        assert rule.origin and rule.encoder and rule.projector
