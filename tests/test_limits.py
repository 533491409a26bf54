"""Modes and limits: which are in force, what the environment may set, what README says of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inspector import limits
from inspector.errors import ErrorKind, InspectorError
from inspector.limits import LOCAL, PUBLIC, Mode, limits_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_the_readme_lists_exactly_the_limits() -> None:
    written = README.split("<!-- limits:begin -->")[1].split("<!-- limits:end -->")[0].strip()
    assert written == limits.table(), "put this between the markers:\n" + limits.table()


@pytest.mark.parametrize(
    ("address", "environ", "mode"),
    [
        (None, {}, Mode.LOCAL),
        ("127.0.0.1", {}, Mode.LOCAL),
        ("127.0.0.5", {}, Mode.LOCAL),
        ("localhost", {}, Mode.LOCAL),
        ("[::1]", {}, Mode.LOCAL),
        ("0.0.0.0", {}, Mode.PUBLIC),
        ("::", {}, Mode.PUBLIC),
        ("192.168.0.7", {}, Mode.PUBLIC),
        ("box.example", {}, Mode.PUBLIC),
        ("127.0.0.1", {"SPACE_ID": "org/space"}, Mode.PUBLIC),
        ("0.0.0.0", {"INSPECTOR_MODE": "local"}, Mode.LOCAL),
        ("127.0.0.1", {"INSPECTOR_MODE": "public"}, Mode.PUBLIC),
        (None, {"SPACE_ID": "org/space", "INSPECTOR_MODE": " local "}, Mode.LOCAL),
    ],
)
def test_the_mode_follows_the_address_and_the_environment_wins(
    address: str | None, environ: dict[str, str], mode: Mode
) -> None:
    assert limits_of(address, environ) == limits.MODES[mode]


def test_every_limit_can_be_set_and_public_ones_are_nowhere_wider() -> None:
    for field in limits.BOUNDS:
        given = limits_of("0.0.0.0", {f"INSPECTOR_LIMIT_{field.name.upper()}": "3"})
        assert given == limits.dataclasses.replace(PUBLIC, **{field.name: 3}) and type(getattr(given, field.name)) is (
            int if field.type == "int" else float
        )
        assert getattr(PUBLIC, field.name) <= getattr(LOCAL, field.name), field.name


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("INSPECTOR_MODE", "pubic", "local or public"),
        ("INSPECTOR_LIMIT_CPU_S", "two", "a number above 0"),
        ("INSPECTOR_LIMIT_CPU_S", "nan", "a number above 0"),
        ("INSPECTOR_LIMIT_MESSAGES", "1.5", "a whole number above 0"),
        ("INSPECTOR_LIMIT_MESSAGES", "-1", "a whole number above 0"),
        ("INSPECTOR_LIMIT_JSON_DEPTH", "100000", "up to 500"),
        ("INSPECTOR_LIMIT_MESAGES", "10", "INSPECTOR_LIMIT_MESSAGES"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(name: str, value: str, words: str) -> None:
    with pytest.raises(InspectorError) as caught:
        limits_of(None, {name: value})
    assert caught.value.kind is ErrorKind.OptionInvalid and caught.value.where == {"option": name}
    assert name in caught.value.message and words in caught.value.remedy


def test_the_page_does_not_start_with_a_wrong_setting() -> None:
    environ = {**os.environ, "INSPECTOR_MODE": "pubic"}
    ended = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1 and ended.stdout == "" and len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "INSPECTOR_MODE is 'pubic'" in ended.stderr
