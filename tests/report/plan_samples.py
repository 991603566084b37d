"""Plans for the tests, made by hand: a dense hybrid, a mixture of experts, one that is not known, one too large.

The figures are invented but of the size of real ones; nothing here is computed by the product.
"""

from __future__ import annotations

from typing import Any

from widelane.figures import Figure, Origin, unknown
from widelane.plan.report import (
    Argument,
    Buys,
    DeviceSummary,
    KvPoolPlan,
    LaunchPlan,
    LeftOut,
    Lever,
    MemoryPart,
    ModelSummary,
    PlanReport,
    PrefillPoint,
    Recommendation,
    SequencesThatFit,
    StepPoint,
    Use,
    WidthPlan,
)

NO_BANDWIDTH = "no bandwidth is known for this CPU: add --measure-bandwidth"


def predicted(value: float, unit: str, low: float | None = None, high: float | None = None) -> Figure:
    return Figure(value, unit, Origin.PREDICTED, low=low, high=high)


def read(value: float | str, unit: str) -> Figure:
    return Figure(value, unit, Origin.READ)


def model(**changes: Any) -> ModelSummary:
    fields: dict[str, Any] = {
        "name": "Qwen/Qwen3.6-27B",
        "source": "known model",
        "architecture": "qwen3_5",
        "quant": "fp8",
        "layers": {"full-attention": 16, "gated-deltanet": 48},
        "parameters": read(27_356_000_000, "parameters"),
        "active_parameters": read(26_084_000_000, "parameters"),
        "weights_bytes": read(28_500_000_000, "bytes"),
        "read_bytes": Figure(25_960_000_000, "bytes", Origin.INFERRED),
        "routed_expert_bytes": Figure(0, "bytes", Origin.READ),
        "kv_bytes_per_token": predicted(32_768, "bytes/token"),
        "kv_bytes_per_token_window": predicted(0, "bytes/token"),
        "window": unknown("tokens", "the model has no sliding window"),
        "state_bytes_per_sequence": predicted(78_400_000, "bytes"),
        "context_tokens": read(262_144, "tokens"),
        "draft_layers": read(1, "layers"),
        "assumed": ("mamba_ssm_dtype is not stated: float32 is assumed.",),
    }
    return ModelSummary(**(fields | changes))


def device(**changes: Any) -> DeviceSummary:
    silent = "not measured: add --measure-bandwidth on the machine itself"
    fields: dict[str, Any] = {
        "name": "gb10",
        "kind": "unified",
        "count": 1,
        "bandwidth_bytes_s": read(273e9, "bytes/s"),
        "measured_read_bytes_s": unknown("bytes/s", silent, Origin.MEASURED),
        "measured_copy_bytes_s": unknown("bytes/s", silent, Origin.MEASURED),
        "memory_bytes": read(128_000_000_000, "bytes"),
        "usable_memory_bytes": read(127_775_000_000, "bytes"),
        "note": "one memory for CPU and GPU; about 119 GiB can be used",
    }
    return DeviceSummary(**(fields | changes))


def step(batch: int, parts_ms: tuple[float, float, float, float, float, float], *, fits: bool) -> StepPoint:
    """A step from its parts in milliseconds: weights, experts, cache, state, compute, overhead; ± 10 %."""
    step_s = sum(parts_ms) / 1e3
    weights, experts, cache, state, compute, overhead = (part / 1e3 for part in parts_ms)
    return StepPoint(
        batch=batch,
        step_s=predicted(step_s, "s", step_s * 0.9, step_s * 1.1),
        output_tok_s=predicted(batch / step_s, "tok/s", batch / step_s / 1.1, batch / step_s / 0.9),
        per_request_tok_s=predicted(1 / step_s, "tok/s", 1 / step_s / 1.1, 1 / step_s / 0.9),
        weights_s=weights, experts_s=experts, cache_s=cache, state_s=state, compute_s=compute, overhead_s=overhead,
        fits=fits,
    )  # fmt: skip


def dense_steps() -> list[StepPoint]:
    """Weights read once, 2.2 ms of cache and 0.7 ms of state a sequence; the pool holds 51."""
    return [
        step(batch, (117.0, 0.0, 2.2 * batch, 0.71 * batch, 0.26 * batch, 4.2), fits=batch <= 51)
        for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    ]


def moe_steps() -> list[StepPoint]:
    """Experts visited by 1, 2, 4 … tokens of 32 top 4: their union grows fast, then ends."""
    experts_ms = (4.9, 8.4, 14.2, 22.3, 31.0, 36.1, 37.2, 37.3)
    return [
        step(2**index, (6.1, read_ms, 0.21 * 2**index, 0.0, 0.34 * 2**index, 2.2), fits=True)
        for index, read_ms in enumerate(experts_ms)
    ]


DENSE_LEVERS = (
    Lever(
        code="kv-dtype", title="Keep the KV cache in fp8", buys=Buys.CAPACITY, flag="--kv-cache-dtype fp8",
        now=predicted(28, "sequences"), then=predicted(51, "sequences"), gain=predicted(1.82, ""),
        price="Answers can change a little: check quality with `widelane compare`.", taken=True,
    ),
    Lever(
        code="state-dtype", title="Halve the recurrent state", buys=Buys.CAPACITY,
        flag="--mamba-ssm-cache-dtype float16",
        now=predicted(51, "sequences"), then=predicted(87, "sequences"), gain=predicted(1.71, ""),
        price="--mamba-cache-dtype would change only the convolution part of the state.", taken=True,
    ),
    Lever(
        code="speculation", title="Draft two tokens with the checkpoint's own MTP head", buys=Buys.LATENCY,
        flag='--speculative-config {"method":"mtp","num_speculative_tokens":2}',
        now=predicted(7.9, "tok/s", 7.1, 8.8), then=predicted(14.4, "tok/s", 12.1, 15.9),
        gain=predicted(1.82, "", 1.6, 1.9),
        price="Each sequence keeps two further states; content decides how many drafts are accepted.", taken=True,
    ),
    Lever(
        code="smaller-weights", title="Use 4-bit weights", buys=Buys.LATENCY, flag=None,
        now=predicted(7.9, "tok/s"), then=predicted(12.8, "tok/s"), gain=predicted(1.62, ""),
        price="Another checkpoint, and some quality; it is 11 GB smaller.", taken=False,
    ),
    Lever(
        code="slots", title="Let 128 sequences decode together", buys=Buys.THROUGHPUT, flag="--max-num-seqs 128",
        now=predicted(210, "tok/s"), then=predicted(190, "tok/s"), gain=predicted(0.905, ""),
        price="The pool holds 51 typical requests: more are preempted and computed again.", taken=False,
    ),
    Lever(
        code="prefix-cache", title="Reuse common prompt beginnings", buys=Buys.LATENCY, flag="--enable-prefix-caching",
        now=unknown("s", "depends on how much your prompts share"),
        then=unknown("s", "depends on how much your prompts share"),
        gain=unknown("", "depends on how much your prompts share"), price="Nothing but bookkeeping.", taken=False,
    ),
)  # fmt: skip


def launch(**changes: Any) -> LaunchPlan:
    drafts = '{"method":"mtp","num_speculative_tokens":2}'
    fields: dict[str, Any] = {
        "engine": "vllm",
        "version": "0.33.0",
        "checked_on": "0.33.0",
        "environ": (),
        "argv": (
            Argument(flag=None, value="vllm", reason="the engine"),
            Argument(flag=None, value="serve", reason=""),
            Argument(flag=None, value="Qwen/Qwen3.6-27B-FP8", reason="the model that was planned"),
            Argument(flag="--max-num-seqs", value="24", reason="lanes that keep a full pool below 1 % likely"),
            Argument(flag="--max-model-len", value="131072", reason="the longest request you allow"),
            Argument(flag="--kv-cache-dtype", value="fp8", reason="half the cache bytes a token"),
            Argument(
                flag="--mamba-ssm-cache-dtype", value="float16",
                reason="halves the large recurrent state; auto would take float32 from the checkpoint",
            ),
            Argument(flag="--speculative-config", value=drafts, reason="two drafted tokens a step from the MTP head"),
            Argument(
                flag="--enable-auto-tool-choice", value=None,
                reason="without it tool calls stay in the text, whatever the parser",
            ),
            Argument(flag="--tool-call-parser", value="qwen3_coder", reason="fits this model's chat template"),
            Argument(flag="--reasoning-parser", value="qwen3", reason="separates <think> from the answer"),
        ),
        "left_out": (
            LeftOut(flag="--mamba-cache-dtype", reason="changes only the convolution part of the state"),
            LeftOut(flag="--enforce-eager", reason="gives up CUDA graphs, which short steps need"),
        ),
        "command": "vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-seqs 24 --max-model-len 131072 --kv-cache-dtype fp8 "
        f"--mamba-ssm-cache-dtype float16 --speculative-config '{drafts}' --enable-auto-tool-choice "
        "--tool-call-parser qwen3_coder --reasoning-parser qwen3",
    }  # fmt: skip
    return LaunchPlan(**(fields | changes))


def sequences(**changes: Any) -> SequencesThatFit:
    fields: dict[str, Any] = {
        "typical": predicted(51, "sequences"),
        "worst_case": predicted(8, "sequences"),
        "lanes": predicted(24, "lanes"),
        "risk": predicted(0.01, ""),
        "typical_tokens": Figure(24_576, "tokens", Origin.ASSUMED),
        "max_tokens": Figure(131_072, "tokens", Origin.ASSUMED),
        "slots": predicted(24, "sequences"),
    }
    return SequencesThatFit(**(fields | changes))


def dense(**changes: Any) -> PlanReport:
    """The 27B hybrid in fp8 on a GB10 under vLLM, for agents."""
    fields: dict[str, Any] = {
        "model": model(),
        "device": device(),
        "engine": "vllm",
        "engine_version": "0.33.0",
        "use": Use.AGENTS,
        "ceiling_tok_s": predicted(9.58, "tok/s"),
        "ceiling_read_tok_s": predicted(10.5, "tok/s"),
        "expected_tok_s": predicted(7.94, "tok/s", 7.15, 8.82),
        "drafting_tok_s": predicted(14.4, "tok/s", 12.1, 15.9),
        "draft_depth": predicted(2, "tokens"),
        "steps": dense_steps(),
        "width": WidthPlan(
            doubling_batch=predicted(39, "requests", 33, 46),
            doubling_tok_s=predicted(161, "tok/s"),
            gain=predicted(20.3, ""),
            sentence="A dense model: every request shares the same read of the weights, so width is nearly free until "
            "the caches and states of the sequences weigh as much as the weights.",
        ),
        "prefill": [
            PrefillPoint(
                depth_tokens=depth, tok_s=predicted(rate, "tok/s", rate * 0.9, rate * 1.1),
                seconds=predicted(seconds, "s", seconds * 0.9, seconds * 1.1),
            )
            for depth, rate, seconds in (
                (1_024, 1912, 0.53), (4_096, 1840, 2.18), (8_192, 1760, 4.5), (16_384, 1610, 9.4), (32_768, 1376, 20.4),
                (65_536, 1065, 47.6), (131_072, 733, 124.0),
            )
        ],
        "memory": [
            MemoryPart(name="weights", bytes=read(28.5e9, "bytes")),
            MemoryPart(name="activations and graphs", bytes=Figure(4.1e9, "bytes", Origin.ASSUMED)),
            MemoryPart(name="recurrent state", bytes=predicted(11.6e9, "bytes")),
            MemoryPart(name="KV pool", bytes=predicted(70.8e9, "bytes")),
            MemoryPart(
                name="free",
                bytes=Figure(0.2e9, "bytes", Origin.PREDICTED, reason="too little for another block"),
            ),
            MemoryPart(name="reserve", bytes=Figure(12.8e9, "bytes", Origin.ASSUMED)),
        ],
        "kv_pool": KvPoolPlan(
            tokens=predicted(1_253_376, "tokens"),
            bytes=predicted(82.4e9, "bytes"),
            block_tokens=predicted(832, "tokens"),
            blocks=predicted(3051, "blocks"),
            log_line_tokens=predicted(2_262_210, "tokens"),
            meaning="the tokens that 51 requests of the typical length hold together",
        ),
        "sequences_that_fit": sequences(),
        "levers": DENSE_LEVERS,
        "recommendation": Recommendation(
            sentence="Run 24 lanes on vLLM with an fp8 cache and a float16 state: about 112 tok/s together.",
            lanes=predicted(24, "lanes"),
            expected_tok_s=predicted(112, "tok/s", 95, 131),
            why=(
                "A step takes twice as long only at 39 requests.",
                "The pool holds 51 typical requests; planning by the longest would have given 8.",
            ),
        ),
        "launch": launch(),
        "notes": ("Predictions of this kind were within 10 % (median) and 35 % (nine in ten) of measured steps.",),
    }  # fmt: skip
    return PlanReport(**(fields | changes))


def moe() -> PlanReport:
    """A mixture of experts on two cards under Ollama: configured by its environment, wide pool, no draft."""
    return dense(
        model=model(
            name="gpt-oss-120b", quant="mxfp4", layers={"full-attention": 18, "sliding-attention": 18},
            window=read(128, "tokens"), kv_bytes_per_token_window=predicted(36_864, "bytes/token"),
            routed_expert_bytes=read(58e9, "bytes"), assumed=(),
        ),
        device=device(name="rtx-pro-6000", kind="gpu", count=2, measured_read_bytes_s=Figure(
            1.55e12, "bytes/s", Origin.MEASURED)),
        engine="ollama",
        engine_version=None,
        use=Use.BATCH,
        drafting_tok_s=unknown("tok/s", "the checkpoint has no draft head"),
        draft_depth=unknown("tokens", "the checkpoint has no draft head"),
        steps=moe_steps(),
        width=WidthPlan(
            doubling_batch=predicted(4, "requests"), doubling_tok_s=predicted(176, "tok/s"), gain=predicted(2.4, ""),
            sentence="A mixture of experts: each further request visits experts of its own, so a step grows at once.",
        ),
        sequences_that_fit=sequences(typical=predicted(412, "sequences")),
        levers=DENSE_LEVERS[3:],
        launch=launch(
            engine="ollama", version=None, checked_on="2026-08-21",
            environ=(
                Argument(flag="OLLAMA_NUM_PARALLEL", value="24", reason="lanes that the pool holds"),
                Argument(flag="OLLAMA_KV_CACHE_TYPE", value="q8_0", reason="half the cache bytes a token"),
            ),
            argv=(
                Argument(flag=None, value="ollama", reason="the server reads the variables once, at start"),
                Argument(flag=None, value="serve", reason=""),
            ),
            left_out=(), afterwards=("ollama pull gpt-oss:120b",),
            notes=("Ollama reads its settings from the environment of the server, not of the client.",),
            command="OLLAMA_NUM_PARALLEL=24 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve",
        ),
    )  # fmt: skip


def not_known() -> PlanReport:
    """A CPU without a known bandwidth: nothing about time can be said, and the page says why."""
    rate = unknown("tok/s", NO_BANDWIDTH, Origin.PREDICTED)
    return dense(
        device=device(
            name="Some CPU @ 3.1 GHz", kind="cpu", bandwidth_bytes_s=unknown("bytes/s", "not in the device table")
        ),
        ceiling_tok_s=rate,
        ceiling_read_tok_s=rate,
        expected_tok_s=rate,
        drafting_tok_s=rate,
        steps=[],
        prefill=[],
        width=WidthPlan(
            doubling_batch=unknown("requests", NO_BANDWIDTH), doubling_tok_s=rate, gain=unknown("", NO_BANDWIDTH),
            sentence="How wide this machine is cannot be said without its bandwidth.",
        ),
        recommendation=Recommendation(
            sentence="Measure the bandwidth first.", lanes=predicted(24, "lanes"), expected_tok_s=rate, why=()
        ),
    )  # fmt: skip


def too_large() -> PlanReport:
    """Weights larger than the memory."""
    none = Figure(0, "sequences", Origin.PREDICTED)
    return dense(
        steps=[step(2**index, (410.0, 0, 2.0 * 2**index, 0, 0, 4.0), fits=False) for index in range(6)],
        memory=[
            MemoryPart(name="weights", bytes=read(201e9, "bytes")),
            MemoryPart(name="activations and graphs", bytes=Figure(4e9, "bytes", Origin.ASSUMED)),
            MemoryPart(name="KV pool", bytes=Figure(0, "bytes", Origin.PREDICTED)),
        ],
        sequences_that_fit=sequences(
            typical=none, worst_case=none, lanes=unknown("lanes", "the weights alone do not fit")
        ),
        recommendation=Recommendation(
            sentence="This model does not fit: its weights take 201 GB and the device has 128 GB.",
            lanes=unknown("lanes", "the weights alone do not fit"),
            expected_tok_s=unknown("tok/s", "the weights alone do not fit", Origin.PREDICTED),
            why=(),
        ),
    )


ALL = {"dense": dense, "moe": moe, "not-known": not_known, "too-large": too_large}
