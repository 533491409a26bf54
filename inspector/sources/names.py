"""The names of files that are ever asked for, read or taken from a visitor, with the size that each may have.

A name outside these lists is refused before any network or disk access, so that neither a repository nor a visitor
chooses what is opened.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from inspector.errors import ErrorKind, InspectorError
from inspector.tokenizers.config import ADDITIONAL_TEMPLATES

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
TEMPLATE_FILES = ("chat_template.jinja", "tokenizer_config.json", "chat_template.json", "processor_config.json")
VOCABULARY_FILES = ("tekken.json", "tokenizer.model", "vocab.txt", "vocab.json", "merges.txt", "tokenizer_config.json",
                    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja")  # fmt: skip
MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json")
UPLOAD_FILES = tuple(
    sorted({*TOKENIZER_FILES, *TEMPLATE_FILES, *VOCABULARY_FILES, *MODEL_FILES} - {"model.safetensors"})
)
_TEMPLATE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\.jinja")
_OTHER_NAME = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\.(?:jinja|gguf|tiktoken|model(?:\.v[0-9]+(?:m[0-9]+)?)?)|rwkv_vocab[A-Za-z0-9._-]{0,64}\.txt|tekken_[0-9]{1,12}\.json"
)
_MB = 1 << 20
_LARGE = (".safetensors", ".gguf")


def is_known_name(name: str) -> bool:
    """Say whether a file of this name, without its folder, is one that this tool reads.

    >>> is_known_name("tokenizer.json"), is_known_name("o200k_base.tiktoken"), is_known_name("pytorch_model.bin")
    (True, True, False)
    """
    known = name in UPLOAD_FILES or name in MODEL_FILES
    return known or _OTHER_NAME.fullmatch(name) is not None or _SHARD.fullmatch(name) is not None


_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")


def is_template_name(name: str) -> bool:
    """Say whether a file of `additional_chat_templates/` has a name that is taken."""
    return _TEMPLATE_NAME.fullmatch(name) is not None


def check_upload_name(name: str) -> None:
    """Check the path of a file that a visitor gave.

    Errors: FileNameInvalid with the list of names.
    """
    folder, _, last = name.rpartition("/")
    known = last in UPLOAD_FILES or _OTHER_NAME.fullmatch(last)
    if folder == ADDITIONAL_TEMPLATES.rstrip("/") and is_template_name(last):
        return
    if folder or not known:
        raise unknown_name(name)


def unknown_name(name: str) -> InspectorError:
    """Build the error of a name outside the lists."""
    return InspectorError(
        ErrorKind.FileNameInvalid,
        f"{name[:120]!r} is not a file that this tool reads",
        stage="source",
        where={"file": name[:200]},
        remedy=f"give {', '.join(UPLOAD_FILES)}, {ADDITIONAL_TEMPLATES}NAME.jinja, or a .jinja, .gguf, .tiktoken or "
        ".model file",
    )


def size_limit(name: str) -> int:
    """Give the largest size in bytes that a file of this name may have when it is fetched."""
    last = PurePosixPath(name).name
    if last.endswith(_LARGE):
        return 8192 * _MB
    return 16 * _MB if last.endswith((".jinja", "config.json")) else 64 * _MB


def check_member_size(ref: str, member: str, size: int) -> None:
    """Refuse a member of an archive that unpacks to more than a file of its name may have.

    Errors: InputTooLarge.
    """
    if size > size_limit(member):
        raise InspectorError(
            ErrorKind.InputTooLarge,
            f"{member[:200]} of {ref} has {size:,} bytes, the limit is {size_limit(member):,}",
            stage="source",
            where={"ref": ref[:200]},
            remedy="fetch it yourself and use folder:PATH",
        )


def looks_like_html(data: bytes) -> bool:
    """Say whether the first bytes are those of a web page: a login form or a captive portal instead of the file."""
    head = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return head.startswith((b"<!doctype html", b"<html", b"<head"))


def html_instead(name: str, **where: str) -> InspectorError:
    """Build the error of a web page that came under a file's name."""
    return InspectorError(
        ErrorKind.TokenizerInvalid,
        f"{name} looks like an HTML page, not like the file",
        stage="source",
        where={"file": name, **where},
        remedy="a login page, an error page or a captive portal answered in its place: sign in there, or fetch it again",
    )


def looks_like_lfs_pointer(data: bytes) -> bool:
    """Say whether the bytes are the few lines that Git leaves in place of a large file."""
    return data.startswith(b"version https://git-lfs.github.com/spec/")


def pointer_instead(name: str, **where: str) -> InspectorError:
    """Build the error of a Git LFS pointer that lies under a file's name."""
    return InspectorError(
        ErrorKind.TokenizerInvalid,
        f"{name} is a Git LFS pointer, not the file itself",
        stage="source",
        where={"file": name, **where},
        remedy="run git lfs pull in the repository that it comes from, or download the file itself",
    )
