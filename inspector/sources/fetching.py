"""Bring pinned files into the cache: look there first, then ask the sources in the preset's order.

All sources of a file must give the same SHA-256; one that gives another is passed over, and named if none is right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from inspector.errors import ErrorKind, InspectorError
from inspector.sources import cache
from inspector.sources.base import Archive, Pin, Source, unavailable
from inspector.sources.pins import archives
from inspector.tokenizers.base import ArtifactFile


def obtain(
    pins: tuple[Pin, ...], remotes: dict[str, Source], progress: cache.Progress | None
) -> tuple[ArtifactFile, ...]:
    """Give every pinned file from the cache, fetching those that are not there or not whole.

    Errors: ArtifactMismatch if a source answered with other bytes and none was right; else ArtifactUnavailable, or
    the source's own kind where it was the only one.
    """
    missing = [pin for pin in pins if cache.lookup(pin.sha256, pin.name) is None]
    errors: list[InspectorError] = []
    rank = 0
    while missing and rank < max(len(pin.sources) for pin in missing):
        for group in _by_archive(missing, rank, remotes).values():
            errors += _fetch_group(group, remotes, progress)
        missing = [pin for pin in missing if cache.lookup(pin.sha256, pin.name) is None]
        rank += 1
    if missing:
        raise _worst(errors, missing)
    return tuple(found for pin in pins if (found := cache.lookup(pin.sha256, pin.name)))


def _by_archive(
    pins: Iterable[Pin], rank: int, remotes: dict[str, Source]
) -> dict[str, list[tuple[Pin, Archive, str]]]:
    groups: dict[str, list[tuple[Pin, Archive, str]]] = defaultdict(list)
    for pin in pins:
        if rank < len(pin.sources):
            archive, member = parse_remote(pin.sources[rank], remotes)
            groups[archive.ref].append((pin, archive, member))
    return groups


def parse_remote(ref: str, remotes: dict[str, Source]) -> tuple[Archive, str]:
    """Split a remote reference; a pinned archive comes with its integrity and size."""
    scheme, _, rest = ref.partition(":")
    archive, member = remotes[scheme].parse(rest)
    return archives().get(archive.ref, archive), member


def _fetch_group(
    group: list[tuple[Pin, Archive, str]], remotes: dict[str, Source], progress: cache.Progress | None
) -> list[InspectorError]:
    """Fetch the members of one archive; give the errors instead of raising, so that the next source is tried."""
    archive = group[0][1]
    errors: list[InspectorError] = []
    with cache.lock(archive.ref):
        wanted = [(pin, member) for pin, _, member in group if cache.lookup(pin.sha256, pin.name) is None]
        if not wanted:
            return errors  # another process fetched them while we waited
        with cache.workspace() as folder:
            try:
                found = remotes[archive.scheme].fetch(archive, [member for _, member in wanted], folder, progress)
            except InspectorError as error:
                return [error]
            for pin, member in wanted:
                try:
                    _keep(pin, archive, member, found.get(member))
                except InspectorError as error:
                    errors.append(error)
    return errors


def _keep(pin: Pin, archive: Archive, member: str, path: Path | None) -> None:
    if path is None:
        raise unavailable(f"{archive.ref} has no member {member!r}", "name a member that it has", ref=archive.ref)
    cache.store(path, pin.sha256, pin.name)


def _worst(errors: list[InspectorError], missing: list[Pin]) -> InspectorError:
    """Join the reasons of all sources into one error; a mismatch anywhere gives the kind."""
    if len(errors) == 1:
        return errors[0]
    mismatched = any(error.kind is ErrorKind.ArtifactMismatch for error in errors)
    names = ", ".join(pin.name for pin in missing)
    reasons = "; ".join(dict.fromkeys(error.message for error in errors))
    return InspectorError(
        ErrorKind.ArtifactMismatch if mismatched else ErrorKind.ArtifactUnavailable,
        f"{names} cannot be had: {reasons or 'no source is listed'}",
        stage="source",
        where={"file": missing[0].name},
        remedy="; or ".join(dict.fromkeys(error.remedy for error in errors if error.remedy)),
    )


def obtain_unpinned(
    ref: str, names: tuple[str, ...], remotes: dict[str, Source], progress: cache.Progress | None
) -> tuple[str, tuple[ArtifactFile, ...]]:
    """Give the files of a reference that no preset pins, and the reference at the version that gave them.

    The member named and, where it is one of `names`, its siblings of those names. What a version gave the first
    time is recorded by hash, and holds from then on (and without a network).
    """
    archive, member = parse_remote(ref, remotes)
    source = remotes[archive.scheme]
    named, (archive, scope) = archive, source.settle(archive)
    pinned = ref if archive == named else archive.ref + (f"!{member}" if member else "")
    key = f"{archive.ref}!{_stem(member, names)}{scope}"
    known = cache.remembered(key)
    if known is not None:
        held = [cache.lookup(sha256, name) for name, sha256 in known.items()]
        if all(held):
            return pinned, tuple(file for file in held if file)
    with cache.lock(archive.ref), cache.workspace() as folder:
        wanted = _members(member, names)
        found = source.fetch(archive, wanted, folder, progress)
        files = tuple(_keep_unpinned(_name_of(name, member), path, known) for name, path in found.items() if path)
    if not files:
        raise unavailable(f"{ref} holds none of {', '.join(wanted)}", "name a member that it has", ref=ref)
    cache.remember(key, {file.name: file.sha256 for file in files})
    return pinned, files


def _name_of(path: str, member: str) -> str:
    """Give the name that a file has beside the named member: additional templates keep their folder."""
    folder = str(PurePosixPath(member).parent) if member else "."
    return path.removeprefix(f"{folder}/") if folder != "." else path


def _keep_unpinned(name: str, path: Path, known: dict[str, str] | None) -> ArtifactFile:
    sha256 = (known or {}).get(name) or cache.sha256_of(path)
    return cache.store(path, sha256, name)


def _members(member: str, names: tuple[str, ...]) -> list[str]:
    path = PurePosixPath(member)
    if not member:
        return list(names)
    return [str(path.parent / name) for name in names] if path.name in names else [member]


def _stem(member: str, names: tuple[str, ...]) -> str:
    path = PurePosixPath(member)
    return f"{path.parent}/[{','.join(names)}]" if not member or path.name in names else member
