"""Predictions of every verdict, made on servers with known costs."""

from __future__ import annotations

from functools import cache

from tests.predict.servers import FITTED, flat, rising, server_of
from widelane.predict.make import predict
from widelane.predict.report import PredictReport
from widelane.predict.shape import Shape, best_of, map_reduce, parse_calls


def _shape(items: str, **more: str) -> Shape:
    stated = {name: parse_calls(text, f"--{name}") for name, text in more.items()}
    return map_reduce(parse_calls(items, "--map"), prompt_tokens=5, **stated)


@cache
def parallelise() -> PredictReport:
    """Wide on a server with fewer slots than lanes."""
    return predict(_shape("24x20", plan="15", reduce="30"), server_of(rising(0.1, 0.02), slots=8, error=FITTED))


@cache
def do_not() -> PredictReport:
    """A skeleton that costs more than it saves."""
    return predict(_shape("5x20", plan="60", instead="50"), server_of(rising(0.1, 0.05), error=FITTED))


@cache
def too_close() -> PredictReport:
    """Half of what is gained goes into the plan, and the server is not known better than that."""
    return predict(_shape("4x21", plan="53"), server_of(rising(0.1, 0.1), error=FITTED))


@cache
def one_lane() -> PredictReport:
    """Nothing can run side by side."""
    return predict(_shape("1x20", reduce="10"), server_of(flat(0.1), error=FITTED))


@cache
def tries() -> PredictReport:
    """Best of four, which chance has a part in."""
    job = best_of(parse_calls("4x20", "--best-of"), pass_rate=0.5)
    return predict(job, server_of(flat(0.1), error=FITTED))


ALL = {
    "parallelise": parallelise,
    "do-not": do_not,
    "too-close": too_close,
    "one lane": one_lane,
    "tries": tries,
}
