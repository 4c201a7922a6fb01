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
const ticks = [-900, -600, -300, 0];

// options are how a tile's chart looks, in the colours of the page as they are now.
function options(tile: Tile, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--ink-faint"), font: `11px ${colour("--sans")}`, ticks: { show: false }, gap: 4 };
  return {
    width, height: HEIGHT, padding: [8, 6, 0, 0], cursor: { show: false }, legend: { show: false },
    scales: {
      x: { time: false, range: [-SPAN / 1000, 0] },
      y: { range: (_, __, most) => [0, tile.most ?? (most > 0 ? most * 1.15 : 1)] },
    },
    axes: [
      { ...axis, size: 20, grid: { show: false }, splits: () => ticks, values: (_, all) => all.map((s) => (s === 0 ? "now" : `${-s / 60} min`)), align: 1 as const },
      { ...axis, size: 52, grid: { stroke: colour("--line"), width: 1 }, splits: (_, __, ___, most) => [0, most / 2, most], values: (_, all) => all.map((v) => (v === 0 ? "0" : tile.write(v))) },
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
