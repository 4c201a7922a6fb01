// Words of code and what they are, by Prism's tokenizer: it makes tokens, no HTML, and is loaded
// when the first code block is complete.

import type { Prism as PrismType } from "./prism";

export type Piece = string | { kind: string; pieces: Piece[] };

export const MOST = 100_000; // characters of a block that is coloured

let loading: Promise<PrismType> | undefined;

const names: Record<string, string> = {
  js: "javascript", ts: "typescript", py: "python", python3: "python", sh: "bash", shell: "bash", zsh: "bash", console: "bash",
  html: "markup", xml: "markup", svg: "markup", yml: "yaml", golang: "go", rs: "rust", "c++": "cpp", cc: "cpp", h: "c", hpp: "cpp",
  "c#": "csharp", cs: "csharp", rb: "ruby", kt: "kotlin", md: "markdown", jsonc: "json", json5: "json", patch: "diff", dockerfile: "docker", postgresql: "sql", mysql: "sql",
};

// highlighted returns the pieces of code, or nothing for a language that is not known.
export async function highlighted(code: string, language: string): Promise<Piece[] | undefined> {
  if (code.length > MOST) return undefined;
  loading ??= import("./prism").then((module) => module.default);
  const prism = await loading;
  const lower = language.toLowerCase().split(/[\s{,]/, 1)[0];
  const grammar = prism.languages[names[lower] ?? lower];
  if (!grammar || typeof grammar === "function") return undefined;
  return prism.tokenize(code, grammar).map(piece);
}

function piece(token: any): Piece {
  if (typeof token === "string") return token;
  const content = Array.isArray(token.content) ? token.content : [token.content];
  return { kind: token.type, pieces: content.map(piece) };
}
