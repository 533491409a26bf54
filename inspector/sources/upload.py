"""`upload:SHA256`: files that a visitor gave: a set of files, or a zip of them. The hash over them is their name.

Nothing is unpacked to a path that a visitor chose: names come from a fixed list. For the person at this machine the bytes
lie in the cache under their own hash; what a visitor of a page for others gives is that page's alone (visitors.py). Of a
zip only the end is read before the number and the size of its entries are known to be small; sizes, counts and
compression ratios are checked before anything is decompressed.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping

from inspector import caller
from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache, visitors
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
MAX_ENTRIES = 1000  # of a zip, folders and what lies beside the files among them
MAX_DIRECTORY_BYTES = 1 << 20
_SMALL = 1 << 16  # a ratio says nothing about a few bytes: an empty template may be any multiple of its entry
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20


class UploadSource:
    """Uploads by the hash that `store_upload` gave them."""

    scheme = "upload"

    def files(self, rest: str, names: tuple[str, ...], progress: cache.Progress | None) -> tuple[ArtifactFile, ...]:
        """Give the files of an upload: all of them, as they were checked when they came.

        Errors: FileNameInvalid for another spelling; ArtifactUnavailable if they are not here, or not for this visitor.
        """
        if not _SHA256.fullmatch(rest):
            raise InspectorError(
                ErrorKind.FileNameInvalid,
                f"{rest[:80]!r} is not the SHA-256 of an upload",
                stage="source",
                where={"ref": f"upload:{rest[:100]}"},
                remedy="give the files again, and use the reference that this returns",
            )
        owner = caller.current().owner
        if owner:
            return visitors.UPLOADS.find(owner, f"upload:{rest}")
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


def store_upload(given: Mapping[str, bytes] | bytes, since: float | None = None) -> str:
    """Keep uploaded files, given as name -> bytes or as the bytes of a zip; return their reference.

    `since`: when a visitor asked, time.monotonic(); what a page has given that has closed since is not kept.

    Errors: FileNameInvalid, InputTooLarge, InputInvalid (no zip, nothing in it), TokenizerInvalid, GgufInvalid,
    CacheFull.
    """
    files = unzip(given) if isinstance(given, bytes) else dict(given)
    _check_counts(len(files), sum(map(len, files.values())))
    for name, data in files.items():
        check_upload_name(name)
        _check_content(name, data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    lines = "".join(sorted(f"{name} {sha256}\n" for name, sha256 in digests.items()))
    ref = f"upload:{hashlib.sha256(lines.encode()).hexdigest()}"
    if caller.current().owner:
        visitors.UPLOADS.keep(caller.current(), ref, files, digests, since)
        return ref
    for name, data in files.items():
        cache.store_bytes(data, name)
    cache.remember(ref, digests)
    return ref


def unzip(data: bytes) -> dict[str, bytes]:
    """Give the files of a zip by name; one folder that holds everything is taken off, and what lies beside is left out.

    Errors: as store_upload.
    """
    try:
        with _opened(data) as packed:
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
    with _opened(data) as packed:
        return [entry.filename for entry in packed.infolist() if not entry.is_dir() and is_beside(entry.filename)]


_END = struct.Struct("<4s4H2LH")  # the end record: disk numbers, entries, size and place of the directory, comment
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = 46  # bytes of a directory entry before its name
_ENTRY_LENGTHS = struct.Struct("<3H")  # of name, extra field and comment


def _opened(data: bytes) -> zipfile.ZipFile:
    """Open a zip whose directory is small and as large as it says: `zipfile` reads all of it, whatever it holds.

    Errors: InputTooLarge; BadZipFile.
    """
    end = _end_of(data)
    _, _, _, _, count, size, offset, _ = _END.unpack_from(data, end)
    start = end
    if end >= _LOCATOR.size + _END64.size and data[end - _LOCATOR.size : end].startswith(b"PK\x06\x07"):
        start -= _LOCATOR.size + _END64.size
        signature, *_, count, size, offset = _END64.unpack_from(data, start)
        place = _LOCATOR.unpack_from(data, end - _LOCATOR.size)[2]
        if signature != b"PK\x06\x06" or place != start:
            raise zipfile.BadZipFile("its zip64 end record is not where it should be")
    if count > MAX_ENTRIES or size > MAX_DIRECTORY_BYTES:
        many = f"{count:,} files were given" if count > MAX_ENTRIES else f"the list of the files has {size:,} bytes"
        raise _too_large(f"{many}, the limit is {MAX_FILES if count > MAX_ENTRIES else MAX_DIRECTORY_BYTES:,}")
    if size + offset > start or _walked(data, start - size, start) != count:
        raise zipfile.BadZipFile("its directory is not as large as its end says")
    # Where no comment follows, `zipfile` finds this end record and no other.
    plain = len(data) == end + _END.size and data.endswith(b"\0\0")
    return zipfile.ZipFile(io.BytesIO(data if plain else data[: end + _END.size - 2] + b"\0\0"))


def _end_of(data: bytes) -> int:
    """Give where the end record is.

    Errors: BadZipFile if there is none.
    """
    plain = len(data) - _END.size
    if plain >= 0 and data[plain : plain + 4] == b"PK\x05\x06" and data.endswith(b"\0\0"):
        return plain
    end = data.rfind(b"PK\x05\x06", max(0, plain - 0xFFFF))
    if end < 0 or end > plain:
        raise zipfile.BadZipFile("it has no end record")
    return end


def _walked(data: bytes, at: int, end: int) -> int:
    """Count the entries of a directory, at most one more than are taken; -1 if they do not fill it."""
    count = 0
    while at < end and count <= MAX_ENTRIES:
        if at + _ENTRY > end or data[at : at + 4] != b"PK\x01\x02":
            return -1
        at += _ENTRY + sum(_ENTRY_LENGTHS.unpack_from(data, at + 28))
        count += 1
    return count if at == end else -1


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
        if entry.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):  # others say how much memory they take
            raise zipfile.BadZipFile(f"{name[:80]} is packed with method {entry.compress_type}, not deflate")
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
