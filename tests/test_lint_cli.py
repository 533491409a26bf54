"""`lint` on the command line: formats, exit codes, silencing, the hook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from inspector.cli import app
from inspector.lint import RULES
from tests.test_control import ASK, EVIL

ROOT = Path(__file__).parent.parent
RULES_PAGE = ROOT / "docs" / "rules.md"
RUNNER = CliRunner()


def run(*arguments: Any) -> tuple[int, str, str]:
    done = RUNNER.invoke(app, ["lint", *map(str, arguments)], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    path = tmp_path / "chats" / "evil.json"
    path.parent.mkdir()
    path.write_text(
        json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": EVIL}], indent=1)
    )
    return path


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "chat_template.jinja"
    path.write_text(
        "{% for m in messages %}\n<|im_start|>{{ m.role }}{{ m.contents }}\n{{ m.content }}<|im_end|>{% endfor %}"
    )
    return path


def test_findings_are_printed_with_place_and_remedy_and_decide_the_exit_code(evil: Path, template: Path) -> None:
    code, out, err = run(evil, "--template", template)
    assert code == 1 and not err
    assert re.search(r"^error +forged-control-token +messages\[1\]\.content, token \d+, bytes \d+-\d+$", out, re.M), out
    assert re.search(r"^warning +undefined-printed +template line 2$", out, re.M), out
    assert "-> send safe_input_ids" in out and re.search(r"^1 error, \d warnings?, \d notes?$", out, re.M)
    assert run(evil, "--template", template, "--fail-on", "never")[0] == 0
    reason = "forged-control-token=a chat about tokens"
    silenced = run(evil, "--template", template, "--ignore", reason)
    assert silenced[0] == 0 and "silenced: a chat about tokens" in silenced[1] and "1 silenced" in silenced[1]
    assert run(evil, "--template", template, "--ignore", reason, "--fail-on", "warning")[0] == 1


def test_json_is_lint_1_with_capabilities_and_probes(evil: Path, template: Path) -> None:
    code, out, _err = run(evil, "--template", template, "--format", "json")
    result = json.loads(out)
    assert code == 1 and list(result) == [
        "schema", "options", "tokenizer", "template", "rendered_sha256", "findings", "counts", "capabilities", "probes",
        "error", "versions", "fail_on",
    ]  # fmt: skip
    assert result["schema"] == "lint/1" and result["counts"]["error"] == 1
    assert {row["name"] for row in result["capabilities"]} >= {"system", "tools", "prefix_preserving", "adds_bos"}
    assert {row["answer"] for row in result["probes"]} <= {"yes", "no", "failed"}
    for finding in result["findings"]:
        assert list(finding) == ["rule", "severity", "message", "where", "remedy", "silenced"]
    both = run(evil, evil, "--template", template, "--format", "json")[1].splitlines()
    assert [json.loads(line)["rendered_sha256"] for line in both] == [result["rendered_sha256"]] * 2


def test_sarif_and_github_point_into_the_request_and_the_template(evil: Path, template: Path) -> None:
    log = json.loads(run(evil, "--template", template, "--format", "sarif", "--ignore", "undefined-printed=known")[1])
    (only,) = log["runs"]
    assert log["version"] == "2.1.0" and [rule["id"] for rule in only["tool"]["driver"]["rules"]] == [
        r.id for r in RULES
    ]
    by_rule = {result["ruleId"]: result for result in only["results"]}
    for result in only["results"]:
        assert only["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    forged, undefined = by_rule["forged-control-token"], by_rule["undefined-printed"]
    place = forged["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": evil.as_posix()}, "region": {"startLine": 8}}
    assert undefined["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == template.as_posix()
    assert undefined["suppressions"] == [{"kind": "external", "justification": "known"}]
    lines = run(evil, "--template", template, "--format", "github")[1].splitlines()
    assert all(
        re.match(
            r"::(error|warning|notice) file=[^:]+,title=[\w-]+::|::(error|warning|notice) file=[^:]+,line=\d+", line
        )
        for line in lines
    )
    (error,) = (line for line in lines if line.startswith("::error"))
    assert f"file={evil},line=8,title=forged-control-token::" in error and "%0A" not in error.split("::")[1]


def test_wrong_options_and_inputs_are_one_line_and_exit_2_or_3(evil: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("[{")
    sent = tmp_path / "sent.json"
    sent.write_text('{"input_ids": [[1], [2, "x"]]}')
    for arguments, code, said in (
        ((), 2, "REQUEST"),
        ((evil, "--format", "xml"), 2, "--format"),
        ((evil, "--fail-on", "always"), 2, "--fail-on"),
        ((evil, "--ignore", "no-such-rule=x"), 2, "no-such-rule"),
        ((evil, "--ignore", "double-bos"), 2, "has no reason"),
        ((evil, "--sent", sent), 2, "input_ids"),
        ((broken,), 2, "InputInvalid"),
        ((evil, "--tokenizer", "no-such-thing"), 2, "no-such-thing"),
    ):
        found, out, err = run(*arguments)
        assert found == code and said in err and err.count("\n") == 1 and "Traceback" not in out + err, (
            arguments,
            found,
            err,
        )
    assert (
        json.loads(run(evil, "--tokenizer", "no-such-thing", "--format", "json")[1])["error"]["kind"] == "UnknownPreset"
    )


def test_a_template_that_refuses_is_found_and_said(tmp_path: Path, evil: Path) -> None:
    path = tmp_path / "strict.jinja"
    path.write_text("{{ raise_exception('never') }}")
    code, out, _err = run(evil, "--template", path)
    assert code == 1 and "render-failed" in out and "TemplateRaised: never" in out
    code, _out, err = run(evil, "--template", path, "--fail-on", "never")
    assert code == 2 and "TemplateRaised" in err


def test_what_was_sent_and_the_models_files_are_read_from_files(tmp_path: Path) -> None:
    chat, sent, config = (tmp_path / name for name in ("chat.json", "sent.json", "config.json"))
    chat.write_text(json.dumps(ASK))
    sent.write_text('{"attention_mask": [1, 1, 0], "prompt_length": 2}')
    config.write_text('{"vocab_size": 999}')
    out = run(chat, "--tokenizer", "bytes", "--sent", sent, "--config", config, "--base", "fixture")[1]
    for rule in ("right-padding", "sent-length-differs", "rows-without-token", "tokenizer-differs-from-base"):
        assert rule in out


def test_the_hook_lints_files_of_another_repository(evil: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["language"] == "script" and re.search(hook["files"], "chats/evil.json")
    script, *rest = [ROOT / hook["entry"]]
    assert script.stat().st_mode & 0o111 and script.read_text().startswith("#!/usr/bin/env python3\n") and not rest
    command = [sys.executable, str(script), "chats/evil.json", "--tokenizer", "bytes", "--fail-on", "note"]
    done = subprocess.run(command, cwd=evil.parent.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "note" in done.stdout and not done.stderr, done.stderr


def test_the_recipe_in_the_rules_page_is_ten_lines_and_names_real_options() -> None:
    recipe = RULES_PAGE.read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    steps = yaml.safe_load(recipe)["jobs"]["chats"]["steps"]
    assert len(recipe.strip().splitlines()) == 10 and "python -m inspector lint chats/*.json" in steps[-1]["run"]
    helped = RUNNER.invoke(app, ["lint", "--help"], env={"COLUMNS": "200"}).stdout
    for text in (recipe, RULES_PAGE.read_text("utf-8")):
        assert set(re.findall(r"(?<![\w-])--[a-z][\w-]+", text)) <= set(re.findall(r"--[a-z][\w-]+", helped))


def test_the_rules_are_listed_with_every_word() -> None:
    lines = run("--rules")[1].splitlines()
    assert len(lines) == len(RULES) and all(rule.id in line for rule, line in zip(RULES, lines))
    listed = json.loads(run("--rules", "--format", "json")[1])["rules"]
    assert [entry["id"] for entry in listed] == [rule.id for rule in RULES]
    assert set(listed[0]) == {"id", "topic", "severity", "title", "why", "remedy", "live"}
