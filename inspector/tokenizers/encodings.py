"""Names of tiktoken: encodings, models, the alias gpt2, installed plug-ins, and encodings of one's own.

Every name ends in a TokenizerArtifact whose ranks are a verified file, so that a sandboxed child needs neither the
network nor a plug-in's code. A plug-in is code that the person installed: it runs here, once, to give its parameters.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.tokenizers.base import ArtifactFile, TokenizerArtifact
from inspector.tokenizers.tiktoken_ranks import write_ranks

# Encodings of the package -> the preset whose rank file they are made of. gpt2 is r50k under its older name: same
# ranks, pattern and special token; the package builds it from two files that nobody needs.
RANKS_OF = {
    "o200k_base": "o200k",
    "o200k_harmony": "o200k",
    "cl100k_base": "cl100k",
    "p50k_base": "p50k",
    "p50k_edit": "p50k",
    "r50k_base": "r50k",
    "gpt2": "r50k",
}


def encoding_name(name: str) -> str:
    """Give the encoding that a name means: an encoding, or a model as `tiktoken.encoding_for_model` reads it.

    Errors: UnknownPreset listing the encodings.

    >>> encoding_name("gpt-4o-mini-2024-07-18"), encoding_name("gpt2"), encoding_name("gpt-oss-20b")
    ('o200k_base', 'gpt2', 'o200k_harmony')
    """
    from tiktoken.model import encoding_name_for_model

    if name in RANKS_OF or name in plugin_encodings():
        return name
    try:
        return encoding_name_for_model(name)
    except KeyError:
        known = [*RANKS_OF, *sorted(plugin_encodings())]
        raise InspectorError(
            ErrorKind.UnknownPreset,
            f"tiktoken knows neither an encoding nor a model {name[:120]!r}",
            stage="source",
            where={"ref": f"tiktoken:{name[:200]}"},
            remedy=f"one of the encodings {', '.join(known)}, or the name of an OpenAI model",
        ) from None


def plugin_encodings() -> dict[str, Any]:
    """Give the constructors of installed `tiktoken_ext` plug-ins by encoding, the package's own apart.

    A plug-in of an editable installation is not seen: its folder is not on the namespace package's path.
    """
    import importlib
    import pkgutil

    import tiktoken_ext

    found: dict[str, Any] = {}
    for _finder, module, _is_package in pkgutil.iter_modules(tiktoken_ext.__path__, "tiktoken_ext."):
        if module != "tiktoken_ext.openai_public":
            found |= getattr(importlib.import_module(module), "ENCODING_CONSTRUCTORS", {})
    return found


def encoding_artifact(name: str, ref: str = "", progress: cache.Progress | None = None) -> TokenizerArtifact:
    """Give the artifact of a tiktoken name: an encoding, a model, `gpt2`, or a plug-in's encoding.

    Errors: UnknownPreset; TokenizerInvalid if a plug-in fails; as resolve_tokenizer for the rank file.
    """
    from dataclasses import replace

    from inspector.sources.resolve import artifact_digest, resolve_tokenizer

    encoding, ref = encoding_name(name), ref or f"tiktoken:{name}"
    if encoding not in RANKS_OF:
        return _plugin_artifact(encoding, ref)
    preset = resolve_tokenizer(RANKS_OF[encoding], progress)
    base = "r50k_base" if encoding == "gpt2" else encoding
    if base == preset.settings["encoding"]:
        return replace(preset, ref=ref)
    settings = {**preset.settings, "encoding": base}
    return replace(preset, ref=ref, id=base, settings=settings, digest=artifact_digest(preset.files, settings))


def _plugin_artifact(encoding: str, ref: str) -> TokenizerArtifact:
    try:
        parameters = plugin_encodings()[encoding]()
        return own_encoding(
            parameters["name"],
            parameters["pat_str"],
            parameters["mergeable_ranks"],
            parameters["special_tokens"],
            ref=ref,
        )
    except InspectorError:
        raise
    except Exception as error:
        raise InspectorError(
            ErrorKind.TokenizerInvalid,
            f"the tiktoken plug-in of {encoding!r} fails: {type(error).__name__}: {error}",
            stage="source",
            where={"ref": ref},
            remedy="correct or reinstall the plug-in package",
        ) from error


def own_encoding(
    name: str, pattern: str, ranks: dict[bytes, int], special_tokens: dict[str, int], *, ref: str = ""
) -> TokenizerArtifact:
    """Make an artifact of an encoding of one's own, as one would pass it to `tiktoken.Encoding`.

    The ranks are written into the cache, by their hash. Errors: CacheFull; loading it: TokenizerInvalid.
    """
    file = _keep(write_ranks(ranks), f"{hashlib.sha256(name.encode()).hexdigest()[:12]}.tiktoken")
    settings = {"name": name, "pattern": pattern, "special_tokens": dict(special_tokens)}
    lines = f"{file.name} {file.sha256}\n" + json.dumps(
        settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    digest = hashlib.sha256(lines.encode()).hexdigest()
    return TokenizerArtifact(ref or f"tiktoken:{name}", name, "tiktoken", digest, (file,), settings)


def _keep(data: bytes, name: str) -> ArtifactFile:
    sha256 = hashlib.sha256(data).hexdigest()
    held = cache.lookup(sha256, name)
    if held is not None:
        return held
    with cache.workspace() as folder, tempfile.NamedTemporaryFile(dir=folder, delete=False) as made:
        made.write(data)
        made.close()
        return cache.store(Path(made.name), sha256, name)
