"""A small server to be started by the tests: `python stand_in_server.py KIND … --port PORT`.

KIND: `ready` answers /health; `slow` answers 503 for 0.5 s first; `worker` starts a child that ignores SIGTERM and
writes its process id to the log; `orphan` starts such a child in a session of its own; `deaf` ignores SIGTERM itself;
`dies` ends with a message and status 3; `dies-later` answers first; `silent` never listens.
"""

import http.server
import os
import signal
import subprocess
import sys
import threading
import time

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
BEGUN = time.monotonic()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every path."""

    def do_GET(self) -> None:
        loading = sys.argv[1] == "slow" and time.monotonic() - BEGUN < 0.5
        self.send_response(503 if loading else 200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Silent."""


def main(kind: str, port: int) -> None:
    """Behave as `kind` says."""
    print(f"stand-in {kind} with {os.environ.get('STAND_IN_WORD', 'no word')}", flush=True)
    if kind == "dies":
        sys.exit("RuntimeError: no memory left for this model\n")  # status 1, message to stderr
    if kind in ("worker", "orphan"):
        worker = subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=kind == "orphan")
        print(f"worker {worker.pid}", flush=True)
    if kind == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "silent":
        time.sleep(600)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if kind == "dies-later":
        threading.Timer(0.5, os._exit, [7]).start()
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[sys.argv.index("--port") + 1]))
