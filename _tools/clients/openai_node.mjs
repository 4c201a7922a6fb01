// Runs openai-node, as published, against a live server; prints one line per check.
//
// usage: node openai_node.mjs PACKAGES CLIENT URL KEYED_URL KEY
// PACKAGES is a folder with the node_modules of package.json, CLIENT the name of one
// there, URL a server of ossian-tiny without a key, KEYED_URL one that wants KEY.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const [packages, published, url, keyedURL, key] = process.argv.slice(2);
const require = createRequire(join(resolve(packages), 'package.json'));
const OpenAI = require(published).default;
const { LengthFinishReasonError } = require(`${published}/error`);
const { VERSION } = require(`${published}/version`);
const { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } = require(`${published}/helpers/zod`);
const { z } = require('zod');

const connect = (base, apiKey) => new OpenAI({ baseURL: base + '/v1', apiKey, maxRetries: 0 });
const client = connect(url, 'none');
const chat = client.chat.completions;
const text = client.completions;

const ask = (content, more = {}) => ({ model: 'ossian-tiny', temperature: 0, messages: [{ role: 'user', content }], ...more });
const tool = {
  name: 'get_weather',
  description: 'Get the weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const hello = ask('Hello!');
const sum = ask('12+30');
const weather = ask('What is the weather in Paris?', { tools: [{ type: 'function', function: tool }] });
const respond = (input, more = {}) => ({ model: 'ossian-tiny', temperature: 0, input, ...more });
const rWeather = respond('What is the weather in Paris?', { tools: [{ type: 'function', strict: false, ...tool }] });
const Person = z.object({ name: z.string().max(20), age: z.int().min(0).max(150), pets: z.array(z.enum(['cat', 'dog'])).max(3) });
const GetTime = z.object({ city: z.string().max(20), zone: z.enum(['UTC', 'local']) });
const ada = 'name: Ada. age: 36. pets: cat and dog.';
// The prompt has the date in it: on some days the small model would reason until its context ends.
const briefly = { thinking_token_budget: 200 };
const questions = ['Hello!', '12+30', 'What is the weather in Paris?']; // the last alone needs a tool
const prompt = { model: 'ossian-tiny', prompt: 'Hello', temperature: 0, max_tokens: 8 };

const same = assert.deepEqual;
const choice = async (request) => (await chat.create(request)).choices[0];
const final = async (request) => (await chat.stream(request).finalChatCompletion()).choices;

async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

const reasoned = (r) => r.output.flatMap((i) => (i.type === 'reasoning' ? i.content.map((c) => c.text) : [])).join('');

// plain returns the output without what differs between two responses to one request,
// and what the stream helper adds.
const plain = (r) => JSON.parse(JSON.stringify(r.output, (k, v) => (['id', 'call_id', 'parsed', 'parsed_arguments'].includes(k) ? undefined : v)));

// rCalled returns the result of the one call that the model is to make.
function rCalled(r) {
  const calls = r.output.filter((i) => i.type === 'function_call');
  same([r.status, calls.length, calls[0].name, calls[0].status], ['completed', 1, 'get_weather', 'completed']);
  same(JSON.parse(calls[0].arguments), { city: 'Paris' });
  return { type: 'function_call_output', call_id: calls[0].call_id, output: '{"temperature":18}' };
}

// fails requires that call rejects with this class and these fields.
async function fails(kind, call, status, param, code) {
  await assert.rejects(call, (e) => {
    assert(e instanceof kind && e.requestID && e.message, e);
    same([e.status, e.param, e.code, e.type], [status, param, code, 'invalid_request_error']);
    return true;
  });
}

// called returns the one call that the model is to make.
function called(c) {
  assert.equal(c.finish_reason, 'tool_calls');
  assert(!c.message.content);
  assert.equal(c.message.tool_calls.length, 1);
  const [call] = c.message.tool_calls;
  same([call.type, call.function.name], ['function', 'get_weather']);
  assert(call.id.startsWith('call_'));
  same(JSON.parse(call.function.arguments), { city: 'Paris' });
  return call;
}

// runner is a request whose call the client answers by itself.
function runner(cities, more) {
  const answer = ({ city }) => (cities.push(city), { temperature: 18 });
  return { ...weather, tools: [{ type: 'function', function: { ...tool, parse: JSON.parse, function: answer } }], ...more };
}

const checks = {
  async models() {
    const card = await client.models.retrieve('ossian-tiny');
    same([card.id, card.object, card.owned_by], ['ossian-tiny', 'model', 'ossian']);
    const list = await collect(client.models.list());
    same(list.map((m) => m.id), ['ossian-tiny']);
  },

  async chat() {
    const r = await chat.create(sum);
    same([r.object, r.model, r.choices.length], ['chat.completion', 'ossian-tiny', 1]);
    assert(r.id.startsWith('chatcmpl-') && r._request_id && r.system_fingerprint);
    assert(Math.abs(r.created - Date.now() / 1000) < 60);
    const [c] = r.choices;
    same([c.index, c.finish_reason, c.logprobs], [0, 'stop', null]);
    const m = c.message;
    same([m.role, m.content, m.refusal, m.tool_calls], ['assistant', '42', null, undefined]);
    assert(m.reasoning);
    assert.equal((await choice(ask('4821+3977'))).message.content, '8798');
    const short = await chat.create({ ...sum, max_completion_tokens: 3 });
    same([short.choices[0].finish_reason, short.usage.completion_tokens], ['length', 3]);
  },

  async stream() {
    const want = (await choice(hello)).message;
    const chunks = await collect(await chat.create({ ...hello, stream: true }));
    assert.equal(new Set(chunks.map((c) => [c.id, c.created, c.model, c.object].join())).size, 1);
    assert(chunks.every((c) => c.choices.length === 1 && !c.usage));
    const deltas = chunks.map((c) => c.choices[0].delta);
    same(deltas.flatMap((d, i) => ('role' in d ? [[i, d.role]] : [])), [[0, 'assistant']]);
    assert.equal(deltas.map((d) => d.content ?? '').join(''), want.content);
    assert.equal(deltas.map((d) => d.reasoning ?? '').join(''), want.reasoning);
    assert(deltas.filter((d) => d.content).length > 1, 'all content in one chunk');
    same(chunks.map((c) => c.choices[0].finish_reason), [...Array(chunks.length - 1).fill(null), 'stop']);
  },

  async accumulator() {
    const want = await choice(hello);
    const stream = chat.stream(hello);
    let content = '';
    const done = [];
    stream.on('content.delta', (e) => (content += e.delta)).on('content.done', (e) => done.push(e.content));
    const [got] = (await stream.finalChatCompletion()).choices;
    same([got.finish_reason, got.message.role, got.message.content], ['stop', 'assistant', want.message.content]);
    same([content, done], [want.message.content, [want.message.content]]);
    await assert.rejects(chat.parse({ ...hello, max_tokens: 3 }), LengthFinishReasonError);
  },

  async usage() {
    const want = (await chat.create(sum)).usage;
    const thought = want.completion_tokens_details.reasoning_tokens;
    const cached = want.prompt_tokens_details.cached_tokens;
    assert.equal(want.total_tokens, want.prompt_tokens + want.completion_tokens);
    assert(0 < thought && thought < want.completion_tokens);
    assert(0 <= cached && cached < want.prompt_tokens);
    const chunks = await collect(await chat.create({ ...sum, stream: true, stream_options: { include_usage: true } }));
    const last = chunks.pop();
    assert(chunks.every((c) => c.usage === null && c.choices.length === 1));
    same(last.choices, []);
    const counts = ({ prompt_tokens_details, ...rest }) => rest;
    same(counts(last.usage), counts(want));
  },

  async tools() {
    const first = await choice(weather);
    assert.equal(first.message.content, null);
    const reply = { role: 'tool', tool_call_id: called(first).id, content: '{"temperature":18}' };
    const answer = await choice({ ...weather, messages: [...weather.messages, first.message, reply] });
    assert.equal(answer.finish_reason, 'stop');
    assert.match(answer.message.content, /18/);
    const cities = [];
    assert.match(await chat.runTools(runner(cities)).finalContent(), /18/);
    same(cities, ['Paris']);
    const none = await choice({ ...weather, tool_choice: 'none' });
    same([none.finish_reason, none.message.tool_calls], ['stop', undefined]);
  },

  async tools_stream() {
    const want = called(await choice(weather)).function.arguments;
    const chunks = await collect(await chat.create({ ...weather, stream: true }));
    const [first, ...rest] = chunks.flatMap((c) => c.choices[0].delta.tool_calls ?? []);
    same([first.index, first.type, first.function], [0, 'function', { name: 'get_weather', arguments: '' }]);
    assert(first.id.startsWith('call_'));
    same(rest, rest.map((d) => ({ index: 0, function: { arguments: d.function.arguments } })));
    assert.equal(rest.map((d) => d.function.arguments).join(''), want);
    const stream = chat.stream(weather);
    const done = [];
    stream.on('tool_calls.function.arguments.done', (e) => done.push([e.name, e.index, e.arguments]));
    called((await stream.finalChatCompletion()).choices[0]);
    same(done, [['get_weather', 0, want]]);
    const cities = [];
    const run = chat.runTools(runner(cities, { stream: true, stream_options: { include_usage: true } }));
    assert.match(await run.finalContent(), /18/);
    same(cities, ['Paris']);
    assert((await run.totalUsage()).total_tokens > 0);
  },

  async structured() {
    const asked = ask(ada, { ...briefly, response_format: zodResponseFormat(Person, 'person') });
    const want = (await chat.parse(asked)).choices[0];
    same([want.finish_reason, Person.parse(JSON.parse(want.message.content))], ['stop', want.message.parsed]);
    assert(want.message.reasoning);
    const [got] = await final(asked);
    same([got.finish_reason, got.message.content, got.message.parsed], ['stop', want.message.content, want.message.parsed]);
    const chunks = await collect(await chat.create({ ...asked, stream: true }));
    assert.equal(chunks.map((c) => c.choices[0].delta.content ?? '').join(''), want.message.content);
    for (const seed of [0, 1, 2]) { // what is said may be silly, but it is of the form
      const c = await choice({ ...asked, temperature: 1, seed });
      assert.equal(c.finish_reason, 'stop');
      Person.parse(JSON.parse(c.message.content));
    }
    const bad = { type: 'json_schema', json_schema: { name: 'bad', schema: { properties: { x: { contains: {} } } } } };
    const at = 'response_format.json_schema.schema';
    await fails(OpenAI.BadRequestError, chat.create({ ...asked, response_format: bad }), 400, at, 'unsupported_schema');
    await assert.rejects(chat.stream({ ...asked, response_format: bad }).finalChatCompletion(), OpenAI.BadRequestError);
  },

  async required() {
    for (const question of questions) {
      const asked = ask(question, { tools: [zodFunction({ name: 'GetTime', parameters: GetTime })], tool_choice: 'required' });
      const want = (await chat.parse(asked)).choices[0];
      const [call] = want.message.tool_calls;
      same([want.finish_reason, want.message.tool_calls.length, call.function.name], ['tool_calls', 1, 'GetTime']);
      same(GetTime.parse(JSON.parse(call.function.arguments)), call.function.parsed_arguments);
      const [got] = await final(asked);
      same(got.message.tool_calls.map((c) => c.function), want.message.tool_calls.map((c) => c.function));
      const named = { type: 'function', function: { name: 'GetTime' } };
      const one = (await chat.parse({ ...asked, tool_choice: named })).choices[0];
      same([one.finish_reason, one.message.tool_calls.length], ['stop', 1]);
      GetTime.parse(one.message.tool_calls[0].function.parsed_arguments);
    }
  },

  async stop() {
    const whole = (await choice(hello)).message.content;
    const mark = whole.slice(whole.length >> 1).slice(0, 3);
    const want = [whole.slice(0, whole.indexOf(mark)), 'stop', mark];
    const fields = (c) => [c.message.content, c.finish_reason, c.stop_reason];
    same(fields(await choice({ ...hello, stop: [mark, 'no such words'] })), want);
    same(fields((await final({ ...hello, stop: mark }))[0]), want);
  },

  async logprobs() {
    const request = { ...hello, logprobs: true, top_logprobs: 3 };
    const want = await choice(request);
    const entries = want.logprobs.content;
    assert.equal(Buffer.from(entries.flatMap((e) => e.bytes)).toString(), want.message.content);
    for (const e of entries) {
      const top = e.top_logprobs.map((t) => t.logprob);
      assert.equal(top.length, 3);
      same(top, [...top].sort((a, b) => b - a));
      assert(top[0] <= 0);
      same([e.token, e.logprob], [e.top_logprobs[0].token, top[0]]);
    }
    const got = (await final(request))[0].logprobs.content;
    same(got.map((e) => e.token), entries.map((e) => e.token));
    assert(got.every((e, i) => Math.abs(e.logprob - entries[i].logprob) < 1e-3));
  },

  async n() {
    const request = { ...hello, n: 2, temperature: 1, seed: 7 };
    const fields = (c) => [c.index, c.message.content, c.finish_reason];
    const want = (await chat.create(request)).choices.map(fields);
    same(want.map(([index]) => index), [0, 1]);
    same((await final(request)).map(fields), want);
  },

  async seed() {
    const sample = async (seed) => {
      const r = await text.create({ ...prompt, temperature: 1, max_tokens: 32, seed });
      return r.choices[0].text + r.system_fingerprint;
    };
    const distinct = async (...seeds) => new Set(await Promise.all(seeds.map(sample))).size;
    assert.equal(await distinct(1, 1, 1, 1), 1);
    assert((await distinct(0, 1, 2, 3)) > 1);
  },

  async bad_request() {
    for (const [change, param, code] of [
      [{ temperature: 5 }, 'temperature', 'invalid_value'],
      [{ temperature: 'warm' }, 'temperature', 'invalid_type'],
      [{ messages: [] }, 'messages', 'invalid_value'],
      [{ messages: [{ role: 'nobody', content: 'x' }] }, 'messages[0].role', 'invalid_value'],
      [{ messages: [{ role: 'user', content: 'x '.repeat(9000) }] }, 'messages', 'context_length_exceeded'],
      [{ top_logprobs: 3 }, 'top_logprobs', 'invalid_value'],
    ]) {
      for (const stream of [false, true]) {
        await fails(OpenAI.BadRequestError, chat.create({ ...hello, ...change, stream }), 400, param, code);
      }
    }
  },

  async not_found() {
    const absent = { ...hello, model: 'nope' };
    await fails(OpenAI.NotFoundError, chat.create(absent), 404, 'model', 'model_not_found');
    await fails(OpenAI.NotFoundError, chat.create({ ...absent, stream: true }), 404, 'model', 'model_not_found');
    await fails(OpenAI.NotFoundError, client.models.retrieve('nope'), 404, 'model', 'model_not_found');
    await fails(OpenAI.NotFoundError, client.embeddings.create({ model: 'ossian-tiny', input: 'x' }), 404, null, 'not_found');
  },

  async authentication() {
    const stranger = connect(keyedURL, 'wrong');
    await fails(OpenAI.AuthenticationError, stranger.models.list(), 401, null, 'invalid_api_key');
    await fails(OpenAI.AuthenticationError, stranger.chat.completions.create(hello), 401, null, 'invalid_api_key');
    assert((await connect(keyedURL, key).chat.completions.create(hello)).choices[0].message.content);
  },

  async abort() {
    const load = async () => (await (await fetch(url + '/load')).json()).server_load;
    const aborted = async () => {
      const lines = (await (await fetch(url + '/metrics')).text()).split('\n');
      const row = lines.find((l) => l.startsWith('vllm:request_success_total') && l.includes('"abort"'));
      return Number(row.split(' ').pop());
    };
    const before = await aborted();
    const stream = await chat.create({ ...hello, n: 8, max_tokens: 3000, ignore_eos: true, stream: true });
    let seen = 0;
    for await (const _ of stream) {
      if (++seen === 3) {
        assert.equal(await load(), 1);
        break; // the client drops the connection
      }
    }
    for (const deadline = Date.now() + 5000; (await load()) > 0 || (await aborted()) === before; ) {
      assert(Date.now() < deadline, 'the server goes on');
    }
  },

  async parallel() {
    const requests = Array(4).fill([hello, sum, weather]).flat();
    const answers = await Promise.all(requests.map(choice));
    for (const [i, got] of answers.entries()) {
      if (requests[i] === weather) called(got);
      else same(got.message, (await choice(requests[i])).message);
    }
  },

  async completions() {
    const r = await text.create({ ...prompt, logprobs: 2 });
    same([r.object, r.choices.length, r.usage.completion_tokens], ['text_completion', 1, 8]);
    assert(r.id.startsWith('cmpl-'));
    const [c] = r.choices;
    assert.equal(c.finish_reason, 'length');
    const lp = c.logprobs;
    assert.equal(lp.tokens.join(''), c.text);
    same([lp.token_logprobs.length, lp.text_offset.length, lp.text_offset[0]], [8, 8, 0]);
    same(lp.top_logprobs.map((t) => Object.keys(t).length), Array(8).fill(2));
    const chunks = await collect(await text.create({ ...prompt, stream: true }));
    assert.equal(chunks.map((k) => k.choices[0].text).join(''), c.text);
    same(chunks.flatMap((k) => k.choices[0].finish_reason ?? []), ['length']);
    const both = (await text.create({ ...prompt, prompt: ['Hello', '12+'], n: 2, echo: true })).choices;
    same(both.map((b) => b.index), [0, 1, 2, 3]);
    assert.equal(both[0].text, 'Hello' + c.text);
    assert(both[3].text.startsWith('12+'));
  },

  async responses() {
    const r = await client.responses.create(respond('12+30', { metadata: { a: 'b' } }));
    same([r.status, r.output_text, r.object, r.error, r.metadata], ['completed', '42', 'response', null, { a: 'b' }]);
    same([r.output_text, reasoned(r)], [(await choice(sum)).message.content, (await choice(sum)).message.reasoning]);
    same(await client.responses.retrieve(r.id), r);
    const items = await collect(client.responses.inputItems.list(r.id));
    same(items.map((i) => [i.type, i.role, i.content[0].text]), [['message', 'user', '12+30']]);
    const short = await client.responses.create(respond('12+30', { max_output_tokens: 3 }));
    same([short.status, short.incomplete_details.reason], ['incomplete', 'max_output_tokens']);
    const more = await client.responses.create(respond('Hello!', { previous_response_id: r.id }));
    assert(more.output_text && more.usage.input_tokens_details.cached_tokens > 0);
    await client.responses.delete(r.id);
    await fails(OpenAI.NotFoundError, () => client.responses.retrieve(r.id), 404, 'response_id', 'response_not_found');
  },

  async responses_stream() {
    for (const asked of [respond('Hello!'), rWeather]) {
      const want = await client.responses.create(asked);
      const events = await collect(await client.responses.create({ ...asked, stream: true }));
      same(events.map((e) => e.sequence_number), events.map((_, i) => i));
      same([events[0].type, events.at(-1).type], ['response.created', 'response.completed']);
      same(plain(events.at(-1).response), plain(want));
      const helper = client.responses.stream(asked);
      let seen = 0;
      for await (const _ of helper) seen++;
      const got = await helper.finalResponse();
      same([seen, plain(got), got.output_text], [events.length, plain(want), want.output_text]);
      const kept = await collect(await client.responses.retrieve(events[0].response.id, { stream: true }));
      same(kept.at(-1).response, events.at(-1).response);
    }
  },

  async responses_tools() {
    const r = await client.responses.create(rWeather);
    const result = rCalled(r);
    const chained = await client.responses.create({ ...rWeather, input: [result], previous_response_id: r.id });
    assert(chained.output_text.includes('18'), chained);
    const again = await client.responses.create({ ...rWeather, input: [{ role: 'user', content: rWeather.input }, ...r.output, result], store: false });
    assert(again.output_text.includes('18'), again);
    const helper = await client.responses.stream(rWeather).finalResponse();
    rCalled(helper);
  },

  async responses_structured() {
    const asked = respond(ada, { ...briefly, text: { format: zodTextFormat(Person, 'person') } });
    const want = await client.responses.parse(asked);
    same([want.status, Person.parse(JSON.parse(want.output_text))], ['completed', want.output_parsed]);
    same([want.text.format.type, want.text.format.name, want.text.format.strict], ['json_schema', 'person', true]);
    assert(reasoned(want));
    const helper = client.responses.stream(asked);
    let text = '';
    helper.on('response.output_text.delta', (e) => (text += e.delta));
    const got = await helper.finalResponse();
    same([plain(got), got.output_parsed, text], [plain(want), want.output_parsed, want.output_text]);
    const events = await collect(await client.responses.create({ ...asked, stream: true }));
    same(events.filter((e) => e.type === 'response.output_text.done').map((e) => e.text), [want.output_text]);
    for (const seed of [0, 1, 2]) Person.parse(JSON.parse((await client.responses.create({ ...asked, temperature: 1, seed })).output_text));
    const format = { type: 'json_schema', name: 'bad', schema: { properties: { x: { contains: {} } } } };
    for (const more of [{}, { stream: true }, { background: true }]) {
      await fails(OpenAI.BadRequestError, client.responses.create({ ...asked, ...more, text: { format } }), 400, 'text.format.schema', 'unsupported_schema');
    }
  },

  async responses_required() {
    for (const question of questions) {
      const asked = respond(question, { tools: [zodResponsesFunction({ name: 'GetTime', parameters: GetTime })], tool_choice: 'required' });
      const want = await client.responses.parse(asked);
      const call = want.output.at(-1);
      same([want.status, call.type, call.name], ['completed', 'function_call', 'GetTime']);
      same(GetTime.parse(JSON.parse(call.arguments)), call.parsed_arguments);
      const got = await client.responses.stream(asked).finalResponse();
      same([plain(got), got.output.at(-1).parsed_arguments], [plain(want), call.parsed_arguments]);
    }
  },

  async responses_background() {
    for (const asked of [respond('Hello!'), rWeather]) {
      let r = await client.responses.create({ ...asked, background: true });
      assert.equal(r.status, 'queued');
      while (r.status === 'queued' || r.status === 'in_progress') {
        await new Promise((wake) => setTimeout(wake, 10));
        r = await client.responses.retrieve(r.id);
      }
      same(plain(r), plain(await client.responses.create(asked)));
      const events = await collect(await client.responses.retrieve(r.id, { stream: true }));
      same(events.slice(0, 3).map((e) => e.type), ['response.created', 'response.queued', 'response.in_progress']);
      const resumed = await client.responses.stream({ response_id: r.id, starting_after: 4 });
      same(await collect(resumed), events.slice(5));
      assert.equal((await client.responses.cancel(r.id)).status, 'completed');
    }
    const r = await client.responses.create(respond('Hello!', { background: true, ignore_eos: true, max_output_tokens: 100_000 }));
    assert.equal((await client.responses.cancel(r.id)).status, 'cancelled');
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
  console.log('openai-node', VERSION, name, result);
}
