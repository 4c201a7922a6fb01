"use strict";

// Tables sort by the column whose head is clicked; what is no number comes last.
function sortable(table) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(h => h.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const x = parseFloat(key(a)), y = parseFloat(key(b));
      if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y) || key(a).localeCompare(key(b)) * (up ? 1 : -1);
      return up ? x - y : y - x;
    });
    body.append(...rows);
  }));
}

// A timeline shows what is under the pointer and zooms into what is dragged over.
function timeline(box) {
  const plot = box.querySelector(".plot"), svg = plot.querySelector("svg"), axis = box.querySelector(".axis");
  const band = plot.querySelector(".band"), tip = box.querySelector(".tip");
  const data = JSON.parse(document.getElementById(box.dataset.for).textContent);
  const ticks = 10000, onlyTime = box.classList.contains("labelled"); // ticks of a second
  const [x, y, w, h] = svg.getAttribute("viewBox").split(" ").map(Number), whole = { x, y, w, h };
  let view = whole, from = null;

  function show(next) {
    view = next;
    svg.setAttribute("viewBox", [view.x, view.y, view.w, view.h].join(" "));
    const span = view.w / ticks, raw = span / 8, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw);
    axis.replaceChildren();
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let i = Math.ceil(view.x / ticks / step - 1e-9); i * step < (view.x + view.w) / ticks; i++) {
      const mark = document.createElement("span");
      mark.style.left = 100 * (i * step * ticks - view.x) / view.w + "%";
      mark.textContent = (i * step).toFixed(digits) + " s";
      axis.append(mark);
    }
  }

  function place(event) { // where the pointer is: pixels, time in microseconds, row
    const r = plot.getBoundingClientRect();
    const px = Math.min(Math.max(event.clientX - r.left, 0), r.width), py = Math.min(Math.max(event.clientY - r.top, 0), r.height);
    return { px, py, x: view.x + px / r.width * view.w, y: view.y + py / r.height * view.h };
  }

  const seconds = us => (us / 1e6).toFixed(4) + " s", ms = us => (us / 1e3).toFixed(2) + " ms";

  function describe(q, at) {
    const lines = [`Req ${q.request}`];
    const segment = (name, a, b) => lines.push(`${name}: ${seconds(a)} to ${seconds(b)}, ${ms(b - a)}`);
    let t = q.start + q.ttft;
    if (q.err) lines.push(q.err);
    else if (at < q.start || at > q.end) lines.push("not running");
    else if (at < t) segment("TTFT", q.start, t);
    else for (let i = 0; q.itl && i < q.itl.length; i++) {
      if (at <= t + q.itl[i]) { segment(`ITL ${i + 1}`, t, t + q.itl[i]); break; }
      t += q.itl[i];
    }
    lines.push(`request: ${seconds(q.start)} to ${seconds(q.end)}, ${ms(q.end - q.start)}`, `${q.input} prompt tokens, ${q.output} output tokens`);
    return lines.join("\n");
  }

  plot.addEventListener("pointermove", event => {
    const p = place(event);
    if (from) {
      band.style.display = "block";
      band.style.left = Math.min(from.px, p.px) + "px";
      band.style.width = Math.abs(from.px - p.px) + "px";
      band.style.top = onlyTime ? 0 : Math.min(from.py, p.py) + "px";
      band.style.height = onlyTime ? "100%" : Math.abs(from.py - p.py) + "px";
    }
    const q = data[Math.floor(p.y)];
    tip.hidden = !q;
    if (!q) return;
    tip.textContent = describe(q, p.x / ticks * 1e6);
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });
  plot.addEventListener("pointerleave", () => { tip.hidden = true; });
  plot.addEventListener("pointerdown", event => { from = place(event); plot.setPointerCapture(event.pointerId); });
  plot.addEventListener("pointercancel", () => { from = null; band.style.display = "none"; });
  plot.addEventListener("pointerup", event => {
    const a = from, b = place(event);
    from = null;
    band.style.display = "none";
    if (!a || Math.abs(a.px - b.px) < 5) return;
    const next = { x: Math.min(a.x, b.x), w: Math.abs(a.x - b.x), y: view.y, h: view.h };
    if (!onlyTime && Math.abs(a.py - b.py) >= 5) {
      next.y = Math.floor(Math.min(a.y, b.y));
      next.h = Math.min(whole.h, Math.ceil(Math.max(a.y, b.y))) - next.y;
    }
    if (next.w >= 1 && next.h >= 1) show(next);
  });
  plot.addEventListener("dblclick", () => show(whole));
  show(whole);
}

// A link to the details of a run opens them.
function reveal() {
  const run = document.getElementById(location.hash.slice(1));
  if (run && run.tagName === "DETAILS") run.open = true;
}

addEventListener("hashchange", reveal);
reveal();
document.querySelectorAll("table.sort").forEach(sortable);
document.querySelectorAll(".timeline").forEach(timeline);
