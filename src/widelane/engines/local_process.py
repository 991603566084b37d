"""Which process of this machine owns a server's port: its command line and settings, never its keys.

Only for addresses of this machine. Reading another user's process needs rights that are not asked for: then there is
nothing but a reason, and a pasted launch line says the same. Works where psutil does (Linux, macOS); where the system
does not list other processes' sockets (macOS), the user's own processes are looked through one by one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from widelane.engines.hints import LocalProcess
from widelane.engines.launch_line import is_engine_setting
from widelane.engines.shell_words import Word, without_secrets


@dataclass(frozen=True, slots=True)
class Lookup:
    """The port's owner, or why it is not known."""

    process: LocalProcess | None
    reason: str | None = None


def find_owner(url: str) -> Lookup:
    """The process that listens at `url`, where that is this machine and may be read."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if parts.hostname is None or not is_this_machine(parts.hostname):
        return Lookup(None, f"{parts.hostname} is another machine")
    try:
        pid = _listener(port)
    except psutil.Error as error:
        return Lookup(None, f"the system does not say who owns port {port}: {error}")
    if pid is None:
        return Lookup(None, f"the owner of port {port} belongs to another user or a container")
    try:
        return Lookup(_read(psutil.Process(pid)))
    except psutil.Error as error:
        return Lookup(None, f"process {pid} owns port {port} and may not be read: {error}")


def is_this_machine(host: str) -> bool:
    """Whether `host` is a loopback name or an address of one of this machine's interfaces. Asks no name server."""
    if host.lower() in ("localhost", "localhost.localdomain", socket.gethostname().lower()):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    own = (entry.address.partition("%")[0] for entries in psutil.net_if_addrs().values() for entry in entries)
    return str(address) in own


def _listener(port: int) -> int | None:
    try:
        found = _listening(psutil.net_connections("tcp"), port)
        return found or None
    except (psutil.AccessDenied, PermissionError):
        pass
    for process in psutil.process_iter():
        try:
            if _listening(process.net_connections("tcp"), port) is not None:
                return process.pid
        except (psutil.Error, OSError):  # gone meanwhile, or another user's
            continue
    return None


def _listening(connections: Iterable[object], port: int) -> int | None:
    """The owner's process id among the connections, 0 when one listens and names none."""
    for connection in connections:
        address = getattr(connection, "laddr", None)
        listens = getattr(connection, "status", None) == psutil.CONN_LISTEN
        if listens and address and address.port == port:
            return getattr(connection, "pid", None) or 0
    return None


def _read(process: psutil.Process) -> LocalProcess:
    children = process.children(recursive=True)
    return LocalProcess(
        pid=process.pid,
        argv=_shown(process.cmdline()),
        environ=_environ(process),
        children=tuple(argv for argv in map(_child_argv, children) if argv),
    )


def _child_argv(process: psutil.Process) -> tuple[str, ...]:
    try:
        return _shown(process.cmdline())
    except psutil.Error:
        return ()


def _shown(argv: list[str]) -> tuple[str, ...]:
    return tuple(word.value for word in without_secrets([Word.of(value) for value in argv]))


def _environ(process: psutil.Process) -> Mapping[str, str] | None:
    try:
        environ = process.environ()
    except (psutil.Error, OSError):
        return None
    return {name: value for name, value in environ.items() if is_engine_setting(name)}
