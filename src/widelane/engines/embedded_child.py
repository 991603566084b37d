"""The process that holds the embedded llama.cpp server: `python -m widelane.engines.embedded_child`.

It reads one line of JSON from stdin, starts the server on a free port, writes one line of JSON to stdout and then
only waits. What llama.cpp logs goes to stderr. It ends

* on SIGTERM, at once: nothing here needs saving, and while a model loads no Python code could run;
* when its parent ends, however that happens. On Linux the kernel sees to it (PR_SET_PDEATHSIG). Everywhere stdin is
  a life line too: the parent holds its other end, and end of file means that the parent is gone. That is seen by a
  Python thread, so while a model is still loading (llama.cpp then holds the interpreter) only afterwards.

Attributes of `CommonParams` differ between versions of xllamacpp: those that not every version has are set where
they exist.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
# common_reasoning_format in llama.cpp's common.h, in its order: the enumeration itself is incomplete in older wrappers.
REASONING_FORMATS: Final = ("none", "auto", "deepseek-legacy", "deepseek")


def main() -> None:
    """Serve until the parent or a signal ends it."""
    config = json.loads(sys.stdin.buffer.readline())
    end_with_parent(int(config["parent_pid"]), sys.stdin.fileno())
    report = take_stdout()
    import xllamacpp

    params = xllamacpp.CommonParams()
    apply(params, config["settings"], xllamacpp)
    server = xllamacpp.Server(params)
    # Older wrappers catch these and then do nothing with them.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.write(report, json.dumps({"url": server.listening_address, "version": xllamacpp.__version__}).encode() + b"\n")
    os.close(report)
    threading.Event().wait()


def end_with_parent(parent_pid: int, life_line: int) -> None:
    """From now on this process ends when its parent does; `life_line` is a descriptor that reads end of file then."""
    if sys.platform == "linux":
        # The signal comes when the *thread* that started this process ends: the parent starts it from one that stays.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it was gone before the line above
        os._exit(1)
    threading.Thread(target=_end_at_end_of_file, args=(life_line,), daemon=True).start()


def _end_at_end_of_file(life_line: int) -> None:
    # Not through a file object: the interpreter's exit would stumble over its lock, held by this thread.
    while os.read(life_line, 1):
        pass
    os._exit(0)


def take_stdout() -> int:
    """The descriptor to report on. What anything else prints to stdout goes to the log instead."""
    report = os.dup(1)
    os.dup2(2, 1)
    return report


def apply(params: Any, settings: Mapping[str, Any], xllamacpp: Any) -> None:
    """Set llama.cpp's parameters. `n_parallel` -1 is its own rule: 4 slots and one shared KV pool."""
    params.model.path = settings["model"]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.port = settings["port"]
    if settings["unified"] is not None:
        params.kv_unified = settings["unified"]
    kv_type = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{settings['kv_type'].upper()}")
    params.cache_type_k = kv_type
    params.cache_type_v = kv_type
    params.endpoint_slots = settings["endpoint_slots"]
    params.endpoint_metrics = settings["endpoint_metrics"]
    if settings["chat_template"] is not None:
        params.chat_template = settings["chat_template"]
    if settings["reasoning_format"] is not None:
        params.reasoning_format = REASONING_FORMATS.index(settings["reasoning_format"])
    if settings["slot_save_dir"] is not None:
        params.slot_save_path = settings["slot_save_dir"].rstrip("/") + "/"
    params.cache_ram_mib = settings["cache_ram_mib"]
    params.model_alias = {settings["alias"]}
    if hasattr(params, "hostnames"):
        params.hostnames = ["127.0.0.1"]
        params.verbosity = settings["verbosity"]
    else:
        # Versions with one `hostname` (May 2026 and before) tell at 3 what the newer ones tell at 4, and at 4 log
        # every token.
        params.hostname = "127.0.0.1"


if __name__ == "__main__":
    main()
