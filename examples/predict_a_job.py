"""Would a job gain from width? It runs on a simulated server, in virtual time: no server, no model, no GPU.

python examples/predict_a_job.py [SERVER]        (sim:DEVICE/MODEL/ENGINE, or a profile saved by `widelane sweep`)
"""

import sys

from widelane import UsageError, map_reduce, parse_calls, predict_job, predicted_server


def main(server: str = "sim:gb10/qwen3.6-27b/vllm?quant=fp8") -> None:
    job = map_reduce(parse_calls("24x900", "items"), plan=parse_calls("800", "plan"), reduce=parse_calls("1200", "end"))
    report = predict_job(job, predicted_server(server))
    for point in report.widths:
        print(f"{point.lanes:4} lanes {point.wall_s.value:8,.0f} s   x{point.speedup.value:.2f}")
    print(report.sentence)
    print(f"verdict: {report.verdict}; items pay from {report.crossover_tokens.value} tokens on")


try:
    main(*sys.argv[1:])
except UsageError as error:
    raise SystemExit(str(error)) from None
