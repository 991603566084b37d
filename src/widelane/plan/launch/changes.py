"""What changed between versions of an engine, and when: flag names, defaults, and the words that a flag takes.

Advice on a running server and launch commands both read from here. A border says the first version that has the new
form; where only the date is known it lies a little late, so that an old server never gets a flag that it refuses.
An unknown version counts as the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from widelane.plan.launch.versions import build_of, version_of

CHECKED_ON: Mapping[str, str] = {
    "llama.cpp": "b11549",
    "vllm": "0.32.0",
    "sglang": "source of 0.5.23",
    "ollama": "source of 2026-08-21",
}
"""Version of each engine on which the flags were seen to work, or whose source names them."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        engine: whose.
        since: first release that has it; a llama.cpp build is a tuple of one number.
        what: what is new, in words that end a sentence "since …".
        source: where this is known from.
    """

    engine: str
    since: tuple[int, ...]
    what: str
    source: str

    @property
    def since_text(self) -> str:
        """The border as a person writes it."""
        return f"b{self.since[0]}" if self.engine == "llama.cpp" else ".".join(map(str, self.since))

    def is_in(self, version: str | None) -> bool:
        """Whether a server of this version has it. Builds by hand (`b0-unknown`) and unknown versions count as new."""
        if self.engine == "llama.cpp":
            build = build_of(version)
            return not build or build >= self.since[0]
        numbers = version_of(version)
        return numbers is None or numbers >= self.since


CONTEXT_SHIFT_OFF = Change(
    "llama.cpp", (6310,), "a prompt that does not fit is refused by default", "pull request 15416, August 2025"
)
FLASH_ATTENTION_VALUE = Change("llama.cpp", (6330,), "-fa takes a value", "pull request 15434, August 2025")
KV_UNIFIED_FLAG = Change(
    "llama.cpp", (5920,), "the slots' caches are split unless --kv-unified is given", "pull request 14363, July 2025"
)
AUTOMATIC_SLOTS = Change(
    "llama.cpp", (6930,), "no -np means 4 slots that share one pool", "pull request 16736, November 2025"
)
ONE_SLOT_HONOURED = Change(
    "llama.cpp", (7420,), "-np 1 means one slot, not the automatic 4", "pull request 17997, December 2025"
)
JINJA_DEFAULT = Change(
    "llama.cpp", (7420,), "the chat template of the file is used by default", "pull requests 17524, 17911, late 2025"
)
SPEC_FLAGS = Change(
    "llama.cpp", (8970,), "speculative decoding is set by --spec-… flags", "pull request 22397, April 2026"
)
SPEC_DRAFT_TYPES = Change(
    "llama.cpp", (9150,), "a draft model needs --spec-type draft-simple", "pull request 22964, May 2026"
)
SPEC_MTP = Change("llama.cpp", (9180,), "--spec-type draft-mtp uses the model's own head", "pull request 22673")
KV_PER_SLOT = Change(
    "llama.cpp", (10500,), "--kv-unified-per-slot bounds a slot of a shared pool", "pull request 24124, July 2026"
)

NO_ENABLE_REASONING = Change("vllm", (0, 9), "--reasoning-parser needs no --enable-reasoning", "documentation of 0.8")
SPECULATIVE_CONFIG = Change(
    "vllm", (0, 8, 3), "speculation is one JSON object, --speculative-config", "pull requests 14434, 15466"
)
DRAFT_MODEL_AGAIN = Change("vllm", (0, 15), "the V1 engine takes a draft model", "documentation of 0.15")
MTP_NAME = Change("vllm", (0, 11, 1), 'every draft head is method "mtp"', "pull request 25232, September 2025")
CODER_PARSER = Change("vllm", (0, 10), "tool parser qwen3_coder", "documentation of 0.10")
XML_PARSER = Change("vllm", (0, 11, 1), "tool parser qwen3_xml", "pull request 25028, September 2025")
GLM47_PARSER = Change("vllm", (0, 14), "parsers glm47", "documentation of 0.14")
GEMMA4_PARSER = Change("vllm", (0, 19), "parsers gemma4", "documentation of 0.19")
STATE_DTYPE_16 = Change(
    "vllm",
    (0, 17),
    "--mamba-ssm-cache-dtype takes float16",
    "checked on 0.17.1, 0.20.2, 0.21.0, 0.26.0, 0.27.1, 0.32.0 and 0.33.0; the flag of 0.10.2 took only float32",
)
STATE_DTYPE_CHECKED = "0.17.1, 0.20.2, 0.21.0, 0.26.0, 0.27.1, 0.32.0, 0.33.0"
"""Versions on which `--mamba-ssm-cache-dtype float16` was seen to halve the state."""
HYBRID_PREFIX_CACHE = Change(
    "vllm", (0, 17), "the prefix cache works for hybrid models with draft heads too", "pull request 25752 and later"
)
PREFIX_CACHE_DEFAULT = Change("vllm", (0, 8), "the prefix cache is on for models of attention only", "the V1 engine")

CONTEXT_LENGTH_ENVIRON = Change(
    "ollama", (0, 5, 13), "OLLAMA_CONTEXT_LENGTH sets the context of every model", "release notes of 0.5.13"
)
KV_TYPE_ENVIRON = Change("ollama", (0, 5), "OLLAMA_KV_CACHE_TYPE sets the cache's type", "release notes of 0.5.0")


def flash_attention_words(version: str | None) -> tuple[str, ...]:
    """How llama.cpp is told to use flash attention."""
    return ("-fa", "on") if FLASH_ATTENTION_VALUE.is_in(version) else ("-fa",)


def draft_settings(version: str | None, model: str, depth: int) -> dict[str, str]:
    """How llama.cpp of this version is told to draft with a small model: settings by name (see `flags`)."""
    settings = {"draft_model": model, "draft_max": str(depth)}
    return {"spec_type": "draft-simple", **settings} if SPEC_DRAFT_TYPES.is_in(version) else settings


def draft_spellings(version: str | None) -> Mapping[str, str]:
    """The spelling that a llama.cpp of this version takes, by setting, for those that were renamed."""
    if SPEC_FLAGS.is_in(version):
        return {"draft_model": "--spec-draft-model", "draft_max": "--spec-draft-n-max"}
    return {"draft_model": "-md", "draft_max": "--draft-max"}


def no_draft_model(engine: str, version: str | None) -> str | None:
    """Why this engine and version drafts with no model of one's own, None where it does."""
    if engine == "ollama":
        return "Ollama takes no draft model"
    if engine == "vllm" and SPECULATIVE_CONFIG.is_in(version) and not DRAFT_MODEL_AGAIN.is_in(version):
        return f"{DRAFT_MODEL_AGAIN.what} since {DRAFT_MODEL_AGAIN.since_text}; {version} is older"
    return None


def mtp_method(version: str | None, architecture: str) -> str:
    """The name under which vLLM of this version drafts with the model's own head."""
    if MTP_NAME.is_in(version):
        return "mtp"
    family = architecture.lower().replace("-", "_")
    return next((method for method, starts in _MTP_METHODS.items() if family.startswith(starts)), "mtp")


_MTP_METHODS: Mapping[str, tuple[str, ...]] = {
    "deepseek_mtp": ("deepseek",),
    "qwen3_next_mtp": ("qwen3_next",),
    "glm4_moe_mtp": ("glm4_moe", "glm_4"),
    "mimo_mtp": ("mimo",),
    "ernie_mtp": ("ernie",),
}
"""Older methods of vLLM, by how the model's architecture or name begins."""
