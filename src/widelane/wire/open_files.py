"""The process's limit for open files, raised before a wide run needs it: one socket a stream."""

from __future__ import annotations

from widelane.errors import OpenFilesLimit

_SPARE = 64
"""Standard streams, the event loop, the store, log files, libraries."""


def raise_open_files_limit(needed: int) -> None:
    """Makes room for `needed` connections at once, by raising the soft limit where it is too low.

    Where the system has no such limit (Windows) nothing is done.

    Raises:
        OpenFilesLimit: the hard limit is too low; the message says what to set.
    """
    try:
        import resource
    except ImportError:
        return
    files = needed + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= files:
        return
    if hard != unlimited and hard < files:
        raise OpenFilesLimit(
            f"{needed} connections at once need {files} open files; the hard limit of this process is {hard}.",
            hint=f"Raise it (ulimit -Hn {files}, or LimitNOFILE={files} in a systemd unit), or use a smaller width.",
        )
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    except (ValueError, OSError) as error:  # macOS caps the soft limit below an unlimited hard one
        raise OpenFilesLimit(
            f"{needed} connections at once need {files} open files; {soft} are allowed, and no more: {error}.",
            hint=f"Raise it (ulimit -n {files}), or use a smaller width.",
        ) from error
