"""A server of plain tools on the Python SDK, 1 or 2, for _tools/mcp.

usage: server.py stdio|sse|streamable-http|json|stateless [PORT]
"""
import asyncio
import sys
from typing import Optional

try:
    from mcp.server.mcpserver import Context, MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError
    modern = True
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server
    from mcp.server.fastmcp.exceptions import ToolError
    modern = False

how, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
settings = {"json_response": how == "json", "stateless_http": how == "stateless"} if how in ("json", "stateless") else {}
transport = how if how in ("stdio", "sse") else "streamable-http"
server = Server("plain", instructions="Plain tools.", **({} if modern else {"port": port, **settings}))


@server.tool(description="Adds.")
def add(a: int, b: int) -> int:
    return a + b


@server.tool(description="Finds.")
def find(text: str, limit: Optional[int] = None) -> str:
    return f"{text} {limit}"


@server.tool(description="Fails.")
def fail() -> str:
    raise ToolError("no such city")


@server.tool(description="Takes its time.")
async def steps(ctx: Context) -> str:
    for i in range(6):
        await asyncio.sleep(0.2)
        await ctx.report_progress(i, 6)
    return "at last"


arguments = {} if transport == "stdio" or not modern else {"port": port, **settings}
server.run(transport=transport, **arguments)
