"""What the help and the README tell people to run: an example in every help, completion in a shell, and the workflow of a
model repository, each tried as it is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from inspector.cli import app

ROOT = Path(__file__).parent.parent
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_shows_an_example_with_options_that_exist(name: str) -> None:
    shown = " ".join(CliRunner().invoke(app, [name, "--help"], terminal_width=200).stdout.split())
    example = shown.partition("Example: ")[2]
    assert f"python -m inspector {name}" in example
    known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert set(re.findall(r"(?<= )--[a-z-]+", example)) <= known


def test_a_shell_completes_commands_and_options() -> None:
    script = """eval "$(python -m inspector completion bash)"
COMP_WORDS=(inspector replay --ag); COMP_CWORD=2; _inspector_completion; echo ${COMPREPLY[@]}"""
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("--against\n", "")
    environment = {"_INSPECTOR_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "inspector repl"}
    answer = subprocess.run([sys.executable, "-m", "inspector"], cwd=ROOT, env={**ENVIRONMENT, **environment},
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert '"replay":' in answer.stdout
    for shell in ("zsh", "fish"):
        told = CliRunner().invoke(app, ["completion", shell]).stdout
        assert all(
            name in told for name in ("inspector", f"_INSPECTOR_COMPLETE=complete_{shell}", "_TYPER_COMPLETE_ARGS")
        )


def test_the_workflow_of_a_model_repository_runs_as_it_is_written(folder: Path) -> None:
    """`folder` is a model repository; only what needs a network is left out: the clone and pip."""
    recipe = (ROOT / "README.md").read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    assert len(recipe.splitlines()) == 10
    workflow = yaml.safe_load(recipe)
    (folder / workflow["env"]["PYTHONPATH"]).symlink_to(ROOT)
    (folder / "chats").mkdir()
    (folder / "records").mkdir()
    (folder / "chats" / "one.json").write_text(json.dumps([{"role": "user", "content": "When is high tide?"}]))
    steps = [step["run"] for step in workflow["jobs"]["chats"]["steps"] if "run" in step]
    assert steps[0].startswith("git clone") and steps[0].endswith("pip install -r .inspector/requirements.txt")

    def run(command: str) -> tuple[int, str]:
        environment = {**ENVIRONMENT, **workflow["env"]}
        done = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    noted = re.search(r"`(python -m inspector inspect chats/one\.json [^`]*)`", (ROOT / "README.md").read_text("utf-8"))
    assert noted is not None and run(noted[1])[0] == 0
    shutil.copy(folder / "records" / "one.json", folder / "records" / "two.json")
    for step in steps[1:]:
        assert run(step)[0] == 0, run(step)
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().replace("<", "[", 1))
    code, said = run(steps[-1])
    assert code == 1 and said.count("first difference: render, template.digest") == 2
