// Runs openai-node and, with the newer of them, the Agents SDK, as published, against a
// server that runs tools; prints one line per check.
//
// usage: node tools_node.mjs PACKAGES CLIENT URL
// PACKAGES is a folder with the node_modules of package.json, CLIENT the name of one
// there, URL that of scripted/ with tools.txt and its site.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [packages, published, url] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), 'package.json'));
const OpenAI = require(published).default;
const { VERSION } = require(`${published}/version`);
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const same = assert.deepEqual;

const harp = 'Of what is the frame of a harp?';
const sum = 'What is six times seven?';
const weather = 'What is the weather?';
const search = { type: 'web_search' };
const code = { type: 'code_interpreter', container: { type: 'auto' } };
const mcp = { type: 'mcp', server_label: 'weather', require_approval: 'never' };
const [mark, page] = ['【1†L6】', 'https://corpus.local/harp.html'];

async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

// plain returns the output without what differs between two answers to one request.
const plain = (r) => JSON.parse(JSON.stringify(r.output, (k, v) => (['id', 'container_id', 'parsed'].includes(k) ? undefined : v)));

// everyForm asks whole, streamed, by the client's helper, and in the background; check gets each.
async function everyForm(input, tool, check) {
  const asked = { model: 'scripted', input, tools: [tool], include: ['web_search_call.action.sources', 'code_interpreter_call.outputs'] };
  const whole = await client.responses.create(asked);
  const events = await collect(await client.responses.create({ ...asked, stream: true }));
  same(events.map((e) => e.sequence_number), events.map((_, i) => i));
  const last = events.at(-1);
  assert.equal(last.type, 'response.completed');
  same(events.filter((e) => e.type === 'response.output_item.done').map((e) => e.item), last.response.output);
  const helped = await client.responses.stream(asked).finalResponse();
  let later = await client.responses.create({ ...asked, background: true });
  assert.equal(later.status, 'queued');
  while (later.status === 'queued' || later.status === 'in_progress') {
    await new Promise((wake) => setTimeout(wake, 10));
    later = await client.responses.retrieve(later.id);
  }
  const replayed = await collect(await client.responses.retrieve(later.id, { stream: true }));
  same(replayed.at(-1).response.output, later.output);
  for (const r of [whole, last.response, helped, later]) {
    check(r);
    same(plain(r), plain(whole));
  }
  return events.map((e) => e.type);
}

// cited requires that the one citation selects its mark; its places count code points.
function cited(text, notes) {
  assert.equal(notes.length, 1);
  const note = notes[0].url_citation ?? notes[0];
  assert.equal([...text].slice(note.start_index, note.end_index).join(''), mark);
  same([note.url, note.title], [page, 'The harp']);
}

const answer = (r) => r.output.at(-1).content[0];

async function chat(content, more, check) {
  const asked = { model: 'scripted', messages: [{ role: 'user', content }], ...more };
  const { message, finish_reason: finish } = (await client.chat.completions.create(asked)).choices[0];
  assert.equal(finish, 'stop');
  assert(!message.tool_calls);
  check(message.content, message.annotations);
  const chunks = await collect(await client.chat.completions.create({ ...asked, stream: true }));
  const deltas = chunks.map((c) => c.choices[0].delta);
  assert(!deltas.some((d) => d.tool_calls));
  check(deltas.map((d) => d.content ?? '').join(''), deltas.at(-1).annotations);
  const helped = await client.chat.completions.stream(asked).finalChatCompletion();
  assert.equal(helped.choices[0].message.content, message.content);
}

const checks = {
  async responses_search() {
    const kinds = await everyForm(harp, search, (r) => {
      same(r.output.map((i) => i.type), ['reasoning', 'web_search_call', 'web_search_call', 'web_search_call', 'message']);
      same(r.output.slice(1, 4).map((i) => i.action.type), ['search', 'open_page', 'find_in_page']);
      same([r.output[1].action.sources[0].url, r.output[2].action.url], [page, page]);
      cited(answer(r).text, answer(r).annotations);
    });
    assert.equal(kinds.filter((k) => k === 'response.web_search_call.searching').length, 3);
  },

  async responses_code() {
    await everyForm(sum, code, (r) => {
      const [first, second] = r.output.filter((i) => i.type === 'code_interpreter_call');
      same([first.code, second.code, second.outputs[0].logs, answer(r).text], ['x = 6*7', 'print(x)', '42\n', 'It is 42.']);
    });
  },

  async responses_mcp() {
    await everyForm(weather, mcp, (r) => {
      const [listed, failed, now] = r.output.filter((i) => i.type.startsWith('mcp_'));
      same(listed.tools.map((t) => t.name), ['later', 'now']);
      same([failed.name, failed.status, failed.output], ['later', 'failed', null]);
      same([now.name, now.arguments, now.output, answer(r).text], ['now', '{"city":"Paris"}', 'rain', 'Now: rain']);
    });
  },

  async responses_approval() {
    const tools = [{ ...mcp, require_approval: 'always' }];
    const asked = await client.responses.create({ model: 'scripted', input: weather, tools });
    const request = asked.output.at(-1);
    same([request.type, request.name], ['mcp_approval_request', 'later']);
    const input = [{ type: 'mcp_approval_response', approval_request_id: request.id, approve: false, reason: 'No.' }];
    const declined = await client.responses.create({ model: 'scripted', previous_response_id: asked.id, input, tools });
    same([declined.output[0].type, declined.output[0].status], ['mcp_call', 'failed']);
  },

  async chat_search() {
    await chat(harp, { tools: [search] }, cited);
    await chat(harp, { web_search_options: {} }, cited);
  },

  chat_code: () => chat(sum, { tools: [code] }, (text) => assert.equal(text, 'It is 42.')),
  chat_mcp: () => chat(weather, { tools: [mcp] }, (text) => assert.equal(text, 'Now: rain')),
};

// ofAgents are the checks of the Agents SDK: an answer, streamed the same, and a second turn with
// all its items sent back.
function ofAgents() {
  const { Agent, OpenAIResponsesModel, Runner, codeInterpreterTool, hostedMcpTool, webSearchTool } = require('@openai/agents');
  const runner = new Runner({ tracingDisabled: true });
  const model = new OpenAIResponsesModel(client, 'scripted');
  const run = async (question, want, ...tools) => {
    const agent = new Agent({ name: 'reader', model, tools });
    const result = await runner.run(agent, question);
    assert.equal(result.finalOutput, want);
    const streamed = await runner.run(agent, question, { stream: true });
    await streamed.completed;
    assert.equal(streamed.finalOutput, want);
    const again = await runner.run(agent, [...result.history, { role: 'user', content: question }]);
    assert.equal(again.finalOutput, want);
    return result.newItems.map((i) => i.rawItem.name ?? i.rawItem.type);
  };
  return {
    search: () => run(harp, `☘ Of willow${mark}.`, webSearchTool()),
    code: () => run(sum, 'It is 42.', codeInterpreterTool()),
    mcp: () => run(weather, 'Now: rain', hostedMcpTool({ serverLabel: 'weather' })),
    async approval() {
      const asked = [];
      const onApproval = async (_, item) => (asked.push(item.rawItem.name), { approve: true });
      const agent = new Agent({ name: 'reader', model, tools: [hostedMcpTool({ serverLabel: 'weather', requireApproval: 'always', onApproval })] });
      const result = await runner.run(agent, weather);
      assert.equal(result.finalOutput, 'Now: rain');
      assert.equal(asked.length, 2);
    },
  };
}

async function report(of, version, all) {
  for (const [name, check] of Object.entries(all)) {
    let result = 'pass';
    try {
      await check();
    } catch (e) {
      result = 'fail';
      process.exitCode = 1;
      console.error(e.stack);
    }
    console.log(of, version, `tools_${name}`, result);
  }
}

await report('openai-node', VERSION, checks);
if (published === 'openai') {
  const { version } = require(join(resolve(packages), 'node_modules/@openai/agents/package.json'));
  await report('openai-agents-node', version, ofAgents());
}
