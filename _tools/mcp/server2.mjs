// A server of plain tools on the TypeScript SDK 2, whose protocol is that of 2026, for _tools/mcp.
// usage: node server2.mjs MODULES stdio|both|modern [PORT]
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [modules, how, port] = process.argv.slice(2)
const load = async name => import(pathToFileURL(createRequire(modules + '/package.json').resolve(name)))
const { McpServer, createMcpHandler } = await load('@modelcontextprotocol/server')
const { toNodeHandler } = await load('@modelcontextprotocol/node')
const { serveStdio } = await load('@modelcontextprotocol/server/stdio')
const z = await load('zod')

function build() {
  const server = new McpServer({ name: 'plain', version: '2' }, { instructions: 'Plain tools.' })
  const text = t => ({ content: [{ type: 'text', text: t }] })
  server.registerTool('add', { description: 'Adds.', inputSchema: z.object({ a: z.number().int(), b: z.number().int() }), outputSchema: z.object({ result: z.number() }) },
    async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } }))
  server.registerTool('find', { description: 'Finds.', inputSchema: z.object({ text: z.string(), limit: z.union([z.string(), z.null()]).optional() }) },
    async ({ text: t, limit }) => text(`${t} ${limit ?? 'None'}`))
  server.registerTool('fail', { description: 'Fails.' }, async () => { throw new Error('no such city') })
  server.registerTool('steps', { description: 'Takes its time.' }, async ctx => {
    for (let i = 0; i < 6; i++) {
      await new Promise(resolve => setTimeout(resolve, 200))
      const progressToken = ctx.mcpReq._meta?.progressToken
      if (progressToken !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: i, total: 6 } })
    }
    return text('at last')
  })
  return server
}

if (how === 'stdio') serveStdio(build)
else {
  const handle = toNodeHandler(createMcpHandler(build, { legacy: how === 'modern' ? 'reject' : 'stateless' }))
  createServer((req, res) => {
    if (new URL(req.url, 'http://localhost').pathname === '/mcp') handle(req, res)
    else res.writeHead(404).end()
  }).listen(Number(port), '127.0.0.1')
}
