// The live view as text, for a report of a fault: figures and ids, no word of what was asked or
// answered, and no key.

import type { Info } from "./api";
import { count, duration, shown } from "./format";
import { extent, type Tally, type Tile, told as toldOf, valueOf } from "./live-figures";
import { columnsOf, type Snapshot } from "./live-requests";

const ROWS = 25; // of requests

// table sets cells under each other.
export function table(rows: string[][]): string {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  return rows.map((row) => row.map((cell, i) => cell.padEnd(widths[i])).join("  ").trimEnd()).join("\n");
}

export interface Reported {
  told: Info | undefined;
  snapshot: Snapshot | undefined;
  tiles: Tile[];
  tallies: Tally[];
  page: string; // the browser
  model?: string; // of which the figures are; "" = of all
}

export function reportOf({ told, snapshot, tiles, tallies, page, model: wanted = "" }: Reported): string {
  const parts: string[] = [];
  const several = (told?.models.length ?? 0) > 1;
  const named = told?.models.filter((m) => wanted === "" || m.id === wanted) ?? [];
  const columns = columnsOf(several);
  parts.push([
    `Ossian ${shown(told?.version || "of unknown version")}`,
    `Model: ${shown(named.map((m) => [m.id, m.family, m.quantization].filter(Boolean).join(", ")).join("; ") || wanted || "unknown")}`,
    `Device: ${shown(typeof told?.device === "string" ? told.device : "unknown")}`,
    `Up: ${snapshot ? duration(snapshot.uptime * 1000) : "unknown"}`,
    `Browser: ${shown(page)}`,
  ].join("\n"));
  const figures = tiles.flatMap((tile) => tile.lines.map((line) => {
    const was = extent(line);
    const unit = tile.unit ? ` (${tile.unit})` : "";
    return [[tile.title, line.name].filter(Boolean).join(", ") + unit, valueOf(tile, line), was ? toldOf(tile, was.least) : "\u2013", was ? toldOf(tile, was.most) : "\u2013"];
  }));
  parts.push(table([["Last 15 minutes", "now", "least", "most"], ...figures]));
  if (tallies.length > 0) parts.push(table([["What", "why", "last 15 minutes", "since the start"], ...tallies.map((t) => [t.group, shown(t.name), count(t.recent), count(t.all)])]));
  if (snapshot && snapshot.rows.length > 0) parts.push(table([columns.map((c) => c.name), ...snapshot.rows.slice(0, ROWS).map((row) => columns.map((c) => c.cell(row)))]));
  return parts.join("\n\n") + "\n";
}
