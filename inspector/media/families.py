"""The families of image rules by name; each is imported when it is first used."""

from __future__ import annotations

import importlib

from inspector.media.base import MediaRule, Plan, Size

FAMILIES = ("qwen_vl", "llava", "llava_next", "pixtral", "idefics3", "gemma3", "internvl", "mllama")


def plan(rule: MediaRule, size: Size) -> Plan:
    """Give what the rule makes of an image of that size.

    Errors: MediaInvalid for a size that the family's processor refuses.
    """
    if rule.family not in FAMILIES:
        raise ValueError(f"no family {rule.family}")
    module = importlib.import_module(f"inspector.media.{rule.family}")
    found: Plan = module.plan(size, rule.settings, rule.placeholder)
    return found
