"""Check every internal link of a built site: the file is there, and so is the place in it. Links to elsewhere are counted, not fetched."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places that links can name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := given.get(key))}
        self.links += [value for key in ("href", "src") if (value := given.get(key))]


def broken_links(site: Path) -> tuple[list[str], int, int]:
    """Broken ones in words, and how many links lead inside and outside.

    Parameters
    ----------
    site : Path
        The folder of the built site.
    """
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}  # templates
    broken, inside, outside = [], 0, 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside += parts.scheme in ("http", "https")
                continue
            inside += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            name = path.relative_to(site)
            if not target.is_relative_to(site) or not target.exists():
                broken.append(f"{name}: {link}: no such file")
            elif target in pages and unquote(parts.fragment) not in pages[target].places:
                broken.append(f"{name}: {link}: no such place in the page")
    return broken, inside, outside


if __name__ == "__main__":
    broken, inside, outside = broken_links(Path(sys.argv[1]))
    print(*broken, sep="\n", end="\n" if broken else "")
    print(f"{inside:,} links inside the site, {len(broken)} broken; {outside:,} outside, not fetched")
    sys.exit(bool(broken) or not inside)
