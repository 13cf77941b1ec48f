"""Photograph each page of ``site/`` on a desk and on a phone, light and dark, and name what one must scroll sideways.

``make docs`` first, then ``python scripts/site_pictures.py FOLDER [PAGE ...]``; PAGE is a folder of the site, such as
``start``. Needs ``pip install playwright`` and Chromium (``chromium`` on the path, or its path in ``CHROMIUM``).
Ends with an error if a page, or anything on it except code, is wider than the screen.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SITE = Path(__file__).resolve().parent.parent / "site"
WIDTHS = (1280, 390)
_TOO_WIDE = """
() => {
  const wide = document.documentElement.scrollWidth > innerWidth ? ["the page"] : [];
  for (const e of document.querySelectorAll("article *")) {
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1;
    if (scrolls && !e.closest("pre") && !e.querySelector("pre")) {
      wide.push(e.tagName.toLowerCase() + ": " + e.innerText.slice(0, 60).replace(/\\s+/g, " "));
    }
  }
  return wide;
}
"""


def photograph(folder: Path, pages: list[str], site: str) -> list[str]:
    """Write ``PAGE-WIDTH-light.png`` and ``-dark.png`` for each page; return what is too wide."""
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM") or shutil.which("chromium"))
        for width, scheme in itertools.product(WIDTHS, ("light", "dark")):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, is_mobile=width < 500)
            for page in pages:
                tab.goto(f"{site}/{page}/" if page else site)
                tab.wait_for_timeout(200)  # ms: the theme moves tables into boxes after the page has loaded
                if scheme == "light":
                    found += [f"{page or 'home'} at {width} pixels: {wide}" for wide in tab.evaluate(_TOO_WIDE)]
                name = f"{page.replace('/', '_') or 'home'}-{width}-{scheme}.png"
                tab.screenshot(path=folder / name, full_page=True)
            tab.context.close()
        browser.close()
    return found


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Serve the site on this machine and yield its address."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def main() -> None:
    """Photograph the pages that are named, or all."""
    if len(sys.argv) < 2 or not SITE.exists():
        raise SystemExit(f"python scripts/site_pictures.py FOLDER [PAGE ...], after `make docs` ({SITE})")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    every = sorted({str(page.parent.relative_to(SITE)) for page in SITE.rglob("index.html")})
    pages = ["" if page == "." else page for page in sys.argv[2:] or every]
    with served() as site:
        found = photograph(folder, pages, site)
    print("\n".join(found) or f"{len(pages)} pages: nothing is wider than the screen")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
