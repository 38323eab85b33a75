"""`bregmat label` without a browser: requests that other pages might send, and bad arguments."""

# ruff: noqa: F401, F811 - fixtures are imported by name

import json
import os
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from label_pages import NoRedirect, demo, own_demo


def status(page, path, method="GET", data=None, **headers):
    """(status, headers) of one request."""
    request = urllib.request.Request(page.origin + path, data=data, method=method, headers=headers)
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


def test_hostile_requests(own_demo):
    demo = own_demo
    assert status(demo, "/")[0] == status(demo, "/?token=wrong")[0] == status(demo, "/about.json")[0] == 403
    assert status(demo, demo.link.removeprefix(demo.origin), host="evil.example")[0] == 403  # DNS rebinding
    cookie = demo.cookie()
    assert status(demo, demo.link.removeprefix(demo.origin))[0] == 403  # once only
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
    address = f"ws://{demo.host}/tab"
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
                '{"type":"skip","points":[[],{}]}',
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
    assert status(demo, "/", cookie=cookie)[0] == 200  # and all is well
    assert len((demo.folder / "bregmat-label-demo.jsonl").read_text().splitlines()) == 1  # nothing got into the journal


def test_only_the_loopback_address_listens(demo):
    port = int(demo.host.split(":")[1])
    for address, is_open in (("127.0.0.1", True), ("127.0.0.2", False)):  # what listens everywhere has both
        with socket.socket() as line:
            line.settimeout(5)
            assert (line.connect_ex((address, port)) == 0) is is_open


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "POINTS or --demo"),
        (["--demo", "points.csv"], "takes no POINTS"),
        (["none.csv"], "none.csv"),
        (["points.csv", "--text", "nothing"], "nothing"),
        (["points.csv", "--images", "nowhere"], "--images"),
        (["points.csv", "--resume"], "no journal"),
        (["--demo", "--host", "300.1.1.1"], "300.1.1.1"),
        (["--demo", "--host", "0.0.0.0"], "give the one that others use"),
        (["--demo", "--slack-weight", "inf"], "finite"),
        (["--demo", "--prior", "covariance"], "covariance"),
    ],
)
def test_bad_arguments(arguments, words, tmp_path, rng):
    from typer.testing import CliRunner

    from bregmat.cli.app import app

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
