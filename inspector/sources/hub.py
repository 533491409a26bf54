"""`hf:ORG/NAME@REV`: files of a repository on the Hugging Face Hub, at one commit.

Honours HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE. The network is tried once a process, with a short deadline; after
that an unreachable Hub fails at once. Only files of fixed lists are asked for; no code of a repository is fetched.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Archive, split_member, unavailable

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"(?:refs/pr/\d{1,9}|[A-Za-z0-9][A-Za-z0-9._/-]{0,127})")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PROBE_S = 2.5
_FILE_S = 60
_reachable: dict[str, bool] = {}
_probe_lock = threading.Lock()


class HubSource:
    """Repositories of the Hub."""

    scheme = "hf"

    def parse(self, rest: str) -> tuple[Archive, str]:
        """Split `ORG/NAME@REV!member`; REV defaults to main."""
        package, member = split_member(rest)
        repo, _, revision = package.partition("@")
        revision = revision or "main"
        if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
            raise _invalid(ErrorKind.RepoNameInvalid, repo, "an ORG/NAME", rest)
        if (
            not _REVISION.fullmatch(revision)
            or ".." in revision
            or "//" in revision
            or revision.endswith(("/", ".lock"))
        ):
            raise _invalid(ErrorKind.RevisionInvalid, revision, "a branch, tag, 40-hex commit or refs/pr/N", rest)
        return Archive("hf", repo, revision), member

    def fetch(
        self, archive: Archive, members: Sequence[str], folder: Path, progress: cache.Progress | None
    ) -> dict[str, Path]:
        """Download those of the members that the repository has at this commit."""
        commit = resolve_commit(archive.package, archive.version)
        found: dict[str, Path] = {}
        for index, member in enumerate(members):
            if progress:
                progress(index, len(members), f"{archive.ref}!{member}")
            path = _download(archive.package, commit, member, folder)
            if path:
                found[member] = path
        return found


def resolve_commit(repo: str, revision: str) -> str:
    """Give the 40-hex commit that a branch, tag or PR reference names now.

    Errors: Hub*, ArtifactUnavailable with no network.
    """
    if _COMMIT.fullmatch(revision):
        return revision
    _require_network()
    return _asked(repo, revision, lambda: _api().model_info(repo, revision=revision, timeout=_FILE_S).sha)


def _download(repo: str, commit: str, member: str, folder: Path) -> Path | None:
    from huggingface_hub.errors import EntryNotFoundError

    _require_network()
    try:
        got = _asked(
            repo,
            commit,
            lambda: _api().hf_hub_download(
                repo, member, revision=commit, cache_dir=folder / "hub", etag_timeout=_FILE_S
            ),
        )
    except EntryNotFoundError:
        return None
    target = folder / f"member-{len(list(folder.glob('member-*')))}"
    shutil.copyfile(got, target)  # the library's own cache holds a link; ours must be a plain file
    return target


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(endpoint=endpoint(), token=os.environ.get("HF_TOKEN") or None)


def endpoint() -> str:
    """Give the Hub's address: HF_ENDPOINT, else the library's default."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def reachable() -> bool:
    """Say whether the Hub answered; asked once a process and endpoint, within `_PROBE_S` seconds."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    address = endpoint()
    with _probe_lock:
        if address not in _reachable:
            _reachable[address] = _probe(address)
        return _reachable[address]


def _probe(address: str) -> bool:
    """Ask in a thread of its own: name resolution has no deadline that a client could set."""
    import httpx2

    answered = threading.Event()

    def ask() -> None:
        try:
            httpx2.head(address, timeout=_PROBE_S)
            answered.set()
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError):
            return

    threading.Thread(target=ask, daemon=True).start()
    return answered.wait(_PROBE_S)


def _require_network() -> None:
    if not reachable():
        raise unavailable(
            "the Hugging Face Hub cannot be reached",
            "connect to the network, set HF_ENDPOINT to a mirror, or name a preset that is cached",
            endpoint=endpoint(),
        )


def _asked(repo: str, revision: str, ask: Callable[[], Any]) -> Any:
    """Call the library and turn its exceptions into our kinds; EntryNotFoundError passes.

    LocalEntryNotFoundError is one of those, but says that the network kept the file from us, not that there is none.
    """
    import httpx2
    from huggingface_hub import errors

    try:
        return ask()
    except errors.LocalEntryNotFoundError as error:
        raise _hub(ErrorKind.HubError, repo, revision, str(error)[:200], "try again") from error
    except errors.EntryNotFoundError:
        raise
    except errors.GatedRepoError as error:
        raise _hub(
            ErrorKind.HubGated,
            repo,
            revision,
            "the repository is gated",
            "ask for access on its page, then set HF_TOKEN",
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise _hub(
            ErrorKind.HubNotFound,
            repo,
            revision,
            "no such repository or revision",
            "check ORG/NAME and the revision; set HF_TOKEN if it is private",
        ) from error
    except (httpx2.TimeoutException, TimeoutError) as error:
        raise _hub(ErrorKind.HubTimeout, repo, revision, "no answer in time", "try again") from error
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        kind = ErrorKind.HubAuth if status in (401, 403) else ErrorKind.HubError
        raise _hub(
            kind,
            repo,
            revision,
            f"HTTP status {status}",
            "check HF_TOKEN" if kind is ErrorKind.HubAuth else "try again",
        ) from error
    except (httpx2.HTTPError, OSError, ValueError) as error:
        raise _hub(ErrorKind.HubError, repo, revision, str(error)[:200], "try again") from error


def _hub(kind: ErrorKind, repo: str, revision: str, why: str, remedy: str) -> InspectorError:
    where = {"repository": repo, "revision": revision}
    return InspectorError(kind, f"{repo}@{revision}: {why}", stage="source", where=where, remedy=remedy)


def _invalid(kind: ErrorKind, value: str, rule: str, rest: str) -> InspectorError:
    return InspectorError(
        kind,
        f"{value[:120]!r} is not {rule}",
        stage="source",
        where={"ref": f"hf:{rest[:200]}"},
        remedy="write it like hf:HuggingFaceTB/SmolLM2-135M-Instruct@main",
    )
