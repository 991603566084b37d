"""Bad input gets one clear error on stderr, exit status 2, nothing on stdout, and nothing left behind."""

import http.server
import json
import socket
import threading
from pathlib import Path

import pytest

from tests.cli.run_widelane import environment, widelane

COMMANDS = ("doctor", "sweep")


@pytest.fixture
def html_port():
    """A port where a web page answers everything."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"<!doctype html><html><body>Router login</body></html>"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            """Silent."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def refused(result, *words: str) -> str:
    """Check the form of a refusal and give its text."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("widelane: "), result.stderr
    for word in words:
        assert word in result.stderr
    return result.stderr


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) if folder.exists() else []


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_host(command, tmp_path):
    result = widelane(command, "http://no-such-host.invalid:8080", "--quiet", env=environment(tmp_path / "runs"))
    refused(result, "no-such-host.invalid")
    assert result.stdout == ""
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_port_where_nobody_listens(command, closed_port, tmp_path):
    result = widelane(command, f"127.0.0.1:{closed_port}", "--quiet", env=environment(tmp_path / "runs"))
    refused(result, str(closed_port))
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_port_that_answers_html(command, html_port, tmp_path):
    result = widelane(command, f"http://127.0.0.1:{html_port}", "--quiet", env=environment(tmp_path / "runs"))
    refused(result, "web page", str(html_port))
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_that_is_no_gguf(command, tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"not a model at all")
    result = widelane(command, "embedded", "--model", model, "--quiet", env=environment(tmp_path / "runs"))
    refused(result, "GGUF", "model.gguf")
    assert left_in(tmp_path) == ["model.gguf"]


@pytest.mark.parametrize("levels", ["0,-1,x", "", "1,1", "4096", "1,,2"])
def test_levels_that_are_none(levels, tmp_path):
    result = widelane("sweep", "embedded", f"--levels={levels}", env=environment(tmp_path / "runs"))
    refused(result, "evel")
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("command", [*COMMANDS, "demo"])
def test_a_run_folder_that_cannot_be_made(command, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    server = [] if command == "demo" else ["embedded"]
    result = widelane(command, *server, "--run-dir", blocked / "run", env=environment(tmp_path / "runs"))
    refused(result, str(blocked))
    assert left_in(tmp_path) == ["file"]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_file_that_cannot_be_written_is_refused_before_any_work(command, tmp_path):
    page = tmp_path / "missing" / "out.html"
    result = widelane(command, "embedded", "--html", page, env=environment(tmp_path / "runs"))
    refused(result, "--html", "missing")
    assert left_in(tmp_path) == []


def test_a_run_folder_that_is_in_use_is_not_overwritten(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("keep")
    result = widelane("sweep", "embedded", "--run-dir", tmp_path / "run", env=environment(tmp_path / "runs"))
    refused(result, "not empty")
    assert left_in(tmp_path) == ["run", "run/mine.txt"]


def test_nothing_to_resume(tmp_path):
    refused(widelane("sweep", "--resume", env=environment(tmp_path / "runs")), "nothing to resume")
    assert left_in(tmp_path) == []


def test_no_server_named_and_none_found_says_how_to_go_on(tmp_path):
    # In a network namespace of its own nothing could answer; here the usual ports must simply be free.
    for port in (8080, 8000, 11434, 1234, 30000):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"something listens on the usual port {port}")
    said = refused(widelane("doctor", "--quiet", env=environment(tmp_path / "runs")), "embedded", "OPENAI_BASE_URL")
    assert said.count("\n") == 1, "one sentence"


def test_openai_base_url_is_the_default_server(closed_port, tmp_path):
    env = environment(tmp_path / "runs", OPENAI_BASE_URL=f"http://127.0.0.1:{closed_port}/v1")
    refused(widelane("doctor", "--quiet", env=env), str(closed_port))


def test_json_says_unreachable_too(closed_port, tmp_path):
    result = widelane("doctor", f"127.0.0.1:{closed_port}", "--json", env=environment(tmp_path / "runs"))
    refused(result)
    document = json.loads(result.stdout)
    assert [finding["code"] for finding in document["findings"]] == ["unreachable"]
    assert document["findings"][0]["severity"] == "error"


def test_an_unknown_command_is_refused_with_the_usage():
    result = widelane("doktor", env=environment(Path("/nonexistent")))
    assert result.returncode == 2
    assert "usage: widelane" in result.stderr
