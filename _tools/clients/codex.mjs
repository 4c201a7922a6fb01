// Runs Codex CLI, as published, against a live server; prints one line per check.
//
// usage: node codex.mjs PACKAGES URL
// PACKAGES is a folder with the node_modules of package.json, URL a server of
// scripted/ with scripted/codex.txt. Nothing else can be reached: all other
// connections go to a proxy that does not exist.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [packages, url] = process.argv.slice(2);
const program = join(resolve(packages), 'node_modules/@openai/codex');
const { version } = JSON.parse(readFileSync(join(program, 'package.json')));
const same = assert.deepEqual;

const config = `
model = "scripted"
model_provider = "ossian"
model_context_window = 65536
check_for_update_on_startup = false
analytics.enabled = false
feedback.enabled = false
otel.metrics_exporter = "none"
features.plugins = false
features.shell_snapshot = false

[model_providers.ossian]
name = "ossian"
base_url = "${url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
`;

// codex lets it do a task and returns what it said, as events, and what it left.
async function codex(note) {
  const dir = mkdtempSync(join(tmpdir(), 'codex-'));
  try {
    const [home, work] = ['home', 'work'].map((name) => join(dir, name));
    mkdirSync(home), mkdirSync(work);
    writeFileSync(join(home, 'config.toml'), config);
    writeFileSync(join(work, 'note.txt'), note + '\n');
    const nowhere = 'http://127.0.0.1:9';
    const env = { PATH: process.env.PATH, HOME: home, CODEX_HOME: home, TMPDIR: dir, HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere, ALL_PROXY: nowhere, NO_PROXY: '127.0.0.1' };
    const task = 'Read note.txt and write what it says in capitals to answer.txt.';
    const args = ['exec', '--json', '--strict-config', '--skip-git-repo-check', '--sandbox', 'danger-full-access', '-C', work, task];
    const child = spawn(process.execPath, [join(program, 'bin/codex.js'), ...args], { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: 300_000 });
    let [out, err] = ['', ''];
    child.stdout.on('data', (data) => (out += data));
    child.stderr.on('data', (data) => (err += data));
    const [status] = await once(child, 'close');
    assert.equal(status, 0, `codex ended with ${status}\n${out}${err}`);
    const events = out.trim().split('\n').map((line) => JSON.parse(line));
    return { events, answer: readFileSync(join(work, 'answer.txt'), 'utf8').trim() };
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

const note = `a heron stands in the river ${Math.floor(Math.random() * 1e6)}`; // not known to the script
const ran = codex(note);
const items = (events, type) => events.filter((e) => e.type === 'item.completed' && e.item.type === type).map((e) => e.item);

const checks = {
  // Two commands, the second made of what the first gave, and an answer.
  async task() {
    const { events, answer } = await ran;
    assert.equal(answer, note.toUpperCase());
    const commands = items(events, 'command_execution');
    same(commands.map((c) => [c.exit_code, c.status, c.aggregated_output.trim()]), [[0, 'completed', note], [0, 'completed', note.toUpperCase()]]);
    const said = items(events, 'agent_message').map((m) => m.text);
    same([said.length, said[0]], [2, `The note says ${note}.`]);
    assert(said[1].startsWith('I wrote it.'), said[1]);
  },

  // A call of a tool that was declared in a namespace gets there, and its result back.
  async namespace() {
    const said = items((await ran).events, 'agent_message').at(-1).text;
    assert(said.includes(`invalid agent id ${note.toUpperCase()}`), said);
  },

  // The counts of four requests; each finds the one before in the prefix cache.
  async usage() {
    const { type, usage } = (await ran).events.at(-1);
    assert.equal(type, 'turn.completed');
    assert(usage.output_tokens > usage.reasoning_output_tokens && usage.reasoning_output_tokens > 0, usage);
    assert(usage.input_tokens > usage.cached_input_tokens && usage.cached_input_tokens > usage.input_tokens / 2, usage);
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
  console.log('codex', version, name, result);
}
