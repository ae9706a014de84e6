"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NS = "http://www.w3.org/2000/svg";
  const L = 58, R = 12, T = 10, B = 44; // margins in pixels; charts are drawn at their real size
  const hidden = new Map(); // section → keys of series that are switched off
  let published = true;

  const el = (name, attributes = {}, text) => {
    const node = document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const svg = (name, attributes = {}, text) => {
    const node = document.createElementNS(NS, name);
    for (const [k, v] of Object.entries(attributes)) {
      if ((k === "fill" || k === "stroke") && v.startsWith("var(")) node.style[k] = v; // a theme's colour
      else node.setAttribute(k, v);
    }
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const SHAPES = { // around the origin, as wide as 2
    disc: "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1-1 0Z", square: "M-.9-.9H.9V.9H-.9Z", triangle: "M0-1.15L1.1.85H-1.1Z", down: "M0 1.15L1.1-.85H-1.1Z",
    diamond: "M0-1.25L1.25 0L0 1.25L-1.25 0Z", cross: "M-1.1-.6L-.6-1.1L0-.5L.6-1.1L1.1-.6L.5 0L1.1.6L.6 1.1L0 .5L-.6 1.1L-1.1.6L-.5 0Z",
  };
  const marker = (s, x, y, size, more = {}) => svg("path", { d: SHAPES[s.marker ?? "disc"], transform: `translate(${x} ${y}) scale(${size})`,
    fill: s.hollow ? "var(--card)" : s.colour, stroke: s.colour, "stroke-width": s.hollow ? 1.4 / size : 0, ...more });
  const DASHES = { published: "6 4", theory: "2 3" };
  const line = (s, attributes) => svg("path", { fill: "none", stroke: s.colour, "stroke-width": s.dash ? 1.4 : 2.2, "stroke-linejoin": "round",
    "stroke-opacity": s.dash === "published" ? 0.8 : 1, ...(DASHES[s.dash] ? { "stroke-dasharray": DASHES[s.dash] } : {}), ...attributes });
  function swatch(s) { // what a series looks like, for its legend
    const root = svg("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" });
    if (!s.points) root.append(line(s, { d: "M0 6H28" }));
    if (!s.dash) root.append(marker(s, 14, 6, 4));
    return root;
  }
  const raised = (n) => [...String(n)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");
  const show = (x) => {
    if (x === 0 || (Math.abs(x) >= 1e-2 && Math.abs(x) < 1e6)) return Number(x.toPrecision(3)).toLocaleString("en");
    const [digits, exponent] = x.toExponential(1).split("e");
    return `${digits}·10${raised(Number(exponent))}`;
  };

  // ---- scales -------------------------------------------------------------------------------------------------
  function scale(values, log, from, to) {
    let low = Math.min(...values), high = Math.max(...values);
    if (log) { low = Math.log10(low); high = Math.log10(high); }
    if (high - low < 1e-9) { low -= 0.5; high += 0.5; }
    const room = 0.04 * (high - low);
    low -= room; high += room;
    const at = (v) => from + ((log ? Math.log10(v) : v) - low) / (high - low) * (to - from);
    const ticks = [];
    if (log) {
      const decades = Math.floor(high) - Math.ceil(low) + 1, every = Math.max(1, Math.ceil(decades / 6));
      for (let d = Math.ceil(low); d <= high; d++) if ((d - Math.ceil(low)) % every === 0) ticks.push([10 ** d, d]);
      if (decades < 2) {
        ticks.length = 0;
        for (let d = Math.floor(low); d <= high; d++) for (const m of [1, 2, 5]) {
          const v = m * 10 ** d;
          if (Math.log10(v) >= low && Math.log10(v) <= high) ticks.push([v, null]);
        }
      }
    } else {
      const raw = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(raw));
      const step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw);
      for (let v = Math.ceil(low / step) * step; v <= high; v += step) ticks.push([Math.abs(v) < step / 1e6 ? 0 : v, null]);
    }
    return { at, ticks };
  }
  function tickLabel(x, y, anchor, [value, decade]) {
    const text = svg("text", { x, y, "text-anchor": anchor });
    if (decade === null || (decade >= -2 && decade <= 3)) { text.textContent = Number(value.toPrecision(6)).toString(); return text; }
    text.append("10", svg("tspan", { dy: -5 }, String(decade)));
    return text;
  }

  // ---- one chart ----------------------------------------------------------------------------------------------
  function draw(chart, section, figure) {
    figure.querySelector("svg")?.remove();
    const W = Math.max(figure.clientWidth - 18, 220), H = Math.min(Math.max(0.72 * W, 265), 330);
    const off = hidden.get(section) ?? new Set();
    const seen = chart.series.filter((s) => !off.has(s.key) && (published || s.dash !== "published") && s.x.length);
    const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${chart.title}: ${chart.y_label} against ${chart.x_label}` });
    figure.append(root);
    const xs = seen.flatMap((s) => s.x), ys = seen.flatMap((s) => [...s.y, ...(s.low ?? []), ...(s.high ?? [])]);
    if (!xs.length) { root.append(svg("text", { x: W / 2, y: H / 2, "text-anchor": "middle" }, "nothing is switched on")); return; }
    const X = scale(xs, chart.log_x, L, W - R), Y = scale(ys, chart.log_y, H - B, T);
    for (const tick of X.ticks) {
      root.append(svg("line", { class: "grid", x1: X.at(tick[0]), x2: X.at(tick[0]), y1: T, y2: H - B }));
      root.append(tickLabel(X.at(tick[0]), H - B + 17, "middle", tick));
    }
    for (const tick of Y.ticks) {
      root.append(svg("line", { class: "grid", x1: L, x2: W - R, y1: Y.at(tick[0]), y2: Y.at(tick[0]) }));
      root.append(tickLabel(L - 6, Y.at(tick[0]) + 4, "end", tick));
    }
    root.append(svg("line", { class: "axis", x1: L, x2: W - R, y1: H - B, y2: H - B }), svg("line", { class: "axis", x1: L, x2: L, y1: T, y2: H - B }));
    root.append(svg("text", { x: (L + W - R) / 2, y: H - 8, "text-anchor": "middle" }, chart.x_label));
    root.append(svg("text", { transform: `translate(13 ${(H - B + T) / 2}) rotate(-90)`, "text-anchor": "middle" }, chart.y_label));
    for (const s of seen) {
      const point = (i) => `${X.at(s.x[i]).toFixed(1)} ${Y.at(s.y[i]).toFixed(1)}`;
      if (s.points) {
        const size = s.x.length === 1 ? 6 : 2.8;
        for (let i = 0; i < s.x.length; i++) root.append(marker(s, X.at(s.x[i]), Y.at(s.y[i]), size, { class: "mark", "fill-opacity": s.hollow ? 0 : 0.85 }));
        continue;
      }
      if (s.low) {
        const up = s.x.map((x, i) => `${X.at(x).toFixed(1)} ${Y.at(s.high[i]).toFixed(1)}`);
        const down = s.x.map((x, i) => `${X.at(x).toFixed(1)} ${Y.at(s.low[i]).toFixed(1)}`).reverse();
        root.append(svg("path", { d: `M${[...up, ...down].join("L")}Z`, fill: s.colour, "fill-opacity": 0.18 }));
      }
      root.append(line(s, { class: "mark", d: `M${s.x.map((_, i) => point(i)).join("L")}` }));
      if (!s.dash && !s.bare) for (let i = 0; i < s.x.length; i++) root.append(marker(s, X.at(s.x[i]), Y.at(s.y[i]), 3.1));
    }
    hover(root, figure, seen, X, chart, W, H);
  }

  function hover(root, figure, seen, X, chart, W, H) {
    const tip = figure.querySelector(".tip");
    const cursor = svg("line", { class: "axis", y1: T, y2: H - B, "stroke-dasharray": "3 3", visibility: "hidden" });
    root.append(cursor);
    const move = (event) => {
      const box = root.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * W;
      const all = seen.filter((s) => !s.dash).length ? seen.filter((s) => !s.dash) : seen;
      let best = null;
      for (const s of all) for (const v of s.x) if (best === null || Math.abs(X.at(v) - x) < Math.abs(X.at(best) - x)) best = v;
      if (best === null) return;
      cursor.setAttribute("x1", X.at(best)); cursor.setAttribute("x2", X.at(best)); cursor.setAttribute("visibility", "visible");
      tip.replaceChildren(el("b", {}, `${chart.x_label}: ${show(best)}`));
      for (const s of seen.filter((s) => s.label)) {
        let i = -1;
        s.x.forEach((v, j) => { if (Math.abs(X.at(v) - X.at(best)) < 7 && (i < 0 || Math.abs(X.at(v) - X.at(best)) < Math.abs(X.at(s.x[i]) - X.at(best)))) i = j; });
        if (i < 0) continue;
        const row = el("div"), dot = el("i");
        dot.style.background = s.colour;
        row.append(dot, `${s.label}: ${show(s.y[i])}` + (s.low ? ` [${show(s.low[i])}, ${show(s.high[i])}]` : ""));
        tip.append(row);
      }
      tip.style.display = "block";
      const left = (X.at(best) / W) * box.width, wide = tip.offsetWidth;
      tip.style.left = `${Math.max(4, Math.min(left + 14, figure.clientWidth - wide - 4))}px`;
      tip.style.top = `${figure.clientHeight - 30}px`; // below, so that it hides nothing of the chart
    };
    const leave = () => { tip.style.display = "none"; cursor.setAttribute("visibility", "hidden"); };
    root.addEventListener("pointermove", move);
    root.addEventListener("pointerdown", move);
    root.addEventListener("pointerleave", leave);
  }

  // ---- sections -----------------------------------------------------------------------------------------------
  const redraw = [];
  for (const section of data.sections) {
    const place = document.getElementById(`charts-${section.name}`);
    if (!place) continue;
    const parts = section.charts.map((chart) => {
      const figure = el("figure");
      figure.append(el("figcaption", {}, chart.title), el("div", { class: "tip", role: "status" }));
      place.append(figure);
      return [chart, figure];
    });
    const again = () => parts.forEach(([chart, figure]) => draw(chart, section.name, figure));
    redraw.push(again);
    const keys = new Map();
    section.charts.forEach((c) => c.series.forEach((s) => { if (s.dash !== "published" && !keys.has(s.key)) keys.set(s.key, s); }));
    const bar = document.getElementById(`legend-${section.name}`);
    hidden.set(section.name, new Set());
    for (const [key, s] of keys) {
      const chip = el("button", { class: "chip", "aria-pressed": "true", "data-key": key, title: "switch on or off" });
      chip.append(swatch(s), s.label);
      chip.addEventListener("click", () => {
        const off = hidden.get(section.name), on = off.has(key);
        if (on) off.delete(key); else off.add(key);
        chip.setAttribute("aria-pressed", String(on));
        again();
      });
      bar.append(chip);
    }
    if (section.charts.some((c) => c.series.some((s) => s.dash === "published"))) {
      const chip = el("button", { class: "chip published-toggle", "aria-pressed": "true" });
      chip.append(swatch({ colour: "var(--ink)", dash: "published" }), "published");
      chip.addEventListener("click", () => {
        published = !published;
        document.querySelectorAll(".published-toggle").forEach((c) => c.setAttribute("aria-pressed", String(published)));
        redraw.forEach((f) => f());
      });
      bar.append(chip);
    }
    again();
  }

  // ---- the two-action example ---------------------------------------------------------------------------------
  const PI = { A: 0.2, B: 0.8 }, SHOWN = 60, LENGTH = 200;
  const duel = document.getElementById("duel");
  const sides = [["On-policy: roll the dice", "each action drawn with its probability", false, "os"], ["Balanced: take what is missing", "always the action that is most behind", true, "ros"]].map(([title, text, balanced, collector]) => {
    const side = el("div", { class: "side" }), tokens = el("div", { class: "tokens" }), lines = {};
    const head = el("h3");
    head.append(el("i", { style: `background: var(--by-${collector})` }), title);
    side.append(head, el("div", { class: "soft" }, text), tokens);
    for (const a of ["A", "B"]) {
      const label = el("div", { class: "num" }), meter = el("div", { class: "meter" }), fill = el("div", { class: a }), want = el("div", { class: "want" });
      want.style.left = `${100 * PI[a]}%`;
      meter.append(fill, want); side.append(label, meter); lines[a] = { label, fill };
    }
    duel.append(side);
    return { tokens, lines, balanced, counts: { A: 0, B: 0 }, ahead: [] };
  });
  const trace = document.getElementById("trace");
  let timer = null, seed = 4;
  const random = () => { seed = (seed * 1664525 + 1013904223) >>> 0; return seed / 4294967296; };
  function step() {
    const n = sides[0].ahead.length;
    if (n >= LENGTH) { pause(); return; }
    for (const side of sides) {
      const behind = PI.A * (n + 1) - side.counts.A;
      const action = side.balanced ? (behind >= PI.B * (n + 1) - side.counts.B ? "A" : "B") : (random() < PI.A ? "A" : "B");
      side.counts[action]++;
      side.ahead.push(side.counts.A - PI.A * (n + 1));
      side.tokens.append(el("span", { class: action }, action));
      while (side.tokens.childElementCount > SHOWN) side.tokens.firstElementChild.remove();
      for (const a of ["A", "B"]) {
        const share = side.counts[a] / (n + 1);
        side.lines[a].fill.style.width = `${100 * share}%`;
        side.lines[a].label.textContent = `${a}: ${side.counts[a]} of ${n + 1}, expected ${(PI[a] * (n + 1)).toFixed(1)}`;
      }
    }
    drawTrace();
  }
  function drawTrace() {
    const steps = sides[0].ahead.map((_, i) => i + 1), ends = [1, LENGTH];
    draw({ title: "A, ahead or behind", x_label: "visits to the state", y_label: "count of A − expected", log_x: false, log_y: false, series: [
      { key: "want", label: "as expected", colour: "var(--grey)", dash: "theory", x: ends, y: [0, 0] },
      { key: "room", label: "", colour: "transparent", dash: "theory", x: ends, y: [-5, 5] },
      { key: "os", label: "on-policy", colour: "var(--by-os)", dash: "", bare: true, x: steps, y: sides[0].ahead },
      { key: "ros", label: "balanced", colour: "var(--by-ros)", dash: "", bare: true, x: steps, y: sides[1].ahead },
    ] }, "trace", trace);
  }
  const play = document.getElementById("play");
  function pause() { clearInterval(timer); timer = null; play.textContent = "Play"; }
  function start() { if (timer === null) { timer = setInterval(step, 90); play.textContent = "Pause"; } }
  function restart() {
    seed = (seed + 7919) >>> 0;
    for (const side of sides) { side.counts = { A: 0, B: 0 }; side.ahead = []; side.tokens.replaceChildren(); }
    step();
  }
  play.addEventListener("click", () => (timer === null ? start() : pause()));
  document.getElementById("again").addEventListener("click", () => { restart(); start(); });
  for (let i = 0; i < 5; i++) step();
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches && "IntersectionObserver" in window) {
    let begun = false;
    new IntersectionObserver((entries) => { // runs while it can be seen
      if (entries[0].isIntersecting && !begun) { begun = true; start(); } else if (!entries[0].isIntersecting && timer !== null) { pause(); begun = false; }
    }).observe(duel);
  }

  let pending = null;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(() => { redraw.forEach((f) => f()); drawTrace(); }, 120);
  });
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  document.documentElement.dataset.ready = "yes";
})();
