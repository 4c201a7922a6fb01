// All that is asked of the server goes through request: it adds the key, and turns answers that
// are no success into one kind of error.
//
// Invariant: the key is in sessionStorage or localStorage and in the Authorization header of
// requests to the page's own origin, and nowhere else.

import { Cell } from "./cell";
import { requestID } from "./own";

// A Failure is why something asked for was not given. Status 0: no answer came at all.
export class Failure extends Error {
  constructor(
    message: string,
    readonly status = 0,
    readonly code = "",
    readonly param = "",
    readonly retryAfter = 0, // seconds; 0 = the server does not say
  ) {
    super(message);
  }
}

const KEY = "ossian.key";

function storages(): Storage[] {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return []; // forbidden: the key lives as long as the page
  }
}

let onlyHere = ""; // the key where nothing is kept

export function key(): string {
  for (const storage of storages()) {
    const kept = storage.getItem(KEY);
    if (kept) return kept;
  }
  return onlyHere;
}

// setKey keeps a key for this tab, or with remember for this browser. The empty one forgets it.
export function setKey(value: string, remember: boolean): void {
  const [tab, browser] = storages();
  onlyHere = value;
  tab?.removeItem(KEY);
  browser?.removeItem(KEY);
  if (value !== "") {
    try {
      (remember ? browser : tab)?.setItem(KEY, value);
    } catch {
      // full: onlyHere has it
    }
  }
  known = undefined;
  keyState.set(value === "" ? "none" : "kept");
}

export type KeyState = "none" | "kept" | "wanted" | "refused";

// keyState is whether the server wants a key that it has not got: the dialog follows it.
export const keyState = new Cell<KeyState>(key() === "" ? "none" : "kept");

// failureOf reads an answer that is no success.
async function failureOf(answer: Response): Promise<Failure> {
  let message = `the server answered ${answer.status} ${answer.statusText}`.trim();
  let code = "";
  let param = "";
  try {
    const told = (await answer.json()).error;
    message = String(told?.message || message);
    code = String(told?.code ?? "");
    param = String(told?.param ?? "");
  } catch {
    // not the API's form: a proxy's, perhaps
  }
  const after = Number(answer.headers.get("Retry-After"));
  return new Failure(message, answer.status, code, param, Number.isFinite(after) && after > 0 ? after : 0);
}

// send asks the server with a key, or with none where it is empty. It throws a Failure for every
// answer that is no success, and what fetch throws where it was aborted.
async function send(path: string, init: RequestInit, sent: string): Promise<Response> {
  const headers = new Headers(init.headers);
  if (sent !== "") headers.set("Authorization", "Bearer " + sent);
  let answer: Response;
  try {
    answer = await fetch(path, { ...init, headers, credentials: "same-origin", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Failure("the connection to the server was lost");
  }
  if (answer.ok) return answer;
  throw await failureOf(answer);
}

// request asks the server with the kept key, as send does. Where a key is wanted the page asks for
// it, but not for what is asked quietly, which nobody waits for. A refusal says nothing of a key
// that came after the one that was sent: then the server is asked again, with the new one.
export async function request(path: string, init: RequestInit = {}, quiet = false): Promise<Response> {
  const sent = key();
  try {
    return await send(path, init, sent);
  } catch (error) {
    if (!(error instanceof Failure) || error.status !== 401) throw error;
    if (sent !== key()) return request(path, init, quiet);
    if (!quiet) keyState.set(sent === "" ? "wanted" : "refused");
    throw error;
  }
}

// tryKey asks the server with a key that is not kept, and gives why it was refused.
export async function tryKey(value: string): Promise<Failure | undefined> {
  try {
    await send("/info", {}, value);
  } catch (error) {
    return error as Failure;
  }
  return undefined;
}

// post sends JSON.
export function post(path: string, body: unknown, signal?: AbortSignal, quiet = false): Promise<Response> {
  return request(path, { method: "POST", headers: { "Content-Type": "application/json", "X-Request-Id": requestID() }, body: JSON.stringify(body), signal }, quiet);
}

// What GET /info says of a model. Fields that a server does not send are left out.
export interface ModelInfo {
  id: string;
  status?: { value?: string; failed?: boolean };
  family?: string;
  parameters?: number;
  quantization?: string;
  max_model_len?: number;
  context_window?: number;
  efforts?: string[];
  capabilities?: string[];
}

export interface ToolInfo {
  type: string;
  label?: string;
  available: boolean;
  reason?: string;
}

export interface Info {
  version: string;
  models: ModelInfo[];
  tools: ToolInfo[];
  uptime?: number; // seconds
  device?: unknown;
  limits?: unknown;
  auth?: unknown;
}

let known: Promise<Info> | undefined;

// info is what the page must know of the server, asked for once. forget asks again.
export function info(forget = false): Promise<Info> {
  if (forget) known = undefined;
  known ??= ask().catch((error) => {
    known = undefined;
    throw error;
  });
  return known;
}

async function ask(): Promise<Info> {
  const told = await (await request("/info")).json();
  return { ...told, version: String(told.version ?? ""), models: told.models ?? [], tools: told.tools ?? [] };
}
