// Character references as Markdown has them outside of code: by number, and the names that
// answers use.

const named: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "\u00a9", reg: "\u00ae", trade: "\u2122", hellip: "\u2026",
  mdash: "\u2014", ndash: "\u2013", lsquo: "\u2018", rsquo: "\u2019", ldquo: "\u201c", rdquo: "\u201d", laquo: "\u00ab", raquo: "\u00bb",
  bull: "\u2022", middot: "\u00b7", times: "\u00d7", divide: "\u00f7", plusmn: "\u00b1", deg: "\u00b0", micro: "\u00b5", para: "\u00b6", sect: "\u00a7",
  euro: "\u20ac", pound: "\u00a3", yen: "\u00a5", cent: "\u00a2", larr: "\u2190", rarr: "\u2192", uarr: "\u2191", darr: "\u2193", harr: "\u2194",
  le: "\u2264", ge: "\u2265", ne: "\u2260", asymp: "\u2248", infin: "\u221e", sum: "\u2211", radic: "\u221a", alpha: "\u03b1", beta: "\u03b2", gamma: "\u03b3", delta: "\u03b4", lambda: "\u03bb", mu: "\u03bc", pi: "\u03c0", sigma: "\u03c3", omega: "\u03c9",
  shy: "", zwj: "\u200d", ensp: "\u2002", emsp: "\u2003", thinsp: "\u2009",
};

export function entities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z]{2,10}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return Object.hasOwn(named, name) ? named[name] : whole;
    const code = decimal !== undefined ? Number(decimal) : parseInt(hex, 16);
    if (code === 0 || code === 0xe000 || code === 0xe001 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return "\ufffd";
    return String.fromCodePoint(code);
  });
}
