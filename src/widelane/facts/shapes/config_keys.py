"""A model's config read key by key: each value checked where it enters, and every key that was not read remembered.

One idea has many spellings (`num_hidden_layers`, `n_layer`, …): readers take all of them, the usual one first. `null`
counts as absent, as the libraries that write these files mean it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from widelane.errors import UnreadableModel

MAX_LAYERS = 4096
"""Layers of a stack; the deepest published ones have under 200. Guards lists made by layer."""
_MAX_SIZE = 1 << 40
"""No dimension or count of a model comes near it; a larger one is damage."""
_SHOWN = 60
"""Characters of a bad value that a message repeats."""

_SHAPES = re.compile(
    r"(^|_)(num|dim|dims|size|sizes|rank|heads?|layers?|blocks?|types?|pattern|interval|period|offset|experts?|window"
    r"|kernel|groups|width|freq|latent|state|lora|mtp|kv|moe|mlp|ffn|attn|attention|conv|ssm|mamba|linear)(_|$)"
)
_HARMLESS = re.compile(
    r"rope|rotary|token|dropout|pdrop|norm|init|scal|multiplier|eps|bias|loss|aux|router|jitter|softcap|std|beam|return"
    r"|output_|pretraining|time_step|chunk_size|logits|max_pos|position|vision|image|video|audio|vocab_size_per|batch"
    r"|dtype|_act$|act_|activation|kernels|scan|mambapy|temperature|topk|top_k|n_group|_group$|alibi|overlap|summary"
    r"|finetuning|problem_type|cross|tie_|mup|model_type|implementation|_theta|seq_aux|expand$|max_window|ep_size"
    r"|pad_|sparsity|coef|floor|prefix|parallel|method|func|limit|gate|clip|block_size|quant|cache|fused|combine"
    r"|transformers|attn_temperature|floor_scale|interleave_sliding|mrope|deepstack|spatial|temporal|mm_|use_|_factor$"
    r"|chunk_length|no_repeat|model_base|strategy|_fn$|encoder|input_size_mult|attention_type"
)
"""Words of keys that say nothing of the shape (rates, ids, training, towers), though they look like sizes."""


class ConfigKeys:
    """Reads one level of a config.

    Attributes:
        source: file or name that messages point to.
        assumed: sentences on what was not stated or not understood; readers append, `ModelFacts.assumed` ends with it.
    """

    def __init__(
        self, config: Mapping[str, object], *, source: str, path: str = "", assumed: list[str] | None = None
    ) -> None:
        self.source = source
        self.assumed: list[str] = [] if assumed is None else assumed
        self._config = config
        self._path = path
        self._read: set[str] = set()

    def integer(self, *names: str) -> int:
        """The first of these keys that is stated. Raises UnreadableModel when none is."""
        value = self.maybe(*names)
        if value is None:
            others = f" (or {', '.join(f'`{self._path}{name}`' for name in names[1:])})" if names[1:] else ""
            raise UnreadableModel(
                f"{self.source} does not state `{self._path}{names[0]}`{others}, and without it the model's shape is "
                "unknown. Give the complete config.json of the model, or its GGUF file."
            )
        return value

    def maybe(self, *names: str) -> int | None:
        """The first of these keys that is stated, None when none is; `"auto"` counts as not stated.

        Raises UnreadableModel when it is no count.
        """
        for name in names:
            value = self._take(name)
            if value is not None and value != "auto":
                return self._count(name, value)
        return None

    def per_layer(self, names: Sequence[str], layers: int, *, first_will_do: bool = False) -> tuple[int, ...] | None:
        """One value a layer: a list as it is, a single number for all of them; None when not stated.

        Args:
            first_will_do: a list that is too short gives its first value to all layers, and the facts say so.
        """
        for name in names:
            value = self._take(name)
            if value is None:
                continue
            if not isinstance(value, Sequence) or isinstance(value, str):
                return (self._count(name, value),) * layers
            counts = tuple(self._count(name, item) for item in value)
            if first_will_do and counts and len(counts) < layers:
                self.assume(f"`{self._path}{name}` lists {len(counts)} values: the first was taken for all layers.")
                return counts[:1] * layers
            if len(counts) < layers:
                raise UnreadableModel(
                    f"{self.source}: `{self._path}{name}` lists {len(counts)} values for {layers} layers."
                )
            return counts[:layers]
        return None

    def integers(self, *names: str) -> tuple[int, ...] | None:
        """A list of counts, as long as it is; None when not stated."""
        for name in names:
            value = self._take(name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                return tuple(self._count(name, item) for item in value)
            if value is not None:
                return (self._count(name, value),)
        return None

    def words(self, *names: str) -> tuple[str, ...] | None:
        """A list of words; None when not stated or not a list of words."""
        for name in names:
            value = self._take(name)
            if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(w, str) for w in value):
                return tuple(str(word) for word in value)
        return None

    def text(self, *names: str) -> str | None:
        """A word; None when not stated."""
        for name in names:
            value = self._take(name)
            if isinstance(value, str):
                return value
        return None

    def flag(self, *names: str) -> bool | None:
        """A yes or no; None when not stated."""
        for name in names:
            value = self._take(name)
            if isinstance(value, bool):
                return value
        return None

    def number(self, name: str) -> float | None:
        """A rate or factor; None when not stated. Raises UnreadableModel when it is out of all reason."""
        value = self._take(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        if not -_MAX_SIZE < value < _MAX_SIZE:  # nor NaN
            raise UnreadableModel(f"{self.source}: `{self._path}{name}` is {value!r:.60}, where a number was expected.")
        return float(value)

    def section(self, *names: str) -> ConfigKeys | None:
        """A nested object; None when not stated."""
        for name in names:
            value = self._take(name)
            if isinstance(value, Mapping):
                return ConfigKeys(value, source=self.source, path=f"{self._path}{name}.", assumed=self.assumed)
        return None

    def first_section(self) -> ConfigKeys | None:
        """The first nested object, whatever its name; None when there is none."""
        return self.section(*(name for name, value in self._config.items() if isinstance(value, Mapping)))

    def sections(self, name: str) -> tuple[ConfigKeys, ...] | None:
        """A list of nested objects; None when not stated or not such a list."""
        value = self._take(name)
        if not isinstance(value, Sequence) or isinstance(value, str) or not value or len(value) > MAX_LAYERS:
            return None
        if not all(isinstance(item, Mapping) for item in value):
            return None
        return tuple(
            ConfigKeys(item, source=self.source, path=f"{self._path}{name}[{i}].", assumed=self.assumed)
            for i, item in enumerate(value)
        )

    def states(self, *names: str) -> bool:
        """Whether one of these keys is there and not null. Does not count as read."""
        return any(self._config.get(name) is not None for name in names)

    def acknowledge(self, *names: str) -> None:
        """Count these keys as understood: another key that was read says the same."""
        self._read.update(names)

    def assume(self, sentence: str) -> None:
        """Note what was assumed, once."""
        if sentence not in self.assumed:
            self.assumed.append(sentence)

    def not_understood(self) -> tuple[str, ...]:
        """Keys that look like a part of the shape and that nobody read."""
        return tuple(
            f"{self._path}{name}"
            for name, value in self._config.items()
            if name not in self._read and self._tells_a_shape(name, value)
        )

    def _tells_a_shape(self, name: str, value: object) -> bool:
        if value is None or isinstance(value, bool | float) or value in (0, 1, -1, "", [], {}):
            return False
        return not name.startswith("_") and bool(_SHAPES.search(name)) and not _HARMLESS.search(name)

    def _take(self, name: str) -> object:
        self._read.add(name)
        return self._config.get(name)

    def _count(self, name: str, value: object) -> int:
        whole = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(whole, bool) or not isinstance(whole, int) or not 0 <= whole < _MAX_SIZE:
            shown = repr(value)[:_SHOWN]
            raise UnreadableModel(f"{self.source}: `{self._path}{name}` is {shown}, where a count was expected.")
        return whole
