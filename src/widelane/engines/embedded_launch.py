"""What the embedded server is started with: chosen here, applied by the child, and shown as a `llama-server` line.

Pure: values in, values out.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from widelane.engines.embedded_child import REASONING_FORMATS
from widelane.errors import UsageError

HOST: Final = "127.0.0.1"
MAX_SLOTS: Final = 256  # LLAMA_MAX_SEQ in llama.cpp
KV_TYPES: Final = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")

# Context of one slot when only the number of slots is given. The pool is bounded, because llama.cpp allocates all
# of it at start: 65536 tokens are 1.5 GB with the default model (23040 bytes a token, f16).
SLOT_CONTEXT_TOKENS: Final = 2048
SMALLEST_SLOT_CONTEXT_TOKENS: Final = 512
POOL_TOKENS: Final = 65536

# llama.cpp keeps the state of idle slots in memory, by default up to 8 GiB. That much is too much beside a sweep
# that never asks the same thing twice.
CACHE_RAM_MIB: Final = 512
# With 4 the start log tells the KV types and whether the pool is shared; at the usual 3 it no longer does (b11549).
VERBOSITY: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedLaunch:
    """One start of the embedded server, as resolved.

    Attributes:
        model: the GGUF file.
        threads: compute threads.
        slots: `-np`; None leaves it to llama.cpp, which then takes 4 slots and one shared KV pool.
        context: `-c`, tokens of the whole pool; 0 means the model's own.
        unified: one KV pool for all slots; None is llama.cpp's default: shared without `slots`, split with.
        kv_type: of both K and V.
        port: 0 lets the system pick a free one.
        reasoning_format: `none`, `deepseek`, …; None is llama.cpp's default.
        slot_save_dir: where `POST /slots/0?action=save` writes; None turns it off.
    """

    model: Path
    threads: int
    slots: int | None = None
    context: int = 0
    unified: bool | None = None
    kv_type: str = "f16"
    port: int = 0
    endpoint_slots: bool = True
    endpoint_metrics: bool = True
    chat_template: str | None = None
    reasoning_format: str | None = None
    slot_save_dir: Path | None = None

    def __post_init__(self) -> None:
        _require_possible(self.slots)
        if self.context < 0:
            raise UsageError(f"A context of {self.context} tokens makes no sense; 0 means the model's own.")
        if self.threads < 1:
            raise UsageError(f"The embedded server needs at least 1 thread, not {self.threads}.")
        if self.kv_type not in KV_TYPES:
            raise UsageError(f"llama.cpp has no KV type {self.kv_type!r}. It has: {', '.join(KV_TYPES)}.")
        if self.reasoning_format is not None and self.reasoning_format not in REASONING_FORMATS:
            raise UsageError(
                f"llama.cpp has no reasoning format {self.reasoning_format!r}. It has: {', '.join(REASONING_FORMATS)}."
            )

    def settings(self) -> dict[str, Any]:
        """What the child sets, by the names it knows (see `embedded_child`)."""
        return {
            "model": str(self.model),
            "alias": self.model.stem,
            "threads": self.threads,
            "slots": self.slots if self.slots is not None else -1,
            "context": self.context,
            "unified": self.unified,
            "kv_type": self.kv_type,
            "port": self.port,
            "endpoint_slots": self.endpoint_slots,
            "endpoint_metrics": self.endpoint_metrics,
            "chat_template": self.chat_template,
            "reasoning_format": self.reasoning_format,
            "slot_save_dir": None if self.slot_save_dir is None else str(self.slot_save_dir),
            "cache_ram_mib": CACHE_RAM_MIB,
            "verbosity": VERBOSITY,
        }

    def command(self, port: int) -> str:
        """The `llama-server` command that starts the same server on `port`; only its log is less verbose."""
        words = ["llama-server", "-m", str(self.model), "--alias", self.model.stem, "--host", HOST, "--port", str(port)]
        words += ["-t", str(self.threads), "-tb", str(self.threads)]
        if self.slots is not None:
            words += ["-np", str(self.slots)]
        if self.context:
            words += ["-c", str(self.context)]
        if self.unified is not None:
            words.append("--kv-unified" if self.unified else "--no-kv-unified")
        if self.kv_type != "f16":
            words += ["-ctk", self.kv_type, "-ctv", self.kv_type]
        if self.endpoint_metrics:
            words.append("--metrics")
        if not self.endpoint_slots:
            words.append("--no-slots")
        if self.chat_template is not None:
            words += ["--chat-template", self.chat_template]
        if self.reasoning_format is not None:
            words += ["--reasoning-format", self.reasoning_format]
        if self.slot_save_dir is not None:
            words += ["--slot-save-path", str(self.slot_save_dir)]
        words += ["--cache-ram", str(CACHE_RAM_MIB)]
        return shlex.join(words)


def default_context(slots: int | None) -> int:
    """Tokens for `-c` when nothing is said: the model's own (0) without slots, else a share for each slot.

    A slot gets 2048 tokens up to 32 slots, then an equal share of 65536, and never less than 512.

    >>> default_context(16), default_context(64), default_context(256)
    (32768, 65536, 131072)
    """
    _require_possible(slots)
    if slots is None:
        return 0
    share = POOL_TOKENS // slots // 256 * 256  # llama.cpp rounds a slot's context up to a multiple of 256
    return slots * min(SLOT_CONTEXT_TOKENS, max(SMALLEST_SLOT_CONTEXT_TOKENS, share))


def default_threads(cores: int) -> int:
    """Compute threads when nothing is said: 1 on up to 4 cores, else all but two.

    llama.cpp's threads spin while they wait for each other: as soon as one of them has to share its core, all wait.
    Measured on 2 busy cores: 2 threads gave 0.3 tok/s where 1 gave 26. The two cores left are for the client and
    the system.
    """
    return 1 if cores <= 4 else cores - 2


def _require_possible(slots: int | None) -> None:
    if slots is not None and not 1 <= slots <= MAX_SLOTS:
        raise UsageError(f"The embedded server can have 1 to {MAX_SLOTS} slots, not {slots}.")
