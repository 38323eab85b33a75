"""Access control of the page: a one-time token, a cookie, a secret in the address, and checks of Host and Origin.

The server listens on the loopback address, where every page in the same browser can send requests to it. Such requests are refused:
the Host has to be the address of the server (a name that an attacker points to the loopback address is not), the Origin has to be the
page itself, the cookie is only given in exchange for the token, and browsers do not send it with requests from other sites.

Other users of the machine can listen at other ports, and browsers send cookies to all ports of a host. Therefore all addresses of the
page begin with a secret, the key, and the cookie is bound to this path: a browser sends it with requests for these addresses only, and
without the key it is not accepted.
"""

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
LONGEST = 256  # characters of a token or cookie that are compared


def redirect_page(address: str, icon: str = "data:,") -> str:
    """Return a page that redirects to an address. It names an icon, because a browser would otherwise request one and be refused."""
    return (
        f'<!DOCTYPE html><html lang="en"><title>bregmat label</title><link rel="icon" href="{html.escape(icon)}">'
        f'<meta http-equiv="refresh" content="0; url={html.escape(address)}"></html>\n'
    )


class AccessControl:
    """Decides by its headers whether a request to a port of the loopback address is allowed.

    `announce` is called with a new token if a used one is presented again, so that the person at the terminal can use it.
    """

    def __init__(self, port: int, announce: Callable[[str], None]) -> None:
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie_name = f"bregmat-label-{port}"  # cookies are shared between the ports of a host
        self.key = secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._spent: set[str] = set()
        self._announce = announce

    def refusal(self, headers: Mapping[str, str], *, needs_origin: bool = False) -> str:
        """Return why a request is refused, whoever sends it; empty if it is not."""
        if headers.get("host", "").lower() not in self.hosts:
            return "this page answers to its own address only"
        origin = headers.get("origin")
        if origin is None:
            return "no Origin" if needs_origin else ""
        is_own = origin.lower() in {f"http://{name}" for name in self.hosts}
        return "" if is_own else "requests of other pages are refused"

    def is_known(self, headers: Mapping[str, str], path: str) -> bool:
        """Whether the request is for an address below the key and has the cookie."""
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", "")[:4096])
        except CookieError:
            return False
        found = cookies.get(self.cookie_name)
        has_key = self._equal(path.removeprefix("/").partition("/")[0], self.key)
        return has_key and found is not None and self._equal(found.value, self._cookie)

    def admit(self, token: str) -> str | None:
        """Return the value of Set-Cookie for the token, which is then invalid; None for any other text."""
        if self._equal(token, self.token):
            self._spent.add(self.token)
            self.token = secrets.token_urlsafe(32)
            return f"{self.cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/{self.key}/"
        if any(self._equal(token, spent) for spent in self._spent):
            self._announce(self.token)
        return None

    @staticmethod
    def _equal(given: str, wanted: str) -> bool:
        return secrets.compare_digest(given[:LONGEST].encode(), wanted.encode())
