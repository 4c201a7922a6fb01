// Numbers, times and texts as people read them.

// Control characters, and those that change the direction of text or are invisible: what they do
// to a line is not what its author wrote, so they are shown. Tab and newline stay.
const strange = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

// shown replaces characters that would hide or reorder text by symbols.
export function shown(text: string): string {
  return text.replace(strange, (c) => {
    const code = c.codePointAt(0)!;
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return "\u27e8U+" + code.toString(16).toUpperCase().padStart(4, "0") + "\u27e9";
  });
}

// count writes a whole number with commas between thousands.
export function count(n: number): string {
  return Math.round(n).toLocaleString("en");
}

// several is a number of things, "1 token" or "2 tokens".
export function several(n: number, one: string): string {
  return `${count(n)} ${one}${Math.round(n) === 1 ? "" : "s"}`;
}

// compact writes large numbers in a few characters, 8.2k, 1.3M.
export function compact(n: number): string {
  for (const [size, unit] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]] as const) {
    if (n >= size) return +(n / size).toPrecision(3) + unit;
  }
  return String(Math.round(n));
}

// duration writes milliseconds to about two digits: 0.35 s, 12 s, 3 min 20 s.
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "\u2013";
  const s = ms / 1000;
  if (s < 1) return s.toFixed(2) + " s";
  if (s < 9.95) return s.toFixed(1) + " s";
  if (s < 119.5) return Math.round(s) + " s";
  const whole = Math.round(s);
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

// rate writes tokens a second.
export function rate(tokens: number, ms: number): string {
  if (!(ms > 0) || !Number.isFinite(tokens)) return "\u2013";
  const perSecond = (tokens * 1000) / ms;
  return (perSecond < 10 ? perSecond.toFixed(1) : count(perSecond)) + " tokens/s";
}

// bytes writes a size.
export function bytes(n: number): string {
  if (n < 1024) return several(n, "byte");
  if (n < 1024 * 1024) return +(n / 1024).toFixed(1) + " KiB";
  if (n < 1024 * 1024 * 1024) return +(n / 1024 / 1024).toFixed(1) + " MiB";
  return +(n / 1024 / 1024 / 1024).toFixed(1) + " GiB";
}

// titleOf is a conversation's title by its first question: the first line, cut at 80 characters.
export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0].trim();
  const characters = [...line];
  if (characters.length > 80) return characters.slice(0, 79).join("").trimEnd() + "\u2026";
  return line || "New chat";
}

// safeAddress returns an address that may be a link, or nothing: web and mail only.
export function safeAddress(text: string): URL | undefined {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    return undefined;
  }
  return ["http:", "https:", "mailto:"].includes(url.protocol) ? url : undefined;
}

// wordCount is about how many words a text has.
export function wordCount(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}
