"""`bregmat label` without a browser: requests that other pages might send, and bad arguments."""

# ruff: noqa: F401, F811 - fixtures are imported by name

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from bregmat_app.cli.app import app
from label_pages import NoRedirect, demo, own_demo


def status(page, path, method="GET", data=None, **headers):
    """(status, headers) of one request; below the page's own address where that is known."""
    request = urllib.request.Request((page.inside or page.origin) + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.build_opener(NoRedirect).open(request, timeout=10) as answer_:
            return answer_.status, dict(answer_.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers)


def raw(page, data):
    """What the server says to raw bytes; empty if it hangs up."""
    with socket.create_connection(page.host.split(":"), timeout=10) as line:
        try:
            line.sendall(data)
            return line.recv(100)
        except ConnectionError:
            return b""


@pytest.mark.slow
def test_hostile_requests(own_demo):
    demo = own_demo
    assert status(demo, "/")[0] == status(demo, "/?token=wrong")[0] == status(demo, "/about.json")[0] == 403
    assert status(demo, demo.link.removeprefix(demo.origin), host="evil.example")[0] == 403  # DNS rebinding
    cookie = demo.cookie()
    with pytest.raises(urllib.error.HTTPError, match="403") as caught:  # once only
        urllib.request.urlopen(demo.link)
    caught.value.close()
    fresh = [demo.process.stdout.readline() for _ in range(2)][-1]  # the journal's line, then a new link
    assert fresh.startswith(demo.origin) and fresh.strip() != demo.link
    code, headers = status(demo, "/", cookie=cookie)
    assert (
        code == 200
        and "default-src 'none'" in headers["content-security-policy"]
        and "access-control-allow-origin" not in headers
    )
    for more in (
        {"host": "evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
    ):
        for path in ("/", "/about.json", "/pictures/0", "/take/constraints.csv", "/static/main.js"):
            assert status(demo, path, cookie=cookie, **more)[0] == 403
    for path in (
        *(
            "/static/../server.py",
            "/static/..%2f..%2fserver.py",
            "/static/%2e%2e/server.py",
            "/static/nothing",
            "/take/x",
        ),
        *("/pictures/999999", "/pictures/-1", "/points/1797", "/pictures/..%2f", "/points/9999999999999999999999999"),
    ):
        assert status(demo, path, cookie=cookie)[0] == 404
    assert status(demo, "/take/model.bm", cookie=cookie)[0] == 409  # nothing was said yet
    for method in ("POST", "PUT", "DELETE"):
        assert status(demo, "/", method=method, data=b"x" * 100_000, cookie=cookie)[0] == 405
    assert raw(demo, b"GET / HTTP/1.1\r\nHost: " + b"a" * 100_000 + b"\r\n\r\n")[:12] in (
        b"",
        b"HTTP/1.1 400",
        b"HTTP/1.1 403",
    )
    assert raw(demo, b"\x00\xff\xfe\r\n\r\n")[:12] in (b"", b"HTTP/1.1 400")
    address = f"ws{demo.inside.removeprefix('http')}/tab"
    for headers in ({"Cookie": cookie}, {"Cookie": cookie, "Origin": "http://evil.example"}, {"Origin": demo.origin}):
        with pytest.raises(InvalidStatus), connect(address, additional_headers=headers, origin=None):
            pass
    with connect(address, additional_headers={"Cookie": cookie}, origin=demo.origin, max_size=None) as line:
        bad = [
            *(
                "",
                "x",
                "[]",
                "null",
                "{}",
                '{"type":"say"}',
                '{"type":"say","event":{"kind":"same","points":[0,1e9]}}',
                "[" * 60_000,
            ),
            *(
                '{"type":"neighbours","point":-1}',
                '{"type":"neighbours","point":true}',
                '{"type":"skip","point":[[],{}]}',
            ),
            '{"type":"say","event":{"kind":"same","points":' + json.dumps(list(range(3000))) + "}}",
        ]
        for message in bad:
            line.send(message)
            reply = b""
            while not (isinstance(reply, str) and '"error"' in reply):
                reply = line.recv(timeout=20)
        line.send("{" + " " * 70_000)  # longer than any message
        with pytest.raises(Exception):  # noqa: B017 - the line is closed, in one of several ways
            while True:
                line.recv(timeout=20)
    with (
        pytest.raises(InvalidStatus),
        connect(f"ws://{demo.host}/tab", additional_headers={"Cookie": cookie}, origin=demo.origin),
    ):
        pass  # the cookie without the key
    assert status(demo, "/", cookie=cookie)[0] == 200  # and all is well
    assert len((demo.folder / "bregmat-label-demo.jsonl").read_text().splitlines()) == 1  # nothing got into the journal


@pytest.mark.slow
def test_idle_connections_do_not_keep_the_owner_out(own_demo):
    """Connections are cheap for every process of the machine: those that say nothing give way, the page's own stay."""
    cookie = own_demo.cookie()
    address = f"ws{own_demo.inside.removeprefix('http')}/tab"
    with ExitStack() as open_lines:
        tab = open_lines.enter_context(
            connect(address, additional_headers={"Cookie": cookie}, origin=own_demo.origin, max_size=None)
        )
        idle = []
        for k in range(300):
            line = open_lines.enter_context(socket.create_connection(own_demo.host.split(":"), timeout=10))
            if k % 2:
                line.sendall(b"GET / HTTP/1.1\r\nHost: ")  # half a request
            idle.append(line)
            if k % 50 == 0:
                assert status(own_demo, "/", cookie=cookie)[0] == 200
        assert status(own_demo, "/about.json", cookie=cookie)[0] == 200
        idle[0].settimeout(10)
        with suppress(ConnectionError):
            assert idle[0].recv(10) == b""  # the oldest were closed
        tab.send('{"type":"neighbours","point":0}')
        while '"neighbours"' not in str(tab.recv(timeout=20)):
            pass


@pytest.mark.slow
def test_strangers_keep_no_connection(own_demo):
    """Who has been refused has to connect again."""
    with socket.create_connection(own_demo.host.split(":"), timeout=10) as line:
        line.sendall(f"POST /x HTTP/1.1\r\nHost: {own_demo.host}\r\nContent-Length: 9\r\n\r\n".encode())
        answer_ = b""
        while part := line.recv(1000):
            answer_ += part
    assert answer_.startswith(b"HTTP/1.1 403") and b"connection: close" in answer_


@pytest.mark.slow
def test_the_cookie_is_bound_to_the_key_in_the_address(own_demo):
    """A browser sends it below the key only, so that servers at other ports do not get it; who has it has nothing without the key."""
    cookie, inside = own_demo.cookie(), own_demo.inside
    assert status(own_demo, "/about.json", cookie=cookie)[0] == 200
    assert status(own_demo, "/about.json")[0] == 403  # the key alone
    for address in (own_demo.origin, f"{own_demo.origin}/{'x' * 43}", inside[:-1]):
        own_demo.inside = address
        for path in ("/", "/about.json", "/pictures/0", "/nothing"):
            assert status(own_demo, path, cookie=cookie)[0] == 403


@pytest.mark.slow
def test_only_the_loopback_address_listens(demo):
    port = int(demo.host.split(":")[1])
    for address, is_open in (("127.0.0.1", True), ("127.0.0.2", False)):  # what listens everywhere has both
        with socket.socket() as line:
            line.settimeout(5)
            assert (line.connect_ex((address, port)) == 0) is is_open


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give POINTS, --images FOLDER or --demo"),
        (["--images", "pictures", "--labels", "kind"], "a folder of pictures has no columns"),
        (["--demo", "points.csv"], "takes no POINTS"),
        (["none.csv"], "none.csv"),
        (["points.csv", "--text", "nothing"], "nothing"),
        (["points.csv", "--images", "nowhere"], "--images"),
        (["points.csv", "--resume"], "no journal"),
        (["--demo", "--slack-weight", "inf"], "finite"),
        (["--demo", "--prior", "covariance"], "covariance"),
        (["--demo", "--prior", "varianse"], "is it 'variance'?"),
        (["--demo", "--classes", "a,b,a"], "--classes takes at most 30 different names"),
    ],
)
def test_bad_arguments(arguments, words, tmp_path, rng):
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        Path("points.csv").write_text(
            "a,b\n" + "\n".join(f"{x},{y}" for x, y in rng.normal(size=(10, 2))), encoding="utf-8"
        )
        done = CliRunner().invoke(app, ["label", *arguments, "--no-browser"])
    finally:
        os.chdir(before)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


@pytest.mark.slow
def test_the_token_is_not_among_the_arguments_of_the_browser(tmp_path):
    """Other users see these: the browser is given a file for its owner alone, which leads to the page and goes with it."""
    told = tmp_path / "told"
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {tmp_path}/kept\necho "$@" > {told}\n')
    script.chmod(0o700)
    command = [sys.executable, "-m", "bregmat", "label", "--demo"]
    environment = os.environ | {"BROWSER": f"{script} %s"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            link = process.stdout.readline().split()[-1]
            end = time.monotonic() + 60
            while not (told.exists() and told.read_text().endswith("\n")):
                assert time.monotonic() < end
                time.sleep(0.01)
        finally:
            process.send_signal(signal.SIGINT)
    shown = told.read_text().strip()
    file = Path(shown.removeprefix("file://"))
    assert shown.startswith("file://") and "token" not in shown
    assert link in (tmp_path / "kept").read_text()
    assert not file.exists() and not file.parent.exists()
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 1.0, 1.5])
def test_an_interrupt_right_after_the_link_ends_the_page(share, tmp_path):
    """Also while it learns for the first time: a solver would take the interrupt for its own."""
    command = [sys.executable, "-m", "bregmat", "label", "--demo", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "token" in process.stdout.readline()
        time.sleep(0.2 * share)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in err, err


def test_an_interrupt_while_the_page_learns_for_the_first_time(monkeypatch, tmp_path):
    """What a solver would keep its best point for ends the page."""

    def interrupted_solver(self):
        with suppress(KeyboardInterrupt):  # as the library's loop: what it has at Ctrl-C is its result
            signal.raise_signal(signal.SIGINT)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bregmat_app.label.learning.Learning.warm_up", interrupted_solver)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: pytest.fail("the page is served"))
    done = CliRunner().invoke(app, ["label", "--demo", "--no-browser"])
    assert (done.exit_code, done.exception) == (0, None)
    assert "nothing was answered" in done.output
