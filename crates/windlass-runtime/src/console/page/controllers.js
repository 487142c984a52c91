// The table of controllers: a row for each, with its running reconciles and its last failure.

import { choose, chosen } from "./choice.js";
import { $, draw, label, make, say } from "./dom.js";
import { clock, count, micros, rate } from "./words.js";

const SAMPLES = 60;

function spark({ everyMillis, reconciles, failures }) {
  const width = SAMPLES - 1, height = 26;
  const peak = Math.max(...reconciles, 1);
  const x = (i) => width - (reconciles.length - 1 - i);
  const y = (n) => height - 1 - (n / peak) * (height - 4);
  const points = reconciles.map((n, i) => `${x(i)},${y(n).toFixed(1)}`);
  const perSecond = (n) => rate((n * 1000) / everyMillis);
  const told = reconciles.some(Boolean)
    ? `at most ${perSecond(peak)} reconciles per second in the last two minutes, ${perSecond(reconciles.at(-1))} now`
    : "no reconcile in the last two minutes";
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": told });
  picture.append(draw("title", {}, told), draw("path", { class: "ground", d: `M0,${height - 1}H${width}` }));
  if (points.length > 1 && reconciles.some(Boolean)) {
    picture.append(
      draw("path", { class: "area", d: `M${x(0)},${height - 1}L${points.join("L")}L${width},${height - 1}Z` }),
      draw("path", { class: "stroke", d: `M${points.join("L")}` }),
    );
  }
  const marks = failures.map((n, i) => (n ? `M${x(i)},${height}V${height - 6}` : "")).join("");
  if (marks) picture.append(draw("path", { class: "failures", d: marks }));
  return picture;
}

function createController({ name, resource }) {
  const button = make("button", { type: "button", class: "name", "aria-pressed": "false", title: `Show only ${name} in the log` }, name);
  button.addEventListener("click", () => choose({ controller: chosen.controller === name ? "" : name }));
  const body = make("tbody");
  const cells = {
    depth: make("td", { class: "number", ...label("waiting") }),
    hands: make("td", { class: "number", ...label("running") }),
    spark: make("td", { class: "spark", ...label("last 2 min") }),
    latency: make("td", { class: "number", ...label("p50 / p99") }),
    total: make("td", { class: "number", ...label("total") }),
    failed: make("td", { class: "number", ...label("failed") }),
  };
  const row = make("tr", {}, make("td", {}, button, make("span", { class: "what" }, resource)), ...Object.values(cells));
  const details = make("tr", { class: "details", hidden: "" });
  const told = make("td", { colspan: "7" });
  details.append(told);
  body.append(row, details);
  const made = Object.assign(body, { name, cells, row, details, told, button });
  showChoice(made);
  return made;
}

function showChoice({ name, row, button }) {
  const isChosen = chosen.controller === name;
  row.dataset.chosen = isChosen;
  button.setAttribute("aria-pressed", isChosen);
}

function updateController(body, one) {
  const { cells, details, told } = body;
  say(cells.depth, count(one.depth));
  say(cells.hands, `${one.inFlight.length} of ${one.workers}`);
  cells.depth.classList.toggle("faint", one.depth === 0);
  cells.hands.classList.toggle("faint", one.inFlight.length === 0);
  cells.failed.classList.toggle("faint", one.totals.failures === 0);
  say(cells.latency, one.latency ? `${micros(one.latency.p50)} / ${micros(one.latency.p99)}` : "–");
  say(cells.total, count(one.totals.reconciles));
  say(cells.failed, count(one.totals.failures));
  cells.failed.classList.toggle("trouble", one.totals.failures > 0);
  const drawn = JSON.stringify([one.history.reconciles, one.history.failures]);
  if (body.drawn !== drawn) {
    body.drawn = drawn;
    cells.spark.replaceChildren(spark(one.history));
  }
  // Only reconciles that run long enough to be read.
  const held = one.inFlight.filter((flight) => flight.forMicros > 250_000);
  const failure = one.lastFailure;
  const news = JSON.stringify([held, failure?.at, failure?.key]);
  if (body.news === news) return;
  body.news = news;
  const parts = [];
  if (held.length) {
    const keys = held.slice(0, 3).map((flight) => `${flight.key} for ${micros(flight.forMicros)}`);
    if (held.length > 3) keys.push(`${count(held.length - 3)} more`);
    parts.push(make("div", { class: "hands" }, "running: ", make("span", { class: "mono" }, keys.join(", "))));
  }
  if (failure) {
    const text = `${clock(failure.at)} ${failure.key}: ${failure.message}`;
    parts.push(make("div", { class: "failure", title: text }, text));
  }
  details.hidden = parts.length === 0;
  told.replaceChildren(...parts);
}

export function showControllers({ controllers, leadership }) {
  const table = $("controllers");
  table.hidden = controllers.length === 0;
  $("no-controllers").hidden = controllers.length > 0;
  say(
    $("no-controllers"),
    leadership.role === "waiting"
      ? `${leadership.leader ? `${leadership.leader} leads` : "There is no leader yet"}. The controllers start here when this process is elected.`
      : "No controller has started yet.",
  );
  // Each controller has its own table body: a row, and details below it.
  keyedBodies(table, controllers);
  const select = $("only-controller");
  const names = controllers.map((one) => one.name).join();
  if (select.names !== names) {
    select.names = names;
    const options = controllers.map((one) => make("option", { value: one.name }, one.name));
    select.replaceChildren(make("option", { value: "" }, "all controllers"), ...options);
    select.value = chosen.controller;
  }
}

function keyedBodies(table, controllers) {
  const known = table.bodies ??= new Map();
  for (const [name, body] of known) {
    if (!controllers.some((one) => one.name === name)) {
      body.remove();
      known.delete(name);
    }
  }
  table.querySelector("tbody:empty")?.remove();
  for (const one of controllers) {
    if (!known.has(one.name)) {
      const body = createController(one);
      known.set(one.name, body);
      table.append(body);
    }
    updateController(known.get(one.name), one);
  }
}

document.addEventListener("choice", () => {
  $("only-controller").value = chosen.controller;
  for (const body of $("controllers").bodies?.values() ?? []) showChoice(body);
});
