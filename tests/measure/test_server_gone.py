"""A server that dies in the middle of a sweep: the sweep says so, is not complete, and can be resumed."""

import random

from tests.measure.facts import facts as known_facts
from widelane.clock import LoopClock
from widelane.errors import ConnectionRefused
from widelane.measure.options import SweepOptions
from widelane.measure.sweep import sweep
from widelane.testing.fake_engine import FakeEngine, FakeServer
from widelane.testing.virtual_time import run_virtual
