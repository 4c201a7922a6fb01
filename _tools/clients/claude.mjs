// Runs Claude Code, as published, against a live server; prints one line per check.
//
// usage: node claude.mjs PACKAGES URL
// PACKAGES is a folder with the node_modules of package.json, URL a server of
// scripted/ with scripted/claude.txt. Nothing else can be reached: all other
// connections go to a proxy that does not exist.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [packages, url] = process.argv.slice(2);
const modules = join(resolve(packages), 'node_modules');
const { version } = JSON.parse(readFileSync(join(modules, '@anthropic-ai/claude-code/package.json')));

// claude lets it do a task and returns what it said, as events, and what it left.
async function claude(note) {
  const dir = mkdtempSync(join(tmpdir(), 'claude-'));
  try {
    const [home, work] = ['home', 'work'].map((name) => join(dir, name));
    mkdirSync(home), mkdirSync(work);
    writeFileSync(join(work, 'note.txt'), note + '\n');
    const nowhere = 'http://127.0.0.1:9';
    const env = {
      PATH: process.env.PATH, HOME: home, TMPDIR: dir, HTTP_PROXY: nowhere, HTTPS_PROXY: nowhere, NO_PROXY: '127.0.0.1',
      ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'none', ANTHROPIC_MODEL: 'scripted', ANTHROPIC_SMALL_FAST_MODEL: 'scripted',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1', IS_SANDBOX: '1', // it runs as root in containers
    };
    const task = 'Read note.txt and write what it says in capitals to answer.txt.';
    const args = ['-p', task, '--output-format', 'stream-json', '--verbose', '--dangerously-skip-permissions'];
    const child = spawn(join(modules, '.bin/claude'), args, { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: 300_000 });
    let [out, err] = ['', ''];
    child.stdout.on('data', (data) => (out += data));
    child.stderr.on('data', (data) => (err += data));
    const [status] = await once(child, 'close');
    assert.equal(status, 0, `claude ended with ${status}\n${out}${err}`);
    const events = out.trim().split('\n').map((line) => JSON.parse(line));
    return { events, answer: readFileSync(join(work, 'answer.txt'), 'utf8').trim() };
  } finally {
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
}

const note = `a heron stands in the river ${Math.floor(Math.random() * 1e6)}`; // not known to the script
const ran = claude(note);

const checks = {
  // Two commands, the second made of what the first gave, and an answer.
  async task() {
    const { events, answer } = await ran;
    assert.equal(answer, note.toUpperCase());
    const results = events.filter((e) => e.type === 'user').flatMap((e) => e.message.content).filter((b) => b.type === 'tool_result');
    assert.deepEqual(results.map((b) => [b.content, b.is_error ?? false]), [[note, false], [note.toUpperCase(), false]]);
    const { subtype, result, num_turns } = events.at(-1);
    assert.deepEqual([subtype, result, num_turns], ['success', `I wrote ${note.toUpperCase()}.`, 3]);
  },

  // The counts of three requests; each finds the one before in the prefix cache.
  async usage() {
    const { usage } = (await ran).events.at(-1);
    assert(usage.output_tokens > 0 && usage.cache_read_input_tokens > usage.input_tokens, usage);
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
  console.log('claude-code', version, name, result);
}
