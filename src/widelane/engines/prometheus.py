"""Prometheus and OpenMetrics text → samples that can be asked by name.

Engines rename their metrics over time, write `vllm:` or `vllm_`, and add `_total` to counters or not; a question may
therefore list several names, and `:` and `_` mean the same.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:.]*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line: `name{labels} value`."""

    name: str
    labels: Mapping[str, str]
    value: float


class Samples:
    """All samples of one reply."""

    __slots__ = ("_by_name",)

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_name: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            self._by_name[_plain(sample.name)].append(sample)

    def __len__(self) -> int:
        return sum(len(samples) for samples in self._by_name.values())

    def __iter__(self) -> Iterator[Sample]:
        for samples in self._by_name.values():
            yield from samples

    def has_prefix(self, prefix: str) -> bool:
        """Whether any name begins so."""
        return any(name.startswith(_plain(prefix)) for name in self._by_name)

    def named(self, *names: str) -> list[Sample]:
        """Samples of the first of the names that there is, `_total` added or not."""
        for name in names:
            bare = _plain(name).removesuffix("_total")
            for spelling in (_plain(name), bare, f"{bare}_total"):
                if spelling in self._by_name:
                    return self._by_name[spelling]
        return []

    def total(self, *names: str, **labels: str) -> float | None:
        """Sum over the samples (several engines behind one server report one each), None when there is none."""
        values = [sample.value for sample in self.named(*names) if labels.items() <= sample.labels.items()]
        return sum(values) if values else None

    def highest(self, *names: str) -> float | None:
        """Largest value, for shares that do not add up."""
        return max((sample.value for sample in self.named(*names)), default=None)

    def by_label(self, label: str, *names: str) -> tuple[float, ...]:
        """Sums over the samples of each value of a whole-numbered label, in its order."""
        sums: dict[int, float] = defaultdict(float)
        for sample in self.named(*names):
            if sample.labels.get(label, "").isdigit():
                sums[int(sample.labels[label])] += sample.value
        return tuple(sums[place] for place in sorted(sums))

    def labels(self, *names: str) -> Mapping[str, str]:
        """Labels of the first sample; an `*_info` metric carries its facts there."""
        return next((sample.labels for sample in self.named(*names)), {})


def parse_metrics(text: str) -> Samples:
    """The samples of `text`. A line that cannot be read is left out: one odd line must not hide the rest."""
    lines = (line.strip() for line in text.splitlines())
    read = (_sample(line) for line in lines if line and not line.startswith("#"))
    return Samples(sample for sample in read if sample is not None)


def _sample(line: str) -> Sample | None:
    name = _NAME.match(line)
    if name is None:
        return None
    labels: dict[str, str] = {}
    at = name.end()
    if line[at : at + 1] == "{":
        at += 1
        while label := _LABEL.match(line, at):
            labels[label[1]] = re.sub(r"\\.", lambda match: _ESCAPES.get(match[0], match[0]), label[2])
            at = label.end()
        while line[at : at + 1] == " ":
            at += 1
        if line[at : at + 1] != "}":
            return None
        at += 1
    rest = line[at:].split()  # value, then perhaps a timestamp or an exemplar
    if not rest:
        return None
    try:
        value = float(rest[0])
    except ValueError:
        return None
    return Sample(name[0], labels, value) if math.isfinite(value) else None


def _plain(name: str) -> str:
    return name.replace(":", "_")
