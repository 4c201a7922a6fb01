// The live view: what the server does now and did in the last 15 minutes, and which requests
// there are.

import { useEffect, useMemo, useState } from "preact/hooks";
import { type Info, info, keyState } from "./api";
import { useCell } from "./cell";
import { CopyButton } from "./controls";
import { count, duration, several, shown } from "./format";
import { Chart } from "./live-chart";
import { feed } from "./live-feed";
import { extent, latest, type Tally, tallies, type Tile, tiles, told, valueOf } from "./live-figures";
import { type Column, columnsOf, next, type Order, type Row, type Snapshot, sorted } from "./live-requests";
import { Ring } from "./live-series";
import { reportOf } from "./live-report";

const rings = new Map([["", new Ring()]]); // by model, "" = all; they stay while other views are open: coming back shows a gap, not nothing

export function LiveView() {
  const [moments, setMoments] = useState(0);
  const [snapshot, setSnapshot] = useState<Snapshot | undefined>();
  const [trouble, setTrouble] = useState({ metrics: "", requests: "" });
  const [server, setServer] = useState<Info | undefined>();
  const [model, setModel] = useState("");
  const names = [...rings.keys()].slice(1);
  const ring = rings.get(model)!;
  const key = useCell(keyState);
  useEffect(() => {
    info().then(setServer, () => {});
    return feed({
      moments: (of) => {
        for (const [name, m] of of) {
          if (!rings.has(name)) rings.set(name, new Ring());
          rings.get(name)!.push(m);
        }
        setMoments((n) => n + 1);
      },
      snapshot: setSnapshot,
      trouble: (of, why) => setTrouble((before) => (before[of] === why ? before : { ...before, [of]: why })),
    });
  }, [key]);
  const all = useMemo(() => tiles(ring), [moments, model]);
  const times = useMemo(() => ring.times(), [moments, model]);
  const counts = useMemo(() => tallies(ring), [moments, model]);
  const of = useMemo(() => (snapshot && model !== "" ? { ...snapshot, rows: snapshot.rows.filter((r) => r.model === model) } : snapshot), [snapshot, model]);
  const title = model || (names.length > 1 ? several(names.length, "model") : server?.models[0]?.id);
  const report = () => reportOf({ told: server, snapshot: of, model, tiles: all, tallies: counts, page: navigator.userAgent });
  return (
    <div class="wide-text live" data-testid="live-view">
      <header class="view-head">
        <div>
          <h1>Live</h1>
          <p class="faint">{server ? shown([title, typeof server.device === "string" ? server.device : ""].filter(Boolean).join(" on ")) : "\u00a0"}{snapshot ? ` \u00b7 up ${duration(snapshot.uptime * 1000)}` : ""}</p>
        </div>
        {names.length > 1 ? (
          <select class="live-model" aria-label="Model" data-testid="live-model" value={model} onChange={(event) => setModel(event.currentTarget.value)}>
            <option value="">All models</option>
            {names.map((name) => <option key={name} value={name}>{shown(name)}</option>)}
          </select>
        ) : null}
        <span class="copy-report">Copy as text <CopyButton text={report} label="Copy as text" testid="live-copy" /></span>
      </header>
      {trouble.metrics ? <p class="note-warn" role="status" data-testid="live-trouble">No figures: {shown(trouble.metrics)}. Trying again.</p> : null}
      <div class="tiles">{all.map((tile) => <TileView key={tile.title} tile={tile} times={times} />)}</div>
      <Figures all={all} />
      <Tallies counts={counts} />
      <Requests snapshot={of} trouble={trouble.requests} columns={columnsOf(names.length > 1)} />
    </div>
  );
}

function TileView({ tile, times }: { tile: Tile; times: number[] }) {
  return (
    <figure class="tile" data-testid="tile">
      <figcaption>{tile.title}</figcaption>
      <p class={tile.lines.length > 1 ? "values two" : "values"}>
        {tile.lines.map((line, i) => (
          <span class="value" key={line.name}>
            {tile.lines.length > 1 ? <span class={`key key-${i + 1}`} aria-hidden="true" /> : null}
            <b data-testid="tile-value">{valueOf(tile, line)}</b>
            {line.name || tile.unit ? <span class="unit">{line.name || tile.unit}</span> : null}
          </span>
        ))}
      </p>
      <Chart tile={tile} times={times} />
      <p class="note">{tile.note}</p>
    </figure>
  );
}

// Figures are the charts as a table.
function Figures({ all }: { all: Tile[] }) {
  return (
    <details class="figures">
      <summary>The charts as a table</summary>
      <div class="scroll" role="region" aria-label="Figures of the last 15 minutes" tabIndex={0}>
        <table>
          <thead><tr><th scope="col">Figure</th><th scope="col" class="number">Now</th><th scope="col" class="number">Least</th><th scope="col" class="number">Most</th></tr></thead>
          <tbody>
            {all.flatMap((tile) => tile.lines.map((line) => {
              const was = extent(line);
              return (
                <tr key={tile.title + line.name}>
                  <th scope="row">{[tile.title, line.name].filter(Boolean).join(", ")}{tile.unit ? ` (${tile.unit})` : ""}</th>
                  <td class="number">{latest(line) === null ? "\u2013" : valueOf(tile, line)}</td>
                  <td class="number">{was ? told(tile, was.least) : "\u2013"}</td>
                  <td class="number">{was ? told(tile, was.most) : "\u2013"}</td>
                </tr>
              );
            }))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Tallies({ counts }: { counts: Tally[] }) {
  if (counts.length === 0) return null;
  return (
    <section>
      <h2>Ends and refusals</h2>
      <div class="scroll" role="region" aria-label="Ends and refusals" tabIndex={0}>
        <table data-testid="tallies">
          <thead><tr><th scope="col">What</th><th scope="col">Why</th><th scope="col" class="number">Last 15 minutes</th><th scope="col" class="number">Since the start</th></tr></thead>
          <tbody>
            {counts.map((t) => (
              <tr key={t.group + t.name}><th scope="row">{t.group}</th><td>{shown(t.name)}</td><td class="number">{count(t.recent)}</td><td class="number">{count(t.all)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Requests({ snapshot, trouble, columns }: { snapshot: Snapshot | undefined; trouble: string; columns: Column[] }) {
  const [order, setOrder] = useState<Order>({ column: "", down: false });
  const rows = useMemo(() => sorted(snapshot?.rows ?? [], order), [snapshot, order]);
  const others = snapshot?.others;
  return (
    <section>
      <h2>Requests</h2>
      {trouble ? <p class="note-warn" role="status" data-testid="requests-trouble">The list stands still: {shown(trouble)}. Trying again.</p> : null}
      {snapshot && rows.length === 0 ? <p class="faint">No request yet. What is asked appears here while it waits and runs, and the last hundred that have ended stay.</p> : null}
      {rows.length > 0 ? (
        <div class="scroll" role="region" aria-label="Requests" tabIndex={0}>
          <table data-testid="requests">
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column.name} scope="col" class={column.numeric ? "number" : undefined} aria-sort={order.column !== column.name ? "none" : order.down ? "descending" : "ascending"}>
                    <button type="button" class="sort" onClick={() => setOrder(next(order, column))}>{column.name}<span class="arrow" aria-hidden="true">{order.column !== column.name ? "" : order.down ? "\u2193" : "\u2191"}</span></button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>{rows.map((row, i) => <RequestRow key={i} row={row} columns={columns} />)}</tbody>
          </table>
        </div>
      ) : null}
      {snapshot?.leftOut ? <p class="faint">{several(snapshot.leftOut, "more request")} not shown.</p> : null}
      {others && others.queued + others.running + others.ended > 0 ? <p class="faint" data-testid="others">Of other keys: {count(others.running)} running, {count(others.queued)} queued, {count(others.ended)} ended lately.</p> : null}
    </section>
  );
}

function RequestRow({ row, columns }: { row: Row; columns: Column[] }) {
  return (
    <tr class={row.own ? "own" : undefined} data-state={row.state} data-testid="request">
      {columns.map((column, i) => {
        const text = column.cell(row);
        if (i > 0) return <td key={column.name} class={column.numeric ? "number" : undefined}>{text}</td>;
        return <th key={column.name} scope="row" title={text}><span class="id">{text}</span>{row.own ? <span class="mine">this browser</span> : null}</th>;
      })}
    </tr>
  );
}
