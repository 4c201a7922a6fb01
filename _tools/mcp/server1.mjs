// A server of plain tools on the TypeScript SDK 1, for _tools/mcp.
// usage: node server1.mjs MODULES stdio|sse|streamable-http|json|stateless [PORT]
import { randomUUID } from 'node:crypto'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [modules, how, port] = process.argv.slice(2)
const load = async name => import(pathToFileURL(createRequire(modules + '/package.json').resolve(name)))
const sdk = '@modelcontextprotocol/sdk/server/'
const { McpServer } = await load(sdk + 'mcp.js')
const z = await load('zod')
const { default: express } = await load('express')

function build() {
  const server = new McpServer({ name: 'plain', version: '1' }, { instructions: 'Plain tools.' })
  const text = t => ({ content: [{ type: 'text', text: t }] })
  server.registerTool('add', { description: 'Adds.', inputSchema: { a: z.number().int(), b: z.number().int() }, outputSchema: { result: z.number() } },
    async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } }))
  server.registerTool('find', { description: 'Finds.', inputSchema: { text: z.string(), limit: z.union([z.string(), z.null()]).optional() } },
    async ({ text: t, limit }) => text(`${t} ${limit ?? 'None'}`))
  server.registerTool('fail', { description: 'Fails.' }, async () => { throw new Error('no such city') })
  server.registerTool('steps', { description: 'Takes its time.' }, async extra => {
    for (let i = 0; i < 6; i++) {
      await new Promise(resolve => setTimeout(resolve, 200))
      const progressToken = extra._meta?.progressToken
      if (progressToken !== undefined) await extra.sendNotification({ method: 'notifications/progress', params: { progressToken, progress: i, total: 6 } })
    }
    return text('at last')
  })
  return server
}

if (how === 'stdio') {
  const { StdioServerTransport } = await load(sdk + 'stdio.js')
  await build().connect(new StdioServerTransport())
} else {
  const app = express()
  const sessions = {}
  if (how === 'sse') {
    const { SSEServerTransport } = await load(sdk + 'sse.js')
    app.get('/sse', async (req, res) => {
      const transport = new SSEServerTransport('/messages', res)
      sessions[transport.sessionId] = transport
      await build().connect(transport)
    })
    app.post('/messages', express.json(), async (req, res) => {
      const transport = sessions[req.query.sessionId]
      if (transport) await transport.handlePostMessage(req, res, req.body)
      else res.status(404).end()
    })
  } else {
    const { StreamableHTTPServerTransport } = await load(sdk + 'streamableHttp.js')
    app.all('/mcp', express.json(), async (req, res) => {
      let transport = sessions[req.headers['mcp-session-id']]
      if (!transport) {
        transport = new StreamableHTTPServerTransport({
          sessionIdGenerator: how === 'stateless' ? undefined : randomUUID, enableJsonResponse: how === 'json',
          onsessioninitialized: id => { sessions[id] = transport },
        })
        await build().connect(transport)
      }
      await transport.handleRequest(req, res, req.body)
    })
  }
  app.listen(Number(port), '127.0.0.1')
}
