// Renders templates with @huggingface/jinja 0.5.11, a second implementation.
//
// usage: node hf_render.mjs TEMPLATES CONVERSATIONS.json OUT.jsonl
import fs from "node:fs";
import path from "node:path";
import { Template } from "@huggingface/jinja";

// The library takes the date from the system: freeze it.
const NOW = new Date(2026, 10, 21, 12, 34, 56);
globalThis.Date = class extends Date {
  constructor(...args) {
    if (args.length) super(...args);
    else super(NOW);
  }
};

const [templates, conversations, out] = process.argv.slice(2);
const variables = JSON.parse(fs.readFileSync(conversations, "utf8"));
const lines = [];
for (const file of fs.readdirSync(templates).filter((f) => f.endsWith(".jinja")).sort()) {
  const source = fs.readFileSync(path.join(templates, file), "utf8");
  for (const [name, vars] of Object.entries(variables)) {
    const line = { template: file.slice(0, -6), conversation: name };
    try {
      line.text = new Template(source).render({ tools: null, documents: null, bos_token: "<|bos|>", eos_token: "<|eos|>", ...vars });
    } catch (e) {
      line.error = String(e.message ?? e);
    }
    lines.push(JSON.stringify(line));
  }
}
fs.writeFileSync(out, lines.join("\n") + "\n");
