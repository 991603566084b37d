"""How long a call may take at each of its stages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits in seconds; None means no limit. There is none for the whole call.

    Only data events are progress: bytes and comments are not, because servers send them while they do nothing.
    The defaults are generous on purpose: a long prefill, a long queue and a slow machine are no faults.

    Attributes:
        connect_s: until the connection stands.
        first_token_s: from sending the request to the first output, for an empty prompt on an idle server.
        first_token_per_prompt_token_s: added for each token of the prompt (0.02 s = a prefill of 50 tok/s).
        first_token_per_call_s: added for each other call in flight, which may have to be served first.
        output_token_s: added for each token of max_tokens when the reply is not streamed.
        idle_s: between two events of a stream; a long prefill next door pauses it.
        grace_after_finish_s: after the finish reason, for the usage chunk and `[DONE]`.
    """

    connect_s: float | None = 10.0
    first_token_s: float | None = 300.0
    first_token_per_prompt_token_s: float = 0.02
    first_token_per_call_s: float = 5.0
    output_token_s: float = 0.2
    idle_s: float | None = 120.0
    grace_after_finish_s: float = 1.5

    def until_first_token_s(self, prompt_tokens: float, other_calls: int, whole_tokens: int = 0) -> float | None:
        """The limit for the first output of one call; `whole_tokens` is 0 for a streamed one."""
        if self.first_token_s is None:
            return None
        return (
            self.first_token_s
            + self.first_token_per_prompt_token_s * prompt_tokens
            + self.first_token_per_call_s * other_calls
            + self.output_token_s * whole_tokens
        )
