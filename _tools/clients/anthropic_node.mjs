// Runs Anthropic's SDK for TypeScript, as published, against a live server; prints one line per check.
//
// usage: node anthropic_node.mjs PACKAGES URL
// PACKAGES is a folder with the node_modules of package.json, URL a server of ossian-tiny.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [packages, url] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), 'package.json'));
const Anthropic = require('@anthropic-ai/sdk').default;
const { version } = JSON.parse(readFileSync(join(resolve(packages), 'node_modules/@anthropic-ai/sdk/package.json')));
const client = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const same = assert.deepEqual;

const ask = (content, more = {}) => ({ model: 'ossian-tiny', max_tokens: 400, temperature: 0, messages: [{ role: 'user', content }], ...more });
const thinking = { thinking: { type: 'enabled', budget_tokens: 1024 } };
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const weather = ask('What is the weather in Paris?', { tools: [{ name: 'get_weather', description: 'Get the weather in a city.', input_schema: schema }] });

// plain returns the content without the ids of calls, and what helpers add.
const plain = (message) => message.content.map(({ type, text, thinking, name, input }) => JSON.parse(JSON.stringify({ type, text, thinking, name, input })));

const checks = {
  async create() {
    const m = await client.messages.create(ask('12+30'));
    same([m.type, m.role, m.stop_reason, m.content], ['message', 'assistant', 'end_turn', [{ type: 'text', text: '42' }]]);
  },

  // The message that the helper puts together is the one that is not streamed, and its events tell of it.
  async stream() {
    for (const request of [ask('Hello!', thinking), { ...weather, ...thinking }]) {
      const want = await client.messages.create(request);
      const [texts, thoughts, inputs] = [[], [], []];
      const s = client.messages.stream(request);
      s.on('text', (text) => texts.push(text)).on('thinking', (text) => thoughts.push(text)).on('inputJson', (part) => inputs.push(part));
      const got = await s.finalMessage();
      same(plain(got), plain(want));
      same([got.stop_reason, got.usage.output_tokens], [want.stop_reason, want.usage.output_tokens]);
      const all = (type, member) => want.content.filter((b) => b.type === type).map((b) => b[member]).join('');
      same([texts.join(''), thoughts.join('')], [all('text', 'text'), all('thinking', 'thinking')]);
      if (want.stop_reason === 'tool_use') same(JSON.parse(inputs.join('')), { city: 'Paris' });
    }
  },

  // A call, its result, and the answer that has it.
  async tools() {
    const first = await client.messages.create(weather);
    const call = first.content.find((b) => b.type === 'tool_use');
    same([first.stop_reason, call.name, call.input], ['tool_use', 'get_weather', { city: 'Paris' }]);
    const result = { type: 'tool_result', tool_use_id: call.id, content: '{"temperature":18}' };
    const history = [...weather.messages, { role: 'assistant', content: first.content }, { role: 'user', content: [result] }];
    const answer = await client.messages.create({ ...weather, messages: history });
    assert(answer.stop_reason === 'end_turn' && answer.content[0].text.includes('18'), answer);
  },

  // The same by the client's own loop.
  async tool_runner() {
    const cities = [];
    const tool = { ...weather.tools[0], run: ({ city }) => (cities.push(city), '{"temperature":18}'), parse: (input) => input };
    const last = await client.beta.messages.toolRunner({ ...weather, tools: [tool] });
    same(cities, ['Paris']);
    assert(last.content.at(-1).text.includes('18'), last);
  },

  async counts() {
    const { messages, tools, model } = weather;
    const { usage } = await client.messages.create(weather);
    assert.equal((await client.messages.countTokens({ messages, tools, model })).input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  },

  async errors() {
    await assert.rejects(client.messages.create({ ...ask('x'), model: 'claude-x' }), (e) => {
      assert(e instanceof Anthropic.NotFoundError && e.status === 404 && e.requestID, e);
      same([e.error.type, e.error.error.type], ['error', 'not_found_error']);
      return true;
    });
  },

  async abort() {
    const s = client.messages.stream(ask('Hello!'));
    s.on('streamEvent', () => s.abort());
    await assert.rejects(s.finalMessage(), Anthropic.APIUserAbortError);
  },
};

for (const [name, check] of Object.entries(checks)) {
  let result = 'pass';
  try {
    await check();
  } catch (e) {
    result = 'fail';
    process.exitCode = 1;
    console.error(e.stack);
  }
  console.log('anthropic-node', version, name, result);
}
