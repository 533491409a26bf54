"""`hf:ORG/NAME@REV`: files of a repository on the Hugging Face Hub, at one commit.

Honours HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE. The network is tried once, with a short deadline; an unreachable Hub
then fails at once, and is tried again a minute later. Only files of fixed lists are asked for; no code of a repository
is fetched. Every file is compared with the hash that the Hub states for it (Git's blob id, or LFS's SHA-256).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache, hub_http
from inspector.sources.base import Archive, Source, split_member, unavailable
from inspector.sources.names import html_instead, is_known_name, is_template_name, looks_like_html, size_limit
from inspector.sources.names import unknown_name as _unknown_name
from inspector.tokenizers.config import ADDITIONAL_TEMPLATES

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"(?:refs/pr/\d{1,9}|[A-Za-z0-9][A-Za-z0-9._/-]{0,127})")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PROBE_S = 2.5
_PROBE_AGAIN_S = 60.0
_RETRY_S = (0.5, 1.0, 2.0, 4.0)
_MAX_TEMPLATES = 32
_PAGE = 1 << 16  # a web page that comes instead of a small file is read so far, to be recognised
_reachable: dict[str, tuple[bool, float]] = {}
_probe_lock = threading.Lock()

Token = str | bool | None
"""A token: a text is used as it is; None takes HF_TOKEN, but never on a Space; False uses none."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file that a repository holds at a commit. `git_id` is Git's blob id; `sha256` is "" unless it lies in LFS.

    `changed` is the commit that wrote this version, where it was asked for: id, title and date.
    """

    path: str
    size: int
    git_id: str
    sha256: str = ""
    changed: tuple[str, str, str] = ("", "", "")


@dataclass(frozen=True, slots=True)
class HubSource(Source):
    """Repositories of the Hub, asked with one token."""

    token: Token = field(default=None, repr=False)
    scheme = "hf"

    def parse(self, rest: str) -> tuple[Archive, str]:
        """Split `ORG/NAME@REV!member`; REV defaults to main."""
        package, member = split_member(rest)
        repo, _, revision = package.partition("@")
        revision = revision or "main"
        if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo or repo.endswith((".git", ".", "-")):
            raise _invalid(ErrorKind.RepoNameInvalid, repo, "an ORG/NAME", rest)
        check_revision(revision, rest)
        if member and not is_known_name(PurePosixPath(member).name):
            raise _unknown_name(member)
        return Archive("hf", repo, revision), member

    def settle(self, archive: Archive) -> tuple[Archive, str]:
        """Give the archive at its commit: the one that the revision names now, or with no network the last one seen.

        The scope is "" for what everybody may read, else one that only the same token gives: what a gated or private
        repository gave to one visitor is never given to another out of the cache.
        """
        seen = self._seen(archive)
        if seen and (_COMMIT.fullmatch(archive.version) or not reachable()):
            return seen
        info = self.asked(archive, f"/api/models/{archive.package}/revision/{quote(archive.version, safe='')}")
        commit = info.get("sha") if isinstance(info, dict) else None
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise _hub(ErrorKind.HubError, archive, "the Hub named no commit", "try again")
        scope = self._scope() if info.get("private") or info.get("gated") else ""
        settled = Archive("hf", archive.package, commit)
        for ref in dict.fromkeys((archive.ref, settled.ref)):
            cache.remember(f"{ref}#commit{scope}", {"commit": commit})
        return settled, scope

    def _seen(self, archive: Archive) -> tuple[Archive, str] | None:
        for scope in dict.fromkeys(("", self._scope())):
            commit = (cache.remembered(f"{archive.ref}#commit{scope}") or {}).get("commit", "")
            if _COMMIT.fullmatch(commit):
                return Archive("hf", archive.package, commit), scope
        return None

    def _scope(self) -> str:
        token = self._secret()
        return f"#token:{hashlib.sha256(token.encode()).hexdigest()[:32]}" if token else ""

    def _secret(self) -> str | None:
        if isinstance(self.token, str):
            return self.token or None
        own = os.environ.get("HF_TOKEN") if self.token is None and not os.environ.get("SPACE_ID") else None
        return own or None

    def fetch(
        self, archive: Archive, members: Sequence[str], folder: Path, progress: cache.Progress | None
    ) -> dict[str, Path]:
        """Download those of the members that the repository has at this commit, and its additional templates."""
        settled = archive if _COMMIT.fullmatch(archive.version) else self.settle(archive)[0]
        files = self.files_at(settled, members)
        total, before = sum(file.size for file in files), 0
        found: dict[str, Path] = {}
        for index, file in enumerate(files):
            found[file.path] = folder / f"member-{index}"
            report = (lambda n, at=before: progress(at + n, total, settled.ref)) if progress else None
            self._download(settled, file, found[file.path], report)
            before += file.size
        return found

    def files_at(self, archive: Archive, members: Sequence[str], *, changed: bool = False) -> tuple[HubFile, ...]:
        """Give those of the members that the repository has at a commit, and its additional templates.

        Errors: Hub*; InputTooLarge if a file is larger than one of its name may be.
        """
        folders = {str(PurePosixPath(name).parent / ADDITIONAL_TEMPLATES.rstrip("/")) for name in members
                   if PurePosixPath(name).name == "chat_template.jinja"}  # fmt: skip
        listed = self._paths(archive, [*members, *sorted(folders)], changed)
        files = [_hub_file(row, archive) for row in listed if row.get("type") == "file" and row.get("path") in members]
        for folder in sorted(folders & {str(row.get("path")) for row in listed if row.get("type") == "directory"}):
            files += self._templates(archive, folder, changed)
        for file in files:
            if file.size > size_limit(file.path):
                raise _too_large(archive, file.path, file.size)
        return tuple(sorted(files, key=lambda file: file.path))

    def _paths(self, archive: Archive, paths: list[str], changed: bool) -> list[dict[str, Any]]:
        form = {"paths": paths, "expand": "true" if changed else "false"}
        return _rows(archive, self.asked(archive, f"/api/models/{archive.package}/paths-info/{archive.version}", form))

    def _templates(self, archive: Archive, folder: str, changed: bool) -> list[HubFile]:
        path = f"/api/models/{archive.package}/tree/{archive.version}/{quote(folder)}"
        names = [str(row.get("path")) for row in _rows(archive, self.asked(archive, path)) if row.get("type") == "file"]
        taken = [n for n in names if str(PurePosixPath(n).parent) == folder and is_template_name(PurePosixPath(n).name)]
        if len(taken) > _MAX_TEMPLATES:
            raise _hub(ErrorKind.HubError, archive, f"{len(taken)} additional templates", "name one with !member")
        rows = self._paths(archive, taken, changed) if taken else []
        return [_hub_file(row, archive) for row in rows if row.get("path") in taken]

    def commits(self, archive: Archive, pages: int) -> list[dict[str, Any]]:
        """Give the commits of a branch, the newest first, as the Hub describes them: id, title, date.

        Errors: Hub*.
        """
        found: list[dict[str, Any]] = []
        for page in range(pages):
            path = f"/api/models/{archive.package}/commits/{quote(archive.version, safe='')}?limit=100&p={page}"
            rows = _rows(archive, self.asked(archive, path))
            found += [row for row in rows if _COMMIT.fullmatch(str(row.get("id")))]
            if len(rows) < 100:
                break
        return found

    def asked(self, archive: Archive, path: str, form: dict[str, Any] | None = None) -> Any:
        """Ask the Hub's API and read its JSON.

        Errors: Hub*, ArtifactUnavailable with no network.
        """
        reply = self._perform(archive, hub_http.Request(endpoint(), path, form, self._secret()), "")
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            what = "an HTML page" if looks_like_html(reply.body) else "something that is not JSON"
            raise _hub(ErrorKind.HubError, archive, f"the Hub answered with {what}", _PORTAL) from error

    def fetch_file(self, archive: Archive, file: HubFile, target: Path) -> Path:
        """Download one file that `files_at` listed, and compare it with what was listed.

        Errors: Hub*, ArtifactMismatch.
        """
        self._download(archive, file, target, None)
        return target

    def _download(self, archive: Archive, file: HubFile, target: Path, report: Any) -> None:
        path = f"/{archive.package}/resolve/{archive.version}/{quote(file.path)}"
        request = hub_http.Request(endpoint(), path, None, self._secret(), target, max(file.size, _PAGE), report)
        reply = self._perform(archive, request, file.path)
        with target.open("rb") as stream:
            if looks_like_html(stream.read(512)) and file.path.endswith((".json", ".jinja")):
                raise html_instead(file.path, repository=archive.package, revision=archive.version)
        _check_bytes(archive, file, target, reply.headers)

    def _perform(self, archive: Archive, request: hub_http.Request, file: str) -> hub_http.Reply:
        """Make a request; a busy or broken server is asked again until the deadline has passed."""
        require_network()
        began = time.monotonic()
        for pause in (*_RETRY_S, None):
            reply = _sent(archive, request, file)
            if reply.status == 200:
                return reply
            wait = pause if reply.status >= 500 else None
            if wait is None or time.monotonic() - began + wait > hub_http.DEADLINE_S:
                break
            time.sleep(wait)
        raise _refusal(archive, reply, file, signed_in=request.token is not None, seconds=time.monotonic() - began)


_PORTAL = "check HF_ENDPOINT; a login page or a captive portal may stand before the Hub"


def check_revision(revision: str, rest: str) -> None:
    """Check the spelling of a revision, before any network.

    Errors: RevisionInvalid.
    """
    sound = _REVISION.fullmatch(revision) and ".." not in revision and "//" not in revision
    if not sound or revision.endswith(("/", ".lock", ".")):
        raise _invalid(ErrorKind.RevisionInvalid, revision, "a branch, tag, 40-hex commit or refs/pr/N", rest)


def endpoint() -> str:
    """Give the Hub's address: HF_ENDPOINT, else the library's default."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def reachable() -> bool:
    """Say whether the Hub answered; asked once an endpoint, within `_PROBE_S` seconds, and after a no once a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    address = endpoint()
    with _probe_lock:
        answered, when = _reachable.get(address, (False, 0.0))
        if not answered and (not when or time.monotonic() - when > _PROBE_AGAIN_S):
            answered = _probe(address)
            _reachable[address] = (answered, time.monotonic())
        return answered


def _probe(address: str) -> bool:
    """Ask in a thread of its own: name resolution has no deadline that a client could set."""
    import httpx2

    answered = threading.Event()

    def ask() -> None:
        try:
            httpx2.head(address, timeout=_PROBE_S)
            answered.set()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
            failed.set()

    failed = threading.Event()
    threading.Thread(target=ask, daemon=True).start()
    deadline = time.monotonic() + _PROBE_S
    while time.monotonic() < deadline and not failed.is_set():
        if answered.wait(0.02):
            return True
    return answered.is_set()


def require_network() -> None:
    """Raise ArtifactUnavailable if the Hub cannot be reached."""
    if not reachable():
        raise unavailable(
            "the Hugging Face Hub cannot be reached",
            "connect to the network, set HF_ENDPOINT to a mirror, or name a preset that is cached",
            endpoint=endpoint(),
        )


def _sent(archive: Archive, request: hub_http.Request, file: str) -> hub_http.Reply:
    try:
        with cache.disk_errors():
            return hub_http.perform(request)
    except hub_http.TooSlow as error:
        what = f"{file}: {error}" if file else str(error)
        raise _hub(ErrorKind.HubTimeout, archive, what, "try again; nothing was kept") from error
    except hub_http.TooLarge as error:
        raise _too_large(archive, file or "its answer", request.limit, more=True) from error
    except hub_http.BadAnswer as error:
        what = f"{file}: {error}" if file else str(error)
        raise _hub(ErrorKind.HubError, archive, what[:300], "try again; nothing was kept") from error


def _refusal(archive: Archive, reply: hub_http.Reply, file: str, *, signed_in: bool, seconds: float) -> InspectorError:
    """Turn a status and the Hub's error code into our kind. The server's own text is not repeated: it is foreign."""
    code, status = reply.headers.get("x-error-code", ""), reply.status
    page = f"{endpoint()}/{archive.package}"
    account = "with an account that may read it" if signed_in else "and sign in, or set HF_TOKEN"
    if code == "GatedRepo":
        return _hub(ErrorKind.HubGated, archive, "the repository is gated", f"ask for access at {page} {account}")
    if code == "RevisionNotFound":
        return _hub(ErrorKind.HubNotFound, archive, "the repository has no such revision", f"see {page}/commits/main")
    if code == "EntryNotFound":
        return _hub(ErrorKind.HubNotFound, archive, f"there is no {file}", f"see {page}/tree/{archive.version}")
    if code == "RepoNotFound" or (status == 404 and not code):
        why = "check ORG/NAME; if it is private, " + ("use a token that may read it" if signed_in else "set HF_TOKEN")
        return _hub(ErrorKind.HubNotFound, archive, "no such repository", why)
    if status in (401, 403):
        what = "the Hub refused the token" if signed_in else "the Hub wants a token: it is private, or not there"
        return _hub(ErrorKind.HubAuth, archive, f"{what} (HTTP {status})", f"see {page} {account}")
    if status == 429:
        after = reply.headers.get("retry-after", "")
        when = f"in {after} s" if after.isascii() and after.isdigit() and len(after) < 6 else "later"
        return _hub(ErrorKind.HubError, archive, "too many requests (HTTP 429)", f"try again {when}, or set HF_TOKEN")
    if status >= 500:
        what = f"the Hub failed for {seconds:.1f} s (HTTP {status})"
        return _hub(ErrorKind.HubTimeout, archive, what, "try again later; nothing was kept")
    return _hub(ErrorKind.HubError, archive, f"HTTP status {status}", "check HF_ENDPOINT, then try again")


def _rows(archive: Archive, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise _hub(ErrorKind.HubError, archive, "the Hub answered with another JSON than a list", _PORTAL)
    return value


def _hub_file(row: dict[str, Any], archive: Archive) -> HubFile:
    lfs = row.get("lfs") or {}
    last = row.get("lastCommit") or {}
    try:
        size, git_id, sha256 = int(row["size"]), str(row["oid"]), str(lfs.get("oid", ""))
        changed = (str(last.get("id", "")), str(last.get("title", ""))[:200], str(last.get("date", ""))[:40])
    except (KeyError, TypeError, ValueError, AttributeError):
        size, git_id, sha256, changed = -1, "", "", ("", "", "")
    if size < 0 or not _COMMIT.fullmatch(git_id) or (lfs and not re.fullmatch(r"[0-9a-f]{64}", sha256)):
        raise _hub(ErrorKind.HubError, archive, "the Hub described a file without size or hash", _PORTAL)
    return HubFile(row["path"], size, git_id, sha256, changed)


def _check_bytes(archive: Archive, file: HubFile, path: Path, headers: dict[str, str]) -> None:
    """Compare a downloaded file with the size and hash that the Hub stated.

    Errors: ArtifactMismatch; HubError for a file that ended early; ArtifactMismatch if the commit header differs.
    """
    size = path.stat().st_size
    if size != file.size:
        what = f"{file.path} came with {size:,} bytes, the Hub stated {file.size:,}"
        raise _hub(ErrorKind.HubError, archive, what, "try again; nothing was kept")
    actual = cache.sha256_of(path) if file.sha256 else git_blob_id(path)
    if actual != (file.sha256 or file.git_id):
        raise _wrong(archive, file.path, f"the hash {file.sha256 or file.git_id}", actual)
    commit = headers.get("x-repo-commit", archive.version)
    if commit != archive.version:
        raise _wrong(archive, file.path, f"commit {archive.version}", commit[:80])


def git_blob_id(path: Path) -> str:
    """Give the id that Git has for a file of these bytes."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _wrong(archive: Archive, file: str, stated: str, actual: str) -> InspectorError:
    remedy = "try again; if it stays so, the mirror or proxy in between changes files"
    return _hub(ErrorKind.ArtifactMismatch, archive, f"{file}: the Hub stated {stated}, what came is {actual}", remedy)


def _too_large(archive: Archive, file: str, size: int, *, more: bool = False) -> InspectorError:
    limit = f"the limit is {size_limit(file):,}"
    what = f"{file} has more than the stated {size:,} bytes" if more else f"{file} has {size:,} bytes, {limit}"
    kind = ErrorKind.HubError if more else ErrorKind.InputTooLarge
    return _hub(kind, archive, what, "name a smaller file, or fetch it yourself and use folder:PATH")


def _hub(kind: ErrorKind, archive: Archive, why: str, remedy: str) -> InspectorError:
    where = {"repository": archive.package, "revision": archive.version}
    message = f"{archive.package}@{archive.version}: {why}"
    return InspectorError(kind, message, stage="source", where=where, remedy=remedy)


def _invalid(kind: ErrorKind, value: str, rule: str, rest: str) -> InspectorError:
    return InspectorError(
        kind,
        f"{value[:120]!r} is not {rule}",
        stage="source",
        where={"ref": f"hf:{rest[:200]}"},
        remedy="write it like hf:HuggingFaceTB/SmolLM2-135M-Instruct@main",
    )
