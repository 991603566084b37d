"""How many requests at once a machine could serve, and the command to start: arithmetic, no server, no weights.

python examples/plan_a_machine.py [MODEL [DEVICE]]        (default: qwen3.6-27b:fp8 gb10)
"""

import sys

from widelane import PlanRequest, UsageError, Use, find_device, find_model, make_plan, parse_footprint


def main(model: str = "qwen3.6-27b:fp8", device: str = "gb10") -> None:
    report = make_plan(
        PlanRequest(
            model=find_model(model),
            device=find_device(device),
            engine="vllm",
            use=Use.BATCH,
            typical=parse_footprint("12k-18k"),  # prompt and answer together
            max_tokens=40_000,
        )
    )
    print(report.recommendation.sentence)
    print(f"At most, for one request: {report.ceiling_tok_s.value} tok/s ({report.ceiling_tok_s.reason}).")
    print(report.width.sentence)
    for lever in report.levers:
        print(f"  x{lever.gain.value} {lever.buys}: {lever.title}")
    print(report.launch.command)


try:
    main(*sys.argv[1:])
except UsageError as error:
    raise SystemExit(str(error)) from None
