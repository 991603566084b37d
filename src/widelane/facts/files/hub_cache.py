"""Models in a local Hugging Face cache: `models--org--name/snapshots/<revision>`.

Form: huggingface_hub, "Understand caching".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from widelane.errors import UsageError
from widelane.facts.files.regular_file import read_whole

_FOLDER = re.compile(r"models--(?P<org>.+?)--(?P<name>.+)", re.DOTALL)
_REVISION = re.compile(rb"[\w.-]{1,100}")


def hub_dirs(environ: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Where `huggingface_hub` keeps it: by `HF_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`, else under the home folder."""
    if stated := environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE"):
        return (Path(stated),)
    if stated := environ.get("HF_HOME"):
        return (Path(stated) / "hub",)
    caches = environ.get("XDG_CACHE_HOME")
    return ((Path(caches) if caches else home / ".cache") / "huggingface" / "hub",)


def hub_models(folders: Sequence[Path]) -> dict[str, Path]:
    """`org/name` → its folder, of all models in the caches. A cache that is not there holds none."""
    models: dict[str, Path] = {}
    for folder in folders:
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for path in entries:
            if found := _FOLDER.fullmatch(path.name):
                models.setdefault(f"{found['org']}/{found['name']}", path)
    return models


def find_snapshot(text: str, models: Mapping[str, Path]) -> Path | None:
    """The files of the model that `text` names, with or without the organisation, in any case.

    None when it is not in the cache, or nothing of it was fetched.

    Raises:
        UsageError: several organisations have a model of this name.
    """
    names = names_meant(text, models)
    if len(names) > 1:
        raise UsageError(f"{text!r} is not one model: {', '.join(names)} are in the local cache. Name one of them.")
    return _snapshot(models[names[0]]) if names else None


def names_meant(text: str, names: Iterable[str]) -> list[str]:
    """Those of the full names that `text` stands for."""
    wanted = text.lower()
    return [name for name in names if wanted in (name.lower(), name.lower().partition("/")[2])]


def hub_name(path: Path) -> str | None:
    """`org/name` of a file or folder in the cache, None for any other path."""
    for folder in (path, *path.parents):
        if found := _FOLDER.fullmatch(folder.name):
            return f"{found['org']}/{found['name']}"
    return None


def _snapshot(folder: Path) -> Path | None:
    """The snapshot that `main` points to, else the newest."""
    main, snapshots = folder / "refs" / "main", folder / "snapshots"
    if main.is_file():
        revision = read_whole(main, limit_bytes=1000).strip()
        # A name, never a path: it comes from a file.
        if _REVISION.fullmatch(revision) and revision.strip(b".") and (snapshots / revision.decode()).is_dir():
            return snapshots / revision.decode()
    found = [path for path in snapshots.glob("*") if path.is_dir()]
    return max(found, key=lambda path: (path.stat().st_mtime, path.name), default=None)
