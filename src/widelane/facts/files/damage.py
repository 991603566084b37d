"""What is said of a model file that is not whole."""

from __future__ import annotations

from pathlib import Path

from widelane.errors import UnreadableModel


def damaged(path: Path, fault: str) -> UnreadableModel:
    """The error for a file whose content cannot be right."""
    return UnreadableModel(f"{path} is damaged: {fault}.\nFetch it again.")


def cut_off(path: Path, name: str, *, end: int, data_bytes: int) -> UnreadableModel:
    """The error for a file that ends before its tensor `name` does.

    Args:
        end: where it should end, in bytes from the start of the weights.
        data_bytes: bytes of weights that are there.
    """
    return UnreadableModel(
        f"{path} is cut off: its tensor {shown(name)} ends {end:,} bytes into the weights, "
        f"of which {data_bytes:,} bytes are there.\nIt was not fetched whole, or is damaged: fetch it again."
    )


def shown(name: str) -> str:
    """A name from a file as a message may show it: quoted, on one line, not endless."""
    return repr(name if len(name) <= 80 else f"{name[:79]}…")
