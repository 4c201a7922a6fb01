// Runs the OpenAI Agents SDK for JavaScript, as published, against a live server; prints one line per check.
//
// usage: node agents_node.mjs PACKAGES URL
// PACKAGES is a folder with the node_modules of package.json, URL a server of
// ossian-tiny without a key. Nothing else is contacted: tracing is off.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [packages, url] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), 'package.json'));
const { Agent, MemorySession, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, tool } = require('@openai/agents');
const { version } = require(join(resolve(packages), 'node_modules/@openai/agents/package.json'));
const OpenAI = require('openai').default;
const { z } = require('zod');

const same = assert.deepEqual;
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const runner = new Runner({ tracingDisabled: true });
const models = { responses: new OpenAIResponsesModel(client, 'ossian-tiny'), chat: new OpenAIChatCompletionsModel(client, 'ossian-tiny') };
const Person = z.object({ name: z.string().max(20), age: z.int().min(0).max(150), pets: z.array(z.enum(['cat', 'dog'])).max(3) });
const question = 'What is the weather in Paris?';
const steps = ['reasoning_item', 'tool_call_item', 'tool_call_output_item', 'reasoning_item', 'message_output_item'];

// weather returns an agent that asks for the weather, and the cities for which it did.
function weather(api, settings = {}) {
  const cities = [];
  const getWeather = tool({
    name: 'get_weather',
    description: 'Get the weather in a city.',
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => (cities.push(city), '{"temperature":18}'),
  });
  return { cities, agent: new Agent({ name: 'weather', model: models[api], modelSettings: { temperature: 0, ...settings }, tools: [getWeather] }) };
}

// done requires that the agent called its tool once and made an answer of what it gave.
function done(cities, result) {
  same(cities, ['Paris']);
  assert.match(result.finalOutput, /18/);
  same(result.newItems.map((i) => i.type), steps);
  const [, call, output] = result.newItems.map((i) => i.rawItem);
  same([call.name, JSON.parse(call.arguments)], ['get_weather', { city: 'Paris' }]);
  assert.equal(call.callId, output.callId);
  assert.equal(result.runContext.usage.requests, 2);
}

const checks = {
  async tools(api) {
    // What is not stored is sent back as chat sends it; stored output goes on with the ids
    // that were sampled, as previous_response_id does.
    const unstored = (api) => weather(api, api === 'responses' ? { store: false } : {});
    const { agent, cities } = unstored(api);
    const result = await runner.run(agent, question, { maxTurns: 2 });
    done(cities, result);
    // Both ways say the same to the model, with the reasoning behind the call.
    const other = await runner.run(unstored(api === 'chat' ? 'responses' : 'chat').agent, question);
    const counts = ({ runContext: { usage } }) => [usage.inputTokens, usage.outputTokens];
    same(counts(result), counts(other));
  },

  async tools_stream(api) {
    const { agent, cities } = weather(api);
    const result = await runner.run(agent, question, { maxTurns: 2, stream: true });
    const events = [];
    for await (const event of result) events.push(event);
    await result.completed;
    done(cities, result);
    const raw = events.filter((e) => e.type === 'raw_model_stream_event').map((e) => e.data);
    assert.equal(raw.map((d) => (d.type === 'output_text_delta' ? d.delta : '')).join(''), result.finalOutput);
    assert.equal(raw.filter((d) => d.type === 'response_done').length, 2);
    const names = events.filter((e) => e.type === 'run_item_stream_event').map((e) => e.name);
    same(names, ['reasoning_item_created', 'tool_called', 'tool_output', 'reasoning_item_created', 'message_output_created']);
  },

  async required(api) {
    const { agent, cities } = weather(api, { toolChoice: 'required', parallelToolCalls: false });
    const result = await runner.run(agent, 'What is the weather in Rome?', { maxTurns: 2 });
    assert.equal(cities.length, 1);
    assert(result.finalOutput);
  },

  async structured(api) {
    const agent = new Agent({ name: 'reader', model: models[api], modelSettings: { temperature: 0 }, outputType: Person });
    const { finalOutput } = await runner.run(agent, 'name: Ada. age: 36. pets: cat and dog.');
    Person.parse(finalOutput);
    const streamed = await runner.run(agent, 'name: Ada. age: 36. pets: cat and dog.', { stream: true });
    await streamed.completed;
    same(streamed.finalOutput, finalOutput);
  },

  async session(api) {
    const { agent, cities } = weather(api);
    const session = new MemorySession();
    done(cities, await runner.run(agent, question, { session }));
    const again = await runner.run(agent, 'Hello!', { session });
    assert(again.finalOutput && (await session.getItems()).length > steps.length + 1);
    assert(again.runContext.usage.inputTokensDetails[0].cached_tokens > 0);
  },
};

async function chained() {
  const { agent, cities } = weather('responses');
  const result = await runner.run(agent, question);
  done(cities, result);
  const again = await runner.run(agent, 'Hello!', { previousResponseId: result.lastResponseId });
  assert(again.finalOutput && again.runContext.usage.inputTokensDetails[0].cached_tokens > 0);
}

for (const [api, name, check] of [
  ...['responses', 'chat'].flatMap((api) => Object.entries(checks).map(([name, check]) => [api, name, check])),
  ['responses', 'chained', chained],
]) {
  let result = 'pass';
  try {
    await check(api);
  } catch (e) {
    result = 'fail';
    process.exitCode = 1;
    console.error(e.stack);
  }
  console.log('openai-agents-node', version, `${api}_${name}`, result);
}
