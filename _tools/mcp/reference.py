"""Runs one of the two MCP servers that gpt-oss publishes, as it is, for _tools/mcp. Its browser finds
two pages that are here instead of the web.

usage: reference.py FILE sse|streamable-http PORT
"""
import importlib.machinery
import importlib.util
import sys

import chz
from gpt_oss.tools.simple_browser import backend
from gpt_oss.tools.simple_browser.page_contents import process_html

PAGES = {
    "https://example.com/a": ("A", "<p>First page. <a href='https://example.com/b'>to the second</a></p>"),
    "https://example.com/b": ("B", "<p>Second page.</p>"),
}


@chz.chz(typecheck=True)
class Local(backend.Backend):
    source: str = chz.field(doc="what it is called")

    async def search(self, query, topn, session):
        items = "".join(f"<li><a href='{url}'>{title}</a> a page</li>" for url, (title, _) in PAGES.items())
        html = f"<html><body><h1>Search Results</h1><ul>{items}</ul></body></html>"
        return process_html(html=html, url="", title=query, display_urls=True, session=session)

    async def fetch(self, url, session):
        title, html = PAGES[url]
        return process_html(html=html, url=url, title=title, display_urls=True, session=session)


backend.ExaBackend = backend.YouComBackend = Local
file, transport, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
loader = importlib.machinery.SourceFileLoader("published", file)
published = importlib.util.module_from_spec(importlib.util.spec_from_loader("published", loader))
sys.modules["published"] = published
loader.exec_module(published)
published.mcp.settings.port = port
published.mcp.run(transport=transport)
