// The developer view of an answer: its request as it was sent, as JSON and as a command, and the
// events as they came. The key is in none of them.

import { useEffect, useRef } from "preact/hooks";
import type { Run } from "./chats";
import { CopyButton } from "./controls";
import { shown, several } from "./format";
import type { Message } from "./tree";

// curl is the command that sends a request. $OSSIAN_API_KEY stands where a key would.
export function curl(request: unknown, origin: string): string {
  const body = JSON.stringify(request).replace(/'/g, "'\\''");
  return `curl -N ${origin}/v1/responses \\\n  -H "Authorization: Bearer $OSSIAN_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

const MOST = 200_000; // characters of one text that are drawn; copying has all

function Part({ title, text }: { title: string; text: string }) {
  return (
    <section>
      <div class="code-head"><span>{title}</span><CopyButton text={() => text} label={"Copy " + title.toLowerCase()} /></div>
      <pre tabIndex={0} aria-label={title}>{shown(text.length > MOST ? text.slice(0, MOST) + "\n\u2026" : text)}</pre>
    </section>
  );
}

export function DeveloperView({ message, run }: { message: Message; run?: Run }) {
  const answer = message.answer!;
  const view = useRef<HTMLDivElement>(null);
  useEffect(() => view.current?.scrollIntoView({ block: "start" }), []);
  return (
    <div class="developer" data-testid="developer-view" ref={view}>
      {run ? (
        <>
          <Part title="Request" text={JSON.stringify(run.request, null, 2)} />
          <Part title="Command" text={curl(run.request, location.origin)} />
          <Part title={several(run.events.length, "event")} text={run.events.join("\n") + (run.dropped > 0 ? `\n${several(run.dropped, "event")} more were not kept` : "")} />
        </>
      ) : (
        <>
          <p class="faint">Request and events are kept as long as the page that made them. Of this answer there are its items.</p>
          <Part title="Items" text={JSON.stringify(answer.items, null, 2)} />
        </>
      )}
    </div>
  );
}
