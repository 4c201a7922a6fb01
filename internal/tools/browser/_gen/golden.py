"""Writes what the published browser of gpt-oss makes of the inputs in testdata.

    TIKTOKEN_CACHE_DIR=DIR_OF_O200K python golden.py     (gpt-oss 0.0.9, Python 3.12)

page/testdata/reference.json: text, title and links of the pages of page/testdata/pages.html.
page/testdata/wrapped.json: lines and the cuts that its wrap_lines makes of them.
testdata/reference.json: the displays of the calls in testdata/transcript.jsonl, on a backend that
answers from testdata/site.json. gpt-oss is Apache-2.0, copyright OpenAI."""
import asyncio
import json
import logging
import pathlib
import random

import chz
from gpt_oss.tools.simple_browser import simple_browser_tool as tool
from gpt_oss.tools.simple_browser.backend import VIEW_SOURCE_PREFIX, Backend, BackendError
from gpt_oss.tools.simple_browser.page_contents import process_html
from openai_harmony import Author, Message, Role, TextContent

HERE = pathlib.Path(__file__).resolve().parent.parent


def write(path, value):
    (HERE / path).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def pages():
    out = {}
    for block in (HERE / "page/testdata/pages.html").read_text().removeprefix("=== ").split("\n=== "):
        head, _, document = block.partition("\n")
        name, _, address = head.rpartition(" ")
        if not name:
            name, address = head, ""
        try:
            page = process_html(document, address, None, display_urls=True)
            out[name] = {"title": page.title, "text": page.text, "links": list(page.urls.values())}
        except Exception as e:  # the reference gives up on some
            out[name] = {"error": f"{type(e).__name__}: {e}"}
    return out


def wrapped():
    rng = random.Random(1)
    pieces = ["a", "word", "well-known", "--", "---", "-", "mother-in-law", "x" * 30, "é", "漢字", "1-2", "b-1", " ", "  ", "\t", "!", "\"q\"", "'", "&", ".",
              ",", "?", "_", "(", "【3†link†host.org】", "\u00a0", "\u2028", "\r", "\x0b", "y" * 90, "-" * 85, "ab-" * 30, "①", "½", "e\u0301", "~~", "L1:", "٣"]
    out = []
    for n in range(200):
        text = "".join(rng.choice(pieces) + rng.choice(["", " ", " ", "-"]) for _ in range(rng.randrange(1, 40)))
        if n % 5 == 0:
            text += "\n\n" + text[:40] + "\n"
        out.append({"text": text, "lines": tool.wrap_lines(text)})
    return out


@chz.chz(typecheck=True)
class Site(Backend):
    site: dict = chz.field(doc="pages by address, hits by query")

    async def search(self, query, topn, session):
        hits = self.site["searches"].get(query)
        if hits is None:
            raise BackendError("the index is closed")
        items = "".join(f"<li><a href='{h['url']}'>{h['title']}</a> {h['summary']}</li>" for h in hits)
        return process_html(f"\n<html><body>\n<h1>Search Results</h1>\n<ul>\n{items}\n</ul>\n</body></html>\n", "", query, display_urls=True)

    async def fetch(self, url, session):
        page = self.site["pages"].get(url.removeprefix(VIEW_SOURCE_PREFIX))
        if page is None:
            raise BackendError("404 not found")
        return process_html(page["html"] * page.get("times", 1), url, page["title"], display_urls=True)


async def displays():
    site = json.loads((HERE / "testdata/site.json").read_text())
    browser, out = None, []
    for line in (HERE / "testdata/transcript.jsonl").read_text().splitlines():
        step = json.loads(line)
        if "conversation" in step:
            browser = tool.SimpleBrowserTool(backend=Site(source="web", site=site))
            continue
        message = Message(author=Author(role=Role.ASSISTANT), content=[TextContent(text=step["arguments"])], recipient="browser." + step["tool"])
        try:
            texts = [m.content[0].text async for m in browser._process(message)]
        except Exception as e:
            texts = [f"{type(e).__name__}: {e}"]
        out.append("\n".join(texts))
    return out


logging.disable()
write("page/testdata/reference.json", pages())
write("page/testdata/wrapped.json", wrapped())
write("testdata/reference.json", asyncio.run(displays()))
