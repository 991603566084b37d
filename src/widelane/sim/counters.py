"""What an engine counts over its life, as a server's metrics tell it."""

from __future__ import annotations

from dataclasses import dataclass, field

from widelane.sim.step_run import Member


@dataclass(slots=True)
class Counters:
    """The counts of `Gauges`, while they grow."""

    submitted: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    computed_tokens: int = 0
    output_tokens: int = 0
    prefix_query_tokens: int = 0
    prefix_hit_tokens: int = 0
    drafted_tokens: int = 0
    accepted_by_position: list[int] = field(default_factory=list)
    decode_steps: int = 0
    busy_slot_steps: int = 0
    busy_s: float = 0.0

    def count_decoding(self, batch: int, steps: int, tokens: int) -> None:
        """So many steps of a batch have written so many tokens."""
        self.decode_steps += steps
        self.busy_slot_steps += batch * steps
        self.output_tokens += tokens

    def count_drafts(self, member: Member, first_step: int, end_step: int) -> None:
        """One call's drafted tokens in these steps, and which of them were kept."""
        written = member.written
        if written is None:
            return
        positions = self.accepted_by_position
        self.drafted_tokens += len(positions) * (end_step - first_step)
        joined = member.joined_step
        for step in range(first_step - joined, end_step - joined):
            for position in range(written[step + 1] - written[step] - 1):
                positions[position] += 1
