// A chart of the last 15 minutes. uPlot, which draws it, is loaded with the first one.

import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { useCell } from "./cell";
import { saying, type Tile } from "./live-figures";
import { SPAN } from "./live-series";
import { isDark, preferences } from "./preferences";

let loading: Promise<typeof uPlot> | undefined;

function load(): Promise<typeof uPlot> {
  loading ??= import("uplot").then((module) => module.default, (error) => {
    loading = undefined; // the next chart tries again
    throw error;
  });
  return loading;
}

const HEIGHT = 96;
const BASES = [1, 1.5, 2, 3, 4, 6, 8, 10];

// round is the next figure above a value that reads well, in a unit.
export function round(value: number, unit: number): number {
  const power = 10 ** Math.floor(Math.log10(value / unit));
  return unit * power * BASES.find((base) => base * power * unit >= value * 0.999)!;
}

// shownSpan is how many seconds a chart shows: as many as there is something of, in three steps.
export function shownSpan(seconds: number): number {
  return [180, 360].find((span) => seconds <= span) ?? SPAN / 1000;
}

// options are how a tile's chart looks, in the colours of the page as they are now.
function options(tile: Tile, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--ink-faint"), font: `11px ${colour("--sans")}`, ticks: { show: false }, gap: 4 };
  return {
    width, height: HEIGHT, padding: [8, 14, 0, 0], cursor: { show: false }, legend: { show: false },
    scales: {
      x: { time: false, range: (plot) => [-shownSpan(-(plot.data[0]?.[0] ?? 0)), 0] },
      y: { range: (_, __, most) => [0, tile.most ?? (most > 0 ? round(most, tile.scale ?? 1) : 1)] },
    },
    axes: [
      { ...axis, size: 20, grid: { show: false }, splits: (_, __, least) => [least, (2 * least) / 3, least / 3, 0], values: (_, all) => all.map((s) => (Math.round(s) === 0 ? "now" : `${Math.round(-s / 60)} min`)) },
      { ...axis, size: 58, grid: { stroke: colour("--line"), width: 1 }, splits: (_, __, ___, most) => [0, most / 2, most], values: (_, all) => all.map((v) => (v === 0 ? "0" : tile.write(v))) },
    ],
    series: [{}, ...tile.lines.map((line, i) => ({
      label: line.name || tile.title, stroke: colour(`--series-${i + 1}`), width: 1.75, spanGaps: false, points: { show: false },
      ...(tile.lines.length === 1 ? { fill: colour(`--series-${i + 1}`) + "1f" } : i === 1 ? { dash: [5, 3] } : {}),
    }))],
  };
}

// Chart draws a tile. Those who do not see it are told its figures.
export function Chart({ tile, times }: { tile: Tile; times: number[] }) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | undefined>(undefined);
  const data = useRef<uPlot.AlignedData>([[]]);
  data.current = [times, ...tile.lines.map((line) => line.values)] as uPlot.AlignedData;
  useCell(preferences);
  const dark = isDark();
  const about = useRef(tile);
  about.current = tile;
  useEffect(() => {
    let gone = false;
    const element = place.current!;
    const fit = new ResizeObserver(() => drawn.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    load().then((Plot) => {
      if (gone) return;
      drawn.current = new Plot(options(about.current, element.clientWidth), data.current, element);
      fit.observe(element);
    }, () => {}); // the figures are there without it
    return () => {
      gone = true;
      fit.disconnect();
      drawn.current?.destroy();
      drawn.current = undefined;
    };
  }, [dark]);
  useEffect(() => {
    drawn.current?.setData(data.current);
  }, [times]);
  return <div class="chart" ref={place} role="img" aria-label={saying(tile)} />;
}
