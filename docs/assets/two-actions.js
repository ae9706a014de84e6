"use strict";
// The two-action example of the landing page. One state, two actions, each with probability ½. On-policy sampling tosses
// a coin. Balanced sampling does what `auto` does in such a state: it tosses a coin while the counts are level, and
// otherwise takes the action that is behind (99 times in 100: `auto` keeps 2 % of the probability of every action).
(() => {
  const place = document.getElementById("two-actions");
  if (!place) return;
  const LENGTH = 400, GHOSTS = 12, STEPS_PER_SECOND = 60, KEPT = 0.01;
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // ---- the two samplers ---------------------------------------------------------------------------------------
  let seed = 20; // a small random generator of our own (a linear congruential one), so that the first run is always the same
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 4294967296;
  const RULES = {
    policy: () => 0.5,
    balanced: (ahead) => (ahead === 0 ? 0.5 : ahead > 0 ? KEPT : 1 - KEPT),
  };
  let runs; // name → how many A's too many after 0, 1, 2, … visits
  const ghosts = []; // earlier on-policy runs: together they show how far chance wanders
  const restart = () => { runs = { policy: [0], balanced: [0] }; };
  const step = () => {
    for (const [name, probability] of Object.entries(RULES)) {
      const ahead = runs[name].at(-1);
      runs[name].push(ahead + (random() < probability(ahead) ? 0.5 : -0.5));
    }
  };
  const visits = () => runs.policy.length - 1;

  // ---- the drawing --------------------------------------------------------------------------------------------
  const create = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent?.append(node);
    return node;
  };
  const HEIGHT = 260, LEFT = 44, RIGHT = 12, TOP = 12, BOTTOM = 38, MOST = 24;
  const chart = place.querySelector(".chart");
  const read = (name) => place.querySelector(`[data-read="${name}"]`);

  function draw() {
    const width = Math.max(chart.clientWidth, 260);
    const x = (k) => LEFT + (k / LENGTH) * (width - LEFT - RIGHT);
    const y = (ahead) => TOP + (0.5 - ahead / (2 * MOST)) * (HEIGHT - TOP - BOTTOM);
    const path = (values) => "M" + values.map((v, k) => `${x(k).toFixed(1)} ${y(v).toFixed(1)}`).join("L");
    const svg = create("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
      "aria-label": "How many A's too many: on-policy sampling wanders as the square root of the number of visits, balanced sampling stays at zero" });
    const fan = Array.from({ length: LENGTH + 1 }, (_, k) => Math.sqrt(k)); // two standard deviations: 2 · √k/2
    create("path", { class: "fan", d: `${path(fan)}L${path(fan.map((v) => -v)).slice(1).split("L").reverse().join("L")}Z` }, svg);
    for (const ahead of [-20, -10, 0, 10, 20]) {
      create("line", { class: "grid", x1: x(0), x2: x(LENGTH), y1: y(ahead), y2: y(ahead) }, svg);
      create("text", { x: LEFT - 6, y: y(ahead) + 4, "text-anchor": "end" }, svg).textContent = ahead > 0 ? `+${ahead}` : String(ahead).replace("-", "−");
    }
    for (const k of [0, 100, 200, 300, 400]) create("text", { x: x(k), y: HEIGHT - BOTTOM + 16, "text-anchor": k === LENGTH ? "end" : "middle" }, svg).textContent = k;
    create("text", { x: (x(0) + x(LENGTH)) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, svg).textContent = "visits k to the state";
    for (const ghost of ghosts) create("path", { class: "line ghost", d: path(ghost) }, svg);
    create("path", { class: "line policy", d: path(runs.policy) }, svg);
    create("path", { class: "line balanced", d: path(runs.balanced) }, svg);
    const note = create("text", { class: "note", x: x(LENGTH) - 4, y: y(20) - 6, "text-anchor": "end" }, svg);
    note.textContent = "shaded: ± √k, where 95 % of on-policy runs are";
    chart.replaceChildren(svg);
    for (const name of Object.keys(RULES)) {
      const k = visits(), a = k / 2 + runs[name].at(-1);
      read(`${name}-counts`).textContent = `A ${a} · B ${k - a}`;
      read(`${name}-estimate`).textContent = k ? (a / k).toFixed(3) : "–";
    }
    place.dataset.visits = visits();
  }

  // ---- playing ------------------------------------------------------------------------------------------------
  const play = place.querySelector("[data-do=play]"), again = place.querySelector("[data-do=again]");
  let frame = null, last = 0, owed = 0;
  function tick(now) {
    owed += Math.min((now - last) / 1000, 0.1) * STEPS_PER_SECOND;
    last = now;
    for (; owed >= 1 && visits() < LENGTH; owed--) step();
    draw();
    if (visits() < LENGTH) frame = requestAnimationFrame(tick); else pause();
  }
  function pause() { cancelAnimationFrame(frame); frame = null; play.textContent = "Play"; }
  function start() { if (frame === null && visits() < LENGTH) { last = performance.now(); owed = 0; play.textContent = "Pause"; frame = requestAnimationFrame(tick); } }
  function finish() { while (visits() < LENGTH) step(); draw(); }
  function next() {
    if (visits() > 0) { ghosts.push(runs.policy); if (ghosts.length > GHOSTS) ghosts.shift(); }
    restart();
  }
  play.addEventListener("click", () => {
    if (frame !== null) { pause(); return; }
    if (visits() >= LENGTH) next();
    start();
  });
  again.addEventListener("click", () => {
    pause();
    if (visits() < LENGTH) while (visits() < LENGTH) step(); // an unfinished run is finished, then kept in the background
    next();
    if (still.matches) finish(); else { draw(); start(); }
  });
  restart();
  if (still.matches) { play.hidden = true; finish(); } else {
    draw();
    new IntersectionObserver((entries) => { if (entries[0].isIntersecting) start(); else pause(); }).observe(chart); // runs while it can be seen
  }
  new ResizeObserver(() => { if (frame === null) draw(); }).observe(chart);
  place.dataset.ready = "yes";
})();
