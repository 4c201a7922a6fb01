// What keeps the live view fed: /metrics every two seconds, /requests as it comes. Nothing is
// asked while the tab is hidden or the view closed, and after a failure ever more slowly.

import { Failure, request } from "./api";
import { INTERVAL, type Moment, moments } from "./live-series";
import { type Snapshot, snapshotOf } from "./live-requests";
import { eventsOf } from "./sse";

export interface Fed {
  moments: (of: Map<string, Moment>) => void; // by model; "" = all
  snapshot: (s: Snapshot) => void;
  trouble: (of: "metrics" | "requests", why: string) => void; // "" = there is none any more
}

const MOST = 10_000; // ms between tries

// pause waits, no longer than the signal allows.
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

// again does something over and over until the signal. It gives how long to wait, and throws where
// it failed.
async function again(signal: AbortSignal, of: "metrics" | "requests", fed: Fed, once: () => Promise<number>): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    let wait = 0;
    try {
      wait = await once();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Failure && error.status === 401) return; // goes on with another key
      fed.trouble(of, (error as Error).message);
      const told = error instanceof Failure ? error.retryAfter * 1000 : 0;
      wait = Math.min(MOST, Math.max(told, 1000 * 2 ** failures++));
    }
    await pause(wait, signal);
  }
}

async function metrics(signal: AbortSignal, fed: Fed): Promise<number> {
  const begun = performance.now();
  const answer = await request("/metrics", { signal, headers: { Accept: "text/plain" } });
  const text = await answer.text();
  fed.moments(moments(text, performance.now()));
  fed.trouble("metrics", "");
  return Math.max(0, INTERVAL - (performance.now() - begun));
}

async function requests(signal: AbortSignal, fed: Fed): Promise<number> {
  const answer = await request("/requests", { signal });
  for await (const event of eventsOf(answer.body!)) {
    if (event.cut) break;
    fed.snapshot(snapshotOf(event.raw));
    fed.trouble("requests", "");
  }
  throw new Failure("the server ended the list of requests");
}

// feed begins, and returns what ends it.
export function feed(fed: Fed): () => void {
  let running: AbortController | undefined;
  const turn = () => {
    if (document.hidden) {
      running?.abort();
      running = undefined;
    } else if (!running) {
      running = new AbortController();
      const { signal } = running;
      void again(signal, "metrics", fed, () => metrics(signal, fed));
      void again(signal, "requests", fed, () => requests(signal, fed));
    }
  };
  turn();
  document.addEventListener("visibilitychange", turn);
  return () => {
    document.removeEventListener("visibilitychange", turn);
    running?.abort();
  };
}
