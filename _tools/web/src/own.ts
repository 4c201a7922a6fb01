// Which requests are this browser's: their ids begin alike, so that the live view can mark them.

import { keepText, keptText } from "./kept";

function random(): string {
  return [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

let mark = "";

// ours is what the ids of this browser's requests begin with.
function ours(): string {
  mark ||= keptText("mark");
  if (!/^page-[0-9a-f]{16}-$/.test(mark)) {
    mark = `page-${random()}-`;
    keepText("mark", mark);
  }
  return mark;
}

// requestID is a new id for a request.
export function requestID(): string {
  return ours() + random();
}

export function isOwn(id: string): boolean {
  return id.startsWith(ours());
}
