"""The catalogue of presets: tokenizers, templates and image rules with origin, licence and SHA-256, read from TOML manifests.

The manifests lie in the `presets` folder beside the package. Nothing is fetched here.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inspector.media.base import MediaRule
from inspector.sources.base import Pin
from inspector.sources.pins import PRESETS_FOLDER


@dataclass(frozen=True, slots=True)
class TokenizerPreset:
    """A tokenizer of the catalogue. `embedding_rows`: of the models that it belongs to, where known; `model` is the pin of
    the weights that belong to it, where there are any."""

    id: str
    title: str
    family: str
    source: str
    version: str
    licence: str
    notes: str
    pins: tuple[Pin, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    context_window: int | None = None
    embedding_rows: int | None = None
    default_template: str = ""
    reconstructed: bool = False
    model: Pin | None = None


@dataclass(frozen=True, slots=True)
class TemplateRevision:
    """One revision of a template preset."""

    revision: str
    source: str
    pin: Pin


@dataclass(frozen=True, slots=True)
class TemplatePreset:
    """A template of the catalogue; `made_for` is the tokenizer preset it was written for ("" for any), `repository` the
    Hub repository that has it ("" where none is known)."""

    id: str
    title: str
    version: str
    licence: str
    notes: str
    made_for: str
    context_window: int | None
    revisions: tuple[TemplateRevision, ...]
    repository: str = ""

    def at(self, revision: str) -> TemplateRevision | None:
        """Return the revision of that name, the first one for "", or None."""
        return next((entry for entry in self.revisions if revision in ("", entry.revision)), None)


def tokenizers() -> dict[str, TokenizerPreset]:
    """Give the tokenizer presets by id, in the order of their manifests."""
    return _manifests()[0]


def templates() -> dict[str, TemplatePreset]:
    """Give the template presets by id, in the order of their manifests."""
    return _manifests()[1]


@functools.cache
def media_rules() -> dict[str, MediaRule]:
    """Give the image rules by id, in the order of their manifests."""
    tables = [tomllib.loads(path.read_text("utf-8")) for path in sorted((PRESETS_FOLDER / "media").glob("*.toml"))]
    tables.sort(key=lambda table: table["order"])
    return {table["id"]: _media_rule(table) for table in tables}


def _media_rule(table: dict[str, Any]) -> MediaRule:
    lists = {name: tuple(table[name]) for name in ("templates", "repositories")}
    named = {name: value for name, value in table.items() if name != "order"}
    return MediaRule(**{**named, **lists})


def local_pin_path(pin: Pin) -> Path | None:
    """Return the file of a pin that lies in the presets folder itself, or None if it is fetched."""
    if len(pin.sources) == 1 and pin.sources[0].startswith("presets:"):
        return PRESETS_FOLDER / pin.sources[0].removeprefix("presets:")
    return None


def catalogue() -> dict[str, list[dict[str, Any]]]:
    """Give the catalogue in the shape of `presets --json`."""
    return {
        "tokenizers": [
            {"id": preset.id, "title": preset.title, "source": preset.source, "cached": is_cached(preset.pins)}
            for preset in tokenizers().values()
        ],
        "templates": [
            {"id": preset.id, "revision": entry.revision, "source": entry.source, "digest": entry.pin.sha256}
            for preset in templates().values()
            for entry in preset.revisions
        ],
    }


def is_cached(pins: tuple[Pin, ...]) -> bool:
    """Say whether all files lie in the cache, by name only: they are hashed when they are used."""
    from inspector.sources.cache import blob_path

    return all((local_pin_path(pin) or blob_path(pin.sha256, pin.name)).is_file() for pin in pins)


@functools.cache
def _manifests() -> tuple[dict[str, TokenizerPreset], dict[str, TemplatePreset]]:
    tables = {
        kind: [tomllib.loads(path.read_text("utf-8")) for path in sorted((PRESETS_FOLDER / kind).glob("*.toml"))]
        for kind in ("tokenizers", "templates")
    }
    for rows in tables.values():
        rows.sort(key=lambda table: table.get("order", 100))
    return (
        {table["id"]: _tokenizer(table) for table in tables["tokenizers"]},
        {table["id"]: _template(table) for table in tables["templates"]},
    )


def _tokenizer(table: dict[str, Any]) -> TokenizerPreset:
    pins = tuple(_pin(entry) for entry in table.get("files", ()))
    model = table.get("model")
    return TokenizerPreset(
        id=table["id"],
        title=table["title"],
        family=table["family"],
        source=table["source"],
        version=table["version"],
        licence=table["licence"],
        notes=table["notes"],
        pins=pins,
        settings=table.get("settings", {}),
        context_window=table.get("context_window"),
        embedding_rows=table.get("embedding_rows"),
        default_template=table.get("default_template", ""),
        reconstructed=table.get("reconstructed", False),
        model=next((pin for pin in pins if pin.name == model), None),
    )


def _template(table: dict[str, Any]) -> TemplatePreset:
    return TemplatePreset(
        id=table["id"],
        title=table["title"],
        version=table["version"],
        licence=table["licence"],
        notes=table["notes"],
        made_for=table["made_for"],
        context_window=table.get("context_window"),
        revisions=tuple(
            TemplateRevision(entry["revision"], entry["sources"][0], _pin(entry)) for entry in table["revisions"]
        ),
        repository=table.get("repository", ""),
    )


def _pin(entry: dict[str, Any]) -> Pin:
    return Pin(entry["name"], entry["sha256"], tuple(entry["sources"]), entry.get("size", 0))
