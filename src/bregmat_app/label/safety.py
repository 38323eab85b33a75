"""Who may talk to the page: a one-time token, a cookie, a secret in the address, and no other host or page.

The server listens on the loopback address, where every page in the same browser can send requests to it. What these can do is
nothing: the Host has to be ours (a name that an attacker points to the loopback address is not), the Origin has to be our own,
the cookie is only given for the token, and it is not sent along with requests from other sites.

Other users of the machine can listen at other ports, and browsers do not tell the ports of a host apart where they send cookies.
Therefore all addresses of the page begin with a secret, the key, to which the cookie is bound: a browser sends it with requests for
these addresses only, and it is worth nothing without the key.
"""

from __future__ import annotations

import html
import secrets
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LONGEST = 256  # letters of a token or cookie that are looked at


def way_to(address: str, icon: str = "data:,") -> str:
    """A page that leads to an address at once; without an icon of its own a browser would ask the server for one, and be refused."""
    return (
        f'<!DOCTYPE html><html lang="en"><title>bregmat label</title><link rel="icon" href="{html.escape(icon)}">'
        f'<meta http-equiv="refresh" content="0; url={html.escape(address)}"></html>\n'
    )


class Doorkeeper:
    """Decides on every request by its headers.

    Parameters
    ----------
    host : str
        What the server listens on.
    port : int
    announce : callable
        Told a new token when one that was used before is shown again: the person at the terminal may use it.
    """

    def __init__(self, host: str, port: int, announce: Callable[[str], None] | None = None) -> None:
        names = {"127.0.0.1", "localhost"} if host in ("127.0.0.1", "localhost") else {host}
        self.hosts = {f"[{name}]:{port}" if ":" in name else f"{name}:{port}" for name in names}
        self.cookie_name = f"bregmat-label-{port}"  # cookies are shared between the ports of a host
        self.key = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._spent: set[str] = set()
        self._announce = announce

    def refusal(self, headers: Mapping[str, str], *, needs_origin: bool = False) -> str:
        """Why a request is not let in, whoever sends it; empty if it is."""
        if headers.get("host", "").lower() not in self.hosts:
            return "this page answers to its own address only"
        origin = headers.get("origin")
        if origin is None:
            return "no Origin" if needs_origin else ""
        return (
            "" if origin.lower() in {f"http://{name}" for name in self.hosts} else "requests of other pages are refused"
        )

    def is_known(self, headers: Mapping[str, str], path: str) -> bool:
        """Whether the request is for an address below the key and carries the cookie."""
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", "")[:4096])
        except CookieError:
            return False
        found = cookies.get(self.cookie_name)
        has_key = self._equal(path.removeprefix("/").partition("/")[0], self.key)
        return has_key and found is not None and self._equal(found.value, self._cookie)

    def admit(self, token: str) -> str | None:
        """The value of Set-Cookie for the token, which is worth nothing from then on; None for any other."""
        if self._equal(token, self.token):
            self._spent.add(self.token)
            self.token = secrets.token_urlsafe(32)
            return f"{self.cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/{self.key}/"
        if self._announce is not None and any(self._equal(token, spent) for spent in self._spent):
            self._announce(self.token)
        return None

    @staticmethod
    def _equal(given: str, wanted: str) -> bool:
        return secrets.compare_digest(given[:LONGEST].encode(), wanted.encode())
