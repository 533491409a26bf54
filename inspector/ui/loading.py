"""How a pinned tokenizer loads through AutoTokenizer, asked in a process of its own: transformers pulls torch in, which
the page's process never holds. One such process at a time; an answer about pinned files never changes, so it is kept.
"""

from __future__ import annotations

import json
import subprocess
import threading
from typing import Any

from inspector import presets
from inspector.errors import ErrorKind, InspectorError
from inspector.processes import ENVIRONMENT_NAMES, ENVIRONMENT_SET, allowed_environment, boot_command
from inspector.sources.cache import cache_dir

TIMEOUT_S = 120
_one_at_a_time = threading.Lock()
_known: dict[str, dict[str, Any] | None] = {}


def loading_difference(preset: str) -> dict[str, Any] | None:
    """Compare a preset's tokenizer.json with what AutoTokenizer makes of the same files; None for other families.

    Errors: TokenizerInvalid if AutoTokenizer cannot load them; TimeLimit; WorkerCrashed.
    """
    if presets.tokenizers()[preset].family != "fast":
        return None
    with _one_at_a_time:
        if preset not in _known:
            _known[preset] = _asked(preset)
        return _known[preset]


def _asked(preset: str) -> dict[str, Any]:
    command = boot_command("inspector.ui.loading", "main", {"preset": preset})
    try:
        run = subprocess.run(
            command,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
            env=allowed_environment(
                ENVIRONMENT_NAMES, (), {**ENVIRONMENT_SET, "INSPECTOR_CACHE": str(cache_dir().absolute())}
            ),
        )
    except subprocess.TimeoutExpired:
        raise _failed(ErrorKind.TimeLimit, f"AutoTokenizer took over {TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise _failed(ErrorKind.WorkerCrashed, f"the process that asked AutoTokenizer failed: {last[:200]}") from None
    answer = json.loads(run.stdout)
    if answer["error"] is not None:
        raise InspectorError.from_dict(answer["error"])
    return answer["loading"]


def _failed(kind: ErrorKind, message: str) -> InspectorError:
    return InspectorError(kind, message, stage="source", remedy="run python -m inspector differences")


def main(config: dict[str, Any]) -> None:
    """Print the difference as JSON: the far side."""
    from inspector.sources import resolve_tokenizer
    from inspector.vocabularies import auto_tokenizer_difference

    answer: dict[str, Any] = {"loading": None, "error": None}
    try:
        answer["loading"] = auto_tokenizer_difference(resolve_tokenizer(config["preset"]))
    except InspectorError as error:
        answer["error"] = error.to_dict()
    print(json.dumps(answer))
