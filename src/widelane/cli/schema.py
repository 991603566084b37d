"""`widelane schema DOCUMENT`: the JSON schema of what `--json` prints, generated from the types."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from widelane.measure.profile import DoctorReport, SweepReport
from widelane.plan.report import LaunchReport, PlanReport
from widelane.predict.report import PredictReport

DOCUMENTS = {
    "sweep": SweepReport,
    "doctor": DoctorReport,
    "plan": PlanReport,
    "launch": LaunchReport,
    "predict": PredictReport,
}


def schema_of(document: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of one document."""
    return msgspec.json.schema(DOCUMENTS[document])


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Print the schema."""
    print(json.dumps(schema_of(args.document), indent=2, ensure_ascii=False))
    return 0
