"""`upload:SHA256`: files that a visitor gave: a set of files, or a zip of them. The hash over them is their name.

Nothing is unpacked to a path that a visitor chose: names come from a fixed list, bytes lie in the cache under their
own hash. Sizes, counts and compression ratios are checked before anything is decompressed.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.names import (
    check_upload_name,
    html_instead,
    looks_like_html,
    looks_like_lfs_pointer,
    pointer_instead,
)
from inspector.tokenizers.base import ArtifactFile

MAX_FILES = 50
MAX_BYTES = 64 << 20
MAX_RATIO = 100
_SMALL = 1 << 16  # a ratio says nothing about a few bytes: an empty template may be any multiple of its entry
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


class UploadSource:
    """Uploads by the hash that `store_upload` gave them."""

    scheme = "upload"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the files of an upload: all of them, as they were checked when they came.

        Errors: FileNameInvalid for another spelling; ArtifactUnavailable if they are no longer in the cache.
        """
        if not _SHA256.fullmatch(rest):
            raise InspectorError(
                ErrorKind.FileNameInvalid,
                f"{rest[:80]!r} is not the SHA-256 of an upload",
                stage="source",
                where={"ref": f"upload:{rest[:100]}"},
                remedy="give the files again, and use the reference that this returns",
            )
        held = [cache.lookup(sha256, name) for name, sha256 in (cache.remembered(f"upload:{rest}") or {}).items()]
        found = tuple(file for file in held if file)
        if not found or len(found) != len(held):
            raise InspectorError(
                ErrorKind.ArtifactUnavailable,
                "the uploaded files are no longer here, or one of them was damaged",
                stage="source",
                where={"ref": f"upload:{rest}"},
                remedy="give the files again",
            )
        return found


def store_upload(given: Mapping[str, bytes] | bytes) -> str:
    """Keep uploaded files, given as name -> bytes or as the bytes of a zip; return their reference.

    Errors: FileNameInvalid, InputTooLarge, InputInvalid (no zip, nothing in it), TokenizerInvalid, GgufInvalid,
    CacheFull.
    """
    files = unzip(given) if isinstance(given, bytes) else dict(given)
    _check_counts(len(files), sum(map(len, files.values())))
    for name, data in files.items():
        check_upload_name(name)
        _check_content(name, data)
    kept = {name: cache.store_bytes(data, name).sha256 for name, data in files.items()}
    lines = "".join(sorted(f"{name} {sha256}\n" for name, sha256 in kept.items()))
    ref = f"upload:{hashlib.sha256(lines.encode()).hexdigest()}"
    cache.remember(ref, kept)
    return ref


def unzip(data: bytes) -> dict[str, bytes]:
    """Give the files of a zip by name; one folder that holds everything is taken off, and what lies beside is left out.

    Errors: as store_upload.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            entries = [entry for entry in packed.infolist() if not entry.is_dir()]
            _check_entries(entries)
            entries = [entry for entry in entries if not is_beside(entry.filename)]
            _check_counts(len(entries), 0)
            root = _common_folder([entry.filename for entry in entries])
            for entry in entries:
                check_upload_name(entry.filename[len(root) :])
            return {entry.filename[len(root) :]: _read(packed, entry) for entry in entries}
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise _invalid(
            f"the file is not a readable zip: {error}", "pack the files again, without a password"
        ) from error
    except (ValueError, zlib.error) as error:
        raise _invalid(f"the zip is damaged: {error}", "pack the files again") from error


def is_beside(name: str) -> bool:
    """Say whether a file of a zip is only what systems and repositories lay beside the files: it is left out, never read.

    >>> is_beside("__MACOSX/._tokenizer.json"), is_beside("m/README.md"), is_beside("m/pytorch_model.bin")
    (True, True, False)
    """
    return name.startswith("__MACOSX/") or _BESIDE.fullmatch(name.rpartition("/")[2]) is not None


_BESIDE = re.compile(
    r"\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|\.git(?:attributes|ignore|keep)"
    r"|(?i:readme|licen[cs]e|notice|use_policy|changelog|citation|model_card)(?:[-_.][A-Za-z0-9_-]{1,20}){0,2}"
    r"|(?:preprocessor|sentence_bert|adapter)_config\.json|(?:modules|configuration)\.json|[A-Za-z0-9_-]{1,64}\.md"
)


def left_out(data: bytes) -> list[str]:
    """Name the files of a readable zip that `unzip` leaves out."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        return [entry.filename for entry in packed.infolist() if not entry.is_dir() and is_beside(entry.filename)]


def _check_entries(entries: list[zipfile.ZipInfo]) -> None:
    _check_counts(len(entries), sum(entry.file_size for entry in entries))
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        parts = name.split("/")
        link = stat.S_ISLNK(entry.external_attr >> 16)
        if link or name.startswith("/") or ".." in parts or "." in parts or re.search(r"[\x00-\x1f\\:]", name):
            raise _unsafe(name, "a link" if link else "a path that leads elsewhere")
        if name in seen:
            raise _unsafe(name, "there twice")
        seen.add(name)
        if entry.file_size > _SMALL and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
            raise _too_large(f"{name} unpacks to {entry.file_size:,} bytes, over {MAX_RATIO} times its packed size")


def _read(packed: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Decompress one entry, no further than it says it goes."""
    pieces: list[bytes] = []
    size = 0
    with packed.open(entry) as stream:
        while piece := stream.read(_CHUNK):
            size += len(piece)
            if size > entry.file_size:
                raise _too_large(f"{entry.filename} unpacks to more than the {entry.file_size:,} bytes it states")
            pieces.append(piece)
    return b"".join(pieces)


def _common_folder(names: list[str]) -> str:
    first = names[0].partition("/")
    root = f"{first[0]}/" if first[1] and first[0] != "additional_chat_templates" else ""
    return root if root and all(name.startswith(root) for name in names) else ""


def _check_counts(count: int, size: int) -> None:
    if count == 0:
        raise _invalid("nothing was given", "give a tokenizer.json, a template or a .gguf file")
    if count > MAX_FILES:
        raise _too_large(f"{count:,} files were given, the limit is {MAX_FILES}")
    if size > MAX_BYTES:
        raise _too_large(f"the files have {size:,} bytes, the limit is {MAX_BYTES:,}")


def _check_content(name: str, data: bytes) -> None:
    """Look at a file's first bytes: whether it can be what its name says. It is parsed only in the sandbox."""
    if looks_like_html(data) and name.endswith(".json"):
        raise html_instead(name)
    if looks_like_lfs_pointer(data):
        raise pointer_instead(name)
    if name.endswith(".json") and data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        raise _broken(ErrorKind.TokenizerInvalid, name, "is not JSON", {"file": name, "byte": 0})
    if name.endswith(".gguf") and not data.startswith(b"GGUF"):
        raise _broken(ErrorKind.GgufInvalid, name, "does not start with GGUF", {"byte": 0, "field": "magic"})


def _broken(kind: ErrorKind, name: str, what: str, where: dict[str, object]) -> InspectorError:
    remedy = f"give the {name.rpartition('.')[2]} file itself, as it was saved"
    return InspectorError(kind, f"{name} {what}", stage="source", where=where, remedy=remedy)


def _unsafe(name: str, why: str) -> InspectorError:
    return InspectorError(
        ErrorKind.FileNameInvalid,
        f"the zip holds {name[:120]!r}, which is {why}",
        stage="source",
        where={"file": name[:200]},
        remedy="pack the plain files only",
    )


def _too_large(message: str) -> InspectorError:
    remedy = "give only the tokenizer's and the template's files, not weights"
    return InspectorError(ErrorKind.InputTooLarge, message, stage="source", where={"option": "files"}, remedy=remedy)


def _invalid(message: str, remedy: str) -> InspectorError:
    return InspectorError(ErrorKind.InputInvalid, message, stage="source", where={"option": "files"}, remedy=remedy)
