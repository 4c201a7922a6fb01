// Server-sent events out of a stream of bytes. Lines may be split anywhere and be very long.

// An Event as it came: raw is its data.
export interface Sent {
  raw: string;
}

// Lines cuts text into events: the data of one stands before an empty line.
export class Lines {
  private rest = "";
  private data: string[] = [];

  // push returns the events that are complete with this text.
  push(text: string): Sent[] {
    const done: Sent[] = [];
    const all = this.rest === "" ? text : this.rest + text;
    let from = 0;
    for (;;) {
      const end = all.indexOf("\n", from);
      if (end < 0) break;
      const line = all.slice(from, end).replace(/\r$/, "");
      from = end + 1;
      if (line === "") {
        if (this.data.length > 0) done.push({ raw: this.data.join("\n") });
        this.data = [];
      } else if (line.startsWith("data:")) {
        this.data.push(line.startsWith("data: ") ? line.slice(6) : line.slice(5));
      } // event, id, retry and comments say nothing that data does not
    }
    this.rest = all.slice(from);
    return done;
  }

  // left is what a stream that ends now has not finished.
  left(): string {
    return [...this.data, this.rest].join("\n").trim();
  }
}

// eventsOf reads an answer's body to its end. What was left unfinished comes last, with cut, and
// then the error that ended it, if one did.
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Sent & { cut?: boolean }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const lines = new Lines();
  let broken: { error: unknown } | undefined;
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        broken = { error };
        return { done: true, value: undefined };
      });
      if (done) break;
      yield* lines.push(decoder.decode(value, { stream: true }));
    }
    const left = lines.left();
    if (left !== "") yield { raw: left, cut: true };
  } finally {
    reader.cancel().catch(() => {});
  }
  if (broken) throw broken.error;
}
