// The lane timeline: draws the model that the page carries, and lets the reader move in it.
//
// One canvas, redrawn at most once a frame. From top to bottom: tokens/s over time, the lanes, the time axis and
// an overview of where the visible stretch lies. All times are seconds since the first call.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("lanes-data").textContent);
  const canvas = $("lanes-canvas"), box = $("lanes-box"), tip = $("tip"), range = $("range"), said = $("said");
  const pen = canvas.getContext("2d", { alpha: false });
  const STRIP = 56, STRIP_GAP = 16, AXIS = 34, RIGHT = 6;
  const SHORTEST_S = 0.002; // the deepest zoom shows two milliseconds

  let width = 0, gutter = 44, colours = {}, set = null, view = { from: 0, to: 1 }, chosen = -1, pointer = null, waiting = 0;
  let where = { run: data.first[0], level: data.first[1] };

  // --- words

  const seconds = (s) => {
    if (s === null || s === undefined) return "–";
    if (Math.abs(s) < 1) return `${+(s * 1e3).toPrecision(3)} ms`;
    return s < 120 ? `${s.toPrecision(3)} s` : `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  };
  const count = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));

  // What is said of a call, as pairs; the first pair is its title. Stretches that do not exist are left out.
  function describe(i) {
    const b = set.bars, rows = [], add = (name, text) => rows.push([name, text]);
    add(b.key[i], `${b.role[i]}, ${b.outcome[i]}`);
    add("lane", set.rows[b.row[i]]);
    const started = b.started[i] ?? b.ended[i], served = b.served[i] ?? started, first = b.first[i] ?? b.ended[i];
    if (started - b.queued[i] > 5e-4) add("queued", seconds(started - b.queued[i]));
    if (served - started > 5e-4) add("waited for a slot (inferred)", seconds(served - started));
    if (b.started[i] !== null) add(set.slots === null ? "until first token" : "prefill", seconds(first - served));
    if (b.first[i] !== null) {
      const rate = b.output[i] && b.ended[i] > first ? `, ${(b.output[i] / (b.ended[i] - first)).toPrecision(3)} tok/s` : "";
      add("decode", seconds(b.ended[i] - first) + rate);
      add("TTFT", seconds(first - started));
    }
    add("in all", seconds(b.ended[i] - b.queued[i]));
    if (b.prompt[i] !== null) add("prompt tokens", count(b.prompt[i]) + (b.cached[i] ? `, ${count(b.cached[i])} cached` : ""));
    add("output tokens", count(b.output[i]));
    if (b.attempts[i] > 1) add("attempts", count(b.attempts[i]));
    if (b.parent[i] !== null) add("caused by", b.key[b.parent[i]]);
    if (b.error[i]) add("error", b.error[i]);
    if (b.detail[i]) add("detail", b.detail[i]);
    return rows;
  }

  // --- geometry

  const plotWidth = () => width - gutter - RIGHT;
  const x = (t) => gutter + ((t - view.from) / (view.to - view.from)) * plotWidth();
  const timeAt = (px) => view.from + ((px - gutter) / plotWidth()) * (view.to - view.from);
  const lanesTop = STRIP + STRIP_GAP;
  const lanesBottom = () => lanesTop + set.rowPx * set.rows.length;
  const rowTop = (row) => lanesTop + row * set.rowPx;

  // Tokens written until t: linear between the model's times.
  function tokensUntil(t) {
    const { t: times, tokens } = set.strip;
    let low = 0, high = times.length - 1;
    if (t <= times[0]) return tokens[0];
    if (t >= times[high]) return tokens[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] <= t) low = middle; else high = middle;
    }
    const span = times[high] - times[low];
    return span > 0 ? tokens[low] + ((tokens[high] - tokens[low]) * (t - times[low])) / span : tokens[high];
  }

  function step(about) {
    const power = 10 ** Math.floor(Math.log10(about));
    return [1, 2, 5, 10].find((factor) => factor * power >= about) * power;
  }

  // --- drawing

  function readColours() {
    const style = getComputedStyle(document.documentElement), value = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = {};
    for (const name of ["paper", "ink", "muted", "line", "faint", "accent", "bad", "idle", "halo"]) colours[name] = value(name);
    for (const colour of Object.values(data.colours))
      colours[colour] = ["queued", "prefill", "decode"].map((part) => value(`${colour}-${part}`));
  }

  function draw() {
    waiting = 0;
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, set.height);
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    drawAxis();
    drawStrip();
    const drawn = drawBars();
    drawPath();
    drawLaneNames();
    drawOverview();
    drawChosen();
    range.textContent = `${view.from.toFixed(2)}–${view.to.toFixed(2)} s of ${set.duration.toFixed(2)} s`;
    Object.assign(canvas.dataset, {
      from: view.from, to: view.to, calls: set.bars.key.length, drawn, frames: Number(canvas.dataset.frames || 0) + 1,
    });
  }
  function redraw() { if (!waiting) waiting = requestAnimationFrame(draw); }

  function drawAxis() {
    const span = view.to - view.from, every = step(span / Math.max(2, plotWidth() / 75)), bottom = lanesBottom();
    const decimals = Math.max(0, -Math.floor(Math.log10(every) + 1e-9));
    pen.textAlign = "center";
    for (let k = Math.ceil(view.from / every - 1e-9); k * every <= view.to + 1e-9; k++) {
      const at = Math.round(x(k * every)) + 0.5;
      pen.fillStyle = colours.faint;
      pen.fillRect(at - 0.5, 0, 1, bottom);
      pen.fillStyle = colours.muted;
      const text = `${(k * every).toFixed(decimals)} s`, half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.max(gutter + half - 8, Math.min(at, width - half - 1)), bottom + 12);
    }
  }

  // Mean tokens/s in every column of two pixels, against the best that was measured.
  function drawStrip() {
    const columns = Math.max(1, Math.floor(plotWidth() / 2)), every = (view.to - view.from) / columns, rates = [];
    for (let k = 0; k < columns; k++)
      rates.push((tokensUntil(view.from + (k + 1) * every) - tokensUntil(view.from + k * every)) / every);
    const sorted = rates.slice().sort((a, b) => a - b), usual = sorted[Math.floor(sorted.length * 0.98)] || 0;
    const top = Math.max(set.ceiling || 0, usual) * 1.08 || 1, y = (rate) => STRIP - Math.min(1, rate / top) * (STRIP - 8);
    if (set.ceiling) {
      pen.fillStyle = colours.idle;
      pen.fillRect(gutter, y(set.ceiling), plotWidth(), STRIP - y(set.ceiling));
    }
    pen.beginPath();
    pen.moveTo(gutter, STRIP);
    rates.forEach((rate, k) => { pen.lineTo(gutter + k * 2, y(rate)); pen.lineTo(gutter + (k + 1) * 2, y(rate)); });
    pen.lineTo(gutter + columns * 2, STRIP);
    pen.fillStyle = colours.accent;
    pen.globalAlpha = 0.75;
    pen.fill();
    pen.globalAlpha = 1;
    pen.fillStyle = colours.line;
    pen.fillRect(gutter, STRIP, plotWidth(), 1);
    pen.textAlign = "right";
    pen.fillStyle = colours.muted;
    const ceiling = set.ceiling ? Math.round(y(set.ceiling)) + 0.5 : 0;
    pen.fillText("tok/s", gutter - 7, ceiling > STRIP - 20 ? ceiling - 14 : STRIP - 5);
    if (!set.ceiling) return;
    pen.strokeStyle = colours.ink;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(gutter, ceiling);
    pen.lineTo(width - RIGHT, ceiling);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = colours.ink;
    pen.fillText(Number(set.ceiling.toPrecision(3)).toLocaleString("en-US"), gutter - 7, Math.max(7, ceiling));
  }

  function drawBars() {
    const b = set.bars, gap = set.rowPx >= 12 ? 3 : 1, tall = set.rowPx - gap, clip = [gutter, width - RIGHT];
    let drawn = 0;
    const piece = (from, to, top, colour, tall) => {
      const left = Math.max(clip[0], x(from)), right = Math.min(clip[1], x(to));
      if (right <= left) return;
      pen.fillStyle = colour;
      pen.fillRect(left, top, Math.max(right - left, 0.6), tall);
    };
    for (let i = 0; i < b.key.length; i++) {
      if (b.ended[i] < view.from || b.queued[i] > view.to) continue;
      drawn++;
      const top = rowTop(b.row[i]), [light, middle, dark] = colours[data.colours[b.role[i]]];
      const served = b.served[i] ?? b.ended[i], first = b.first[i] ?? b.ended[i];
      piece(b.queued[i], served, top, light, set.rowPx < 12 ? set.rowPx : tall); // thin lanes: one calm surface of waiting
      piece(served, first, top, middle, tall);
      piece(first, b.ended[i], top, dark, tall);
      const edge = x(b.ended[i]);
      if (b.outcome[i] !== "ok") notch(edge, top, tall, b.outcome[i] === "failed");
      else if (edge > clip[0] && edge < clip[1] && set.rowPx >= 6) { // a hair between neighbours
        pen.fillStyle = colours.paper;
        pen.fillRect(edge - 0.5, top, 1, tall);
      }
    }
    return drawn;
  }

  function notch(edge, top, tall, failed) {
    const depth = Math.max(3, Math.min(8, tall * 0.55));
    if (edge < gutter || edge > width - RIGHT + 1) return;
    if (failed) {
      pen.fillStyle = colours.bad;
      pen.fillRect(edge - depth - 2, top, depth + 2, tall);
    }
    pen.fillStyle = colours.paper;
    pen.beginPath();
    pen.moveTo(edge + 0.5, top);
    pen.lineTo(edge - depth, top + tall / 2);
    pen.lineTo(edge + 0.5, top + tall);
    pen.fill();
  }

  function drawPath() {
    if (!set.critical.length) return;
    const b = set.bars;
    pen.save();
    pen.beginPath();
    pen.rect(gutter, lanesTop, plotWidth(), lanesBottom() - lanesTop);
    pen.clip();
    pen.beginPath();
    set.critical.forEach((i, k) => {
      const y = rowTop(b.row[i]) + (set.rowPx - 3) / 2;
      if (k === 0) pen.moveTo(x(b.queued[i]), y); else pen.lineTo(x(b.queued[i]), y);
      pen.lineTo(x(b.ended[i]), y);
    });
    pen.lineJoin = "round";
    for (const [thick, colour] of [[4.5, colours.halo], [2, colours.ink]]) {
      pen.lineWidth = thick;
      pen.strokeStyle = colour;
      pen.stroke();
    }
    pen.restore();
  }

  function drawLaneNames() {
    const every = Math.max(1, Math.ceil(15 / set.rowPx)), nice = every > 1 ? step(every) : 1;
    pen.textAlign = "right";
    pen.fillStyle = colours.muted;
    set.rows.forEach((name, row) => {
      if ((row + 1) % nice === 0 || (row === 0 && (nice - 1) * set.rowPx >= 13))
        pen.fillText(name, gutter - 7, rowTop(row) + (set.rowPx - (set.rowPx >= 12 ? 3 : 1)) / 2 + 0.5);
    });
  }

  // Where the visible stretch lies in the whole; nothing while everything is visible.
  function drawOverview() {
    if (view.to - view.from > set.duration * 0.999) return;
    const top = set.height - 6;
    pen.fillStyle = colours.faint;
    pen.fillRect(gutter, top, plotWidth(), 4);
    pen.fillStyle = colours.muted;
    const part = (view.to - view.from) / set.duration;
    pen.fillRect(gutter + (view.from / set.duration) * plotWidth(), top, Math.max(3, part * plotWidth()), 4);
  }

  function drawChosen() {
    if (pointer?.select) {
      pen.fillStyle = colours.accent;
      pen.globalAlpha = 0.18;
      pen.fillRect(Math.min(pointer.x0, pointer.x), 0, Math.abs(pointer.x - pointer.x0), lanesBottom());
      pen.globalAlpha = 1;
    }
    if (chosen < 0) return;
    const b = set.bars, left = Math.max(gutter, x(b.queued[chosen])), right = Math.min(width - RIGHT, x(b.ended[chosen]));
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    pen.strokeRect(left - 1, rowTop(b.row[chosen]) - 1, Math.max(3, right - left + 2), set.rowPx - (set.rowPx >= 12 ? 1 : -1));
    pen.lineWidth = 1;
  }

  // --- choosing a call

  function choose(i, spoken) {
    if (i === chosen && !spoken) return;
    chosen = i;
    redraw();
    if (i < 0) { tip.hidden = true; return; }
    const [title, ...rows] = describe(i);
    const head = document.createElement("b"), list = document.createElement("dl");
    head.textContent = `${title[0]} · ${title[1]}`;
    for (const [name, text] of rows) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = text;
      list.append(dt, dd);
    }
    tip.replaceChildren(head, list);
    tip.hidden = false;
    if (spoken) said.textContent = describe(i).map((pair) => pair.join(" ")).join("; ");
    const b = set.bars, middle = (x(Math.max(b.queued[i], view.from)) + x(Math.min(b.ended[i], view.to))) / 2;
    place(pointer && !spoken ? pointer.x : middle, rowTop(b.row[i]));
  }

  // Beside the call, inside the box, below the row unless there is no room.
  function place(at, top) {
    const w = tip.offsetWidth, h = tip.offsetHeight, below = top + set.rowPx + 8;
    const left = Math.max(0, Math.min(at + 14, width - w - 2));
    const y = below + h > set.height + 40 && top - h - 8 > 0 ? top - h - 8 : below;
    tip.style.transform = `translate(${left}px, ${y}px)`;
  }

  function callAt(px, py) {
    const row = Math.floor((py - lanesTop) / set.rowPx), t = timeAt(px), slack = timeAt(px + 3) - t, b = set.bars;
    if (row < 0 || row >= set.rows.length || px < gutter) return -1;
    let best = -1, nearest = slack;
    for (const i of set.byRow[row]) {
      const off = Math.max(b.queued[i] - t, t - b.ended[i], 0);
      if (off === 0) return i;
      if (off < nearest) { nearest = off; best = i; }
    }
    return best;
  }

  function moveChoice(byTime, byRow) {
    const b = set.bars;
    if (chosen < 0) return reveal(set.byRow[0][0]);
    const row = b.row[chosen], middle = (b.queued[chosen] + b.ended[chosen]) / 2;
    if (byTime) {
      const lane = set.byRow[row], next = lane.indexOf(chosen) + byTime;
      if (next >= 0 && next < lane.length) reveal(lane[next]);
      return;
    }
    const lane = set.byRow[row + byRow];
    if (!lane) return;
    const off = (i) => Math.max(b.queued[i] - middle, middle - b.ended[i], 0);
    reveal(lane.reduce((best, i) => (off(i) < off(best) ? i : best)));
  }

  function reveal(i) {
    const b = set.bars, span = view.to - view.from;
    if (b.ended[i] < view.from || b.queued[i] > view.to) show(b.queued[i] - span * 0.2, b.queued[i] + span * 0.8);
    choose(i, true);
  }

  // --- moving

  function show(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST_S), set.duration || SHORTEST_S);
    from = Math.max(0, Math.min(from, (set.duration || SHORTEST_S) - span));
    view = { from, to: from + span };
    redraw();
  }
  function zoom(factor, around) {
    const at = around ?? (chosen >= 0 ? (set.bars.queued[chosen] + set.bars.ended[chosen]) / 2 : (view.from + view.to) / 2);
    const centre = Math.max(view.from, Math.min(view.to, at));
    show(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
  }
  const pan = (part) => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  const all = () => show(0, set.duration);

  const spot = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };

  canvas.addEventListener("wheel", (event) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // the page scrolls
    event.preventDefault();
    if (sideways) pan(event.deltaX / plotWidth());
    else zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006), timeAt(spot(event)[0]));
  }, { passive: false });

  const touches = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    const [px, py] = spot(event);
    touches.set(event.pointerId, px);
    canvas.setPointerCapture(event.pointerId);
    pointer = { x: px, x0: px, view, down: true, select: py < lanesTop || py > lanesBottom() };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = spot(event);
    if (touches.size === 2 && touches.has(event.pointerId)) return pinch(event.pointerId, px);
    if (!pointer?.down) {
      pointer = { x: px };
      return choose(callAt(px, py), false);
    }
    pointer.x = px;
    if (pointer.select) return redraw();
    const moved = ((pointer.x0 - px) / plotWidth()) * (pointer.view.to - pointer.view.from);
    if (Math.abs(px - pointer.x0) > 3) show(pointer.view.from + moved, pointer.view.to + moved);
  });
  function pinch(id, px) {
    const [other] = [...touches].filter(([key]) => key !== id).map(([, at]) => at), before = touches.get(id);
    touches.set(id, px);
    pointer = null;
    if (Math.abs(px - other) > 8) zoom(Math.abs(before - other) / Math.abs(px - other), timeAt((px + other) / 2));
  }
  function release(event) {
    const [px, py] = spot(event), was = pointer;
    touches.delete(event.pointerId);
    pointer = event.type === "pointerup" ? { x: px } : null;
    if (!was?.down) return;
    if (was.select && Math.abs(px - was.x0) > 6) show(timeAt(Math.min(px, was.x0)), timeAt(Math.max(px, was.x0)));
    else if (Math.abs(px - was.x0) <= 3) choose(callAt(px, py), false);
    redraw();
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { if (!pointer?.down) { pointer = null; choose(-1, false); } });
  canvas.addEventListener("dblclick", (event) => zoom(0.5, timeAt(spot(event)[0])));
  canvas.addEventListener("blur", () => choose(-1, false));

  const KEYS = {
    ArrowLeft: (shift) => (shift ? pan(-0.2) : moveChoice(-1, 0)),
    ArrowRight: (shift) => (shift ? pan(0.2) : moveChoice(1, 0)),
    ArrowUp: () => moveChoice(0, -1),
    ArrowDown: () => moveChoice(0, 1),
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: all, Home: all,
    Escape: () => choose(-1, false),
  };
  canvas.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(event.shiftKey);
  });
  $("zoom-in").addEventListener("click", () => zoom(0.6));
  $("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
  $("zoom-all").addEventListener("click", all);

  // --- which run, which level

  function pick(run, level) {
    where = { run, level };
    set = data.runs[run].levels[level];
    set.byRow ??= rowsOf(set);
    chosen = -1;
    tip.hidden = true;
    for (const group of document.querySelectorAll(".levels")) {
      const mine = Number(group.dataset.run) === run;
      group.hidden = !mine || group.querySelectorAll("button").length < 2;
      for (const button of group.querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(mine && Number(button.dataset.level) === level));
    }
    for (const button of document.querySelectorAll("#runs button"))
      button.setAttribute("aria-pressed", String(Number(button.dataset.run) === run));
    canvas.style.height = `${set.height}px`;
    view = { from: 0, to: set.duration || SHORTEST_S };
    resize(devicePixelRatio || 1);
    listCalls(0);
  }
  function rowsOf(one) {
    const rows = one.rows.map(() => []);
    one.bars.row.forEach((row, i) => rows[row].push(i));
    return rows;
  }
  // The other run at the same concurrency, or its widest.
  function sameLevel(run) {
    const label = set.label, at = data.runs[run].levels.findIndex((level) => level.label === label);
    return at < 0 ? data.runs[run].levels.length - 1 : at;
  }
  for (const button of document.querySelectorAll("#runs button"))
    button.addEventListener("click", () => pick(Number(button.dataset.run), sameLevel(Number(button.dataset.run))));
  for (const button of document.querySelectorAll(".levels button"))
    button.addEventListener("click", () => pick(where.run, Number(button.dataset.level)));

  // --- the calls as a table, a page at a time

  const PAGE = 200, HEADS = ["call", "lane", "role", "outcome", "queued at", "TTFT", "in all", "prompt tokens", "output tokens", "error"];
  let listed = 0;
  function listCalls(from) {
    const table = $("calls-table"), body = table.tBodies[0], b = set.bars;
    if (!$("calls").open) return;
    if (from === 0) body.replaceChildren();
    table.tHead.rows[0].replaceChildren(...HEADS.map((name) => Object.assign(document.createElement("th"), { scope: "col", textContent: name })));
    for (let i = from; i < Math.min(from + PAGE, b.key.length); i++) {
      const ttft = b.first[i] === null || b.started[i] === null ? null : b.first[i] - b.started[i];
      const cells = [b.key[i], set.rows[b.row[i]], b.role[i], b.outcome[i], seconds(b.queued[i]), seconds(ttft),
        seconds(b.ended[i] - b.queued[i]), count(b.prompt[i]), count(b.output[i]), b.error[i] || ""];
      const row = body.insertRow();
      for (const text of cells) row.insertCell().textContent = text;
    }
    listed = Math.min(from + PAGE, b.key.length);
    table.hidden = false;
    $("more-calls").hidden = listed >= b.key.length;
  }
  $("calls").addEventListener("toggle", () => listCalls(0));
  $("more-calls").addEventListener("click", () => listCalls(listed));

  // --- size, theme, paper

  function resize(density) {
    width = box.clientWidth;
    gutter = width < 520 ? 38 : 44;
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(set.height * density);
    pen.setTransform(density, 0, 0, density, 0, 0);
    draw();
  }
  new ResizeObserver(() => { if (box.clientWidth !== width) resize(devicePixelRatio || 1); }).observe(box);
  document.documentElement.addEventListener("theme", () => { readColours(); redraw(); });
  addEventListener("beforeprint", () => {
    const root = document.documentElement, theme = root.dataset.theme;
    root.dataset.theme = "light"; // paper is light
    readColours();
    colours.paper = colours.halo = "#fff";
    resize(3);
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  });
  addEventListener("afterprint", () => { readColours(); resize(devicePixelRatio || 1); });

  readColours();
  pick(where.run, where.level);
})();
