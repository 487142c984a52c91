// The log: one row for each way through the loop, from the watch event to the writes.

import { chosen } from "./choice.js";
import { $, announce, label, make, say } from "./dom.js";
import { clock, count, many, micros } from "./words.js";

const ROWS = 250;
const CHANGES = { added: ["+", "added"], updated: ["~", "updated"], deleted: ["−", "deleted"] };

/** The newest first. */
let rows = [];
/** Rows of keys that wait for a worker, by controller and key; rows in hand, by the reconcile's id. */
const waiting = new Map();
const inHand = new Map();
const lastOf = new Map();
const dirty = new Set();
let held = [];
/** The number of the last line that was told, and how many were left out. */
let last = -1;
let lost = 0;
let scheduled = false;
let paused = false;

function rowFor(line) {
  const row = { controller: line.controller, key: line.key, at: line.at, triggers: [], writes: [], outcome: "waiting" };
  rows.unshift(row);
  return row;
}

const place = (line) => `${line.controller} ${line.key}`;

function apply(line) {
  let row;
  switch (line.step) {
    case "triggered":
      row = waiting.get(place(line)) ?? rowFor(line);
      waiting.set(place(line), row);
      row.triggers.push(line);
      break;
    case "started":
      row = waiting.get(place(line));
      waiting.delete(place(line));
      if (!row) {
        row = rowFor(line);
        row.why = lastOf.get(place(line)) ?? "came back";
      }
      row.outcome = "running";
      inHand.set(line.id, row);
      break;
    case "wrote":
      row = inHand.get(line.id);
      row?.writes.push(line);
      break;
    case "finished":
      row = inHand.get(line.id);
      inHand.delete(line.id);
      if (!row) break;
      Object.assign(row, { outcome: line.outcome, took: line.tookMicros, message: line.message, requeue: line.requeueMillis });
      lastOf.set(place(line), line.message ? "tried again" : line.requeueMillis != null ? "looked at again" : "came back");
      if (line.message) announceFailure(row);
      break;
  }
  if (row) dirty.add(row);
}

function trim() {
  for (const row of rows.splice(ROWS)) {
    remove(row);
    dirty.delete(row);
    if (waiting.get(place(row)) === row) waiting.delete(place(row));
  }
  if (inHand.size > 5000) inHand.clear();
  if (lastOf.size > 20000) lastOf.clear();
}

/** A chapter of the story has come. */
export function takeStory({ lost: missing, lines }) {
  // What happened before this page was opened is not missed, and what is told again is known.
  if (last >= 0) lost += missing;
  lines = lines.filter((line) => line.number > last);
  last = lines.at(-1)?.number ?? last;
  if (paused) {
    held.push(...lines);
    lost += Math.max(held.length - 4000, 0);
    held = held.slice(-4000);
    say($("pause"), `Resume (${count(held.length)})`);
    return;
  }
  lines.forEach(apply);
  schedule();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  const show = () => {
    scheduled = false;
    showRows();
  };
  // Nobody sees a page in the background; it must not grow meanwhile.
  if (document.hidden) trim(), (scheduled = false);
  else requestAnimationFrame(show);
}

const outcomes = { waiting: "waiting", running: "in hand", done: "done", gone: "object is gone", failed: "failed", timedOut: "took too long", panicked: "panicked" };
/** A resource without its group, which stands in the title. */
const brief = (resource) => resource.replace(/\.[^/]*/, "");
const hasFailed = (row) => ["failed", "timedOut", "panicked"].includes(row.outcome);
const statusOf = (write) => (write.status === 409 ? "conflict" : write.status >= 200 && write.status < 400 ? "" : "refused");
const hasTrouble = (row) => hasFailed(row) || row.writes.some(statusOf);

function isShown(row) {
  if (chosen.controller && row.controller !== chosen.controller) return false;
  if (chosen.outcome === "wrote" && row.writes.length === 0) return false;
  if (chosen.outcome === "trouble" && !hasTrouble(row)) return false;
  if (!chosen.text) return true;
  const texts = [row.key, row.controller, row.message, ...row.triggers.map((t) => `${t.resource} ${t.object}`), ...row.writes.map((w) => `${w.verb} ${w.resource} ${w.object}`)];
  return texts.some((text) => text?.toLowerCase().includes(chosen.text));
}

/** The key's own object has its name beside it already. */
function triggerItem({ change, resource, object, key }) {
  const [sign, word] = CHANGES[change] ?? ["?", change];
  return make(
    "span",
    { class: "item", title: `${resource} ${object} was ${word}` },
    make("span", { class: `change ${change}`, "aria-hidden": "true" }, sign),
    make("span", { class: "unseen" }, `${word}: `),
    `${brief(resource)} `,
    object === key ? null : make("span", { class: "mono" }, object),
  );
}

function writeItem(write) {
  const kind = statusOf(write);
  const status = write.status ?? "no answer";
  return make(
    "span",
    { class: "item", title: `${write.verb} ${write.resource} ${write.object ?? ""}: ${status}, ${micros(write.tookMicros)}` },
    make("span", { class: "verb" }, write.verb),
    ` ${brief(write.resource)} `,
    write.object && write.object !== write.key ? make("span", { class: "mono" }, `${write.object} `) : null,
    make("span", { class: `status ${kind}` }, kind === "conflict" ? "409 conflict" : String(status)),
  );
}

/** The last few of a list, and how many came before. */
function some(items, most, show) {
  const shown = items.slice(-most).map(show);
  if (items.length > most) shown.unshift(make("span", { class: "item faint" }, `${count(items.length - most)} before, then`));
  return shown;
}

function showRow(row) {
  row.element ??= make("tr", {}, make("td", label("time")), make("td", label("watch event")), make("td", label("key")), make("td", label("reconcile")), make("td", label("writes")));
  const [time, event, key, reconcile, writes] = row.element.cells;
  const failed = hasFailed(row);
  row.element.dataset.outcome = failed ? "failed" : row.writes.some(statusOf) ? "conflict" : row.outcome;
  if (!time.firstChild) {
    time.append(make("time", { datetime: new Date(row.at).toISOString() }, clock(row.at)));
    key.append(make("span", {}, make("span", { class: "mono" }, row.key), make("span", { class: "controller" }, row.controller)));
  }
  event.replaceChildren(make("div", {}, ...(row.triggers.length ? some(row.triggers, 3, triggerItem) : [make("span", { class: "faint" }, row.why ?? "")])));
  const told = make("div", {}, make("span", { class: `outcome ${failed ? "failed" : row.outcome}` }, outcomes[row.outcome] ?? row.outcome));
  if (row.took !== undefined) told.append(make("span", { class: "faint" }, ` ${micros(row.took)}`));
  if (row.requeue != null) told.append(make("span", { class: "item faint" }, `again in ${micros(row.requeue * 1000)}`));
  reconcile.replaceChildren(told);
  writes.replaceChildren(make("div", {}, ...some(row.writes, 5, writeItem)));
}

/** What a failure says has a line of its own below its row. */
function showNote(row) {
  if (row.message && !row.note) {
    const message = make("span", { class: "message", title: row.message }, row.message);
    row.note = make("tr", { class: "note", "data-outcome": "failed" }, make("td"), make("td", { colspan: "4" }, message));
    row.element.after(row.note);
  }
  filter(row);
}

function filter(row) {
  for (const part of [row.element, row.note]) if (part) part.hidden = !isShown(row);
}

function remove(row) {
  row.element?.remove();
  row.note?.remove();
}

function showRows() {
  trim();
  const body = $("rows").tBodies[0];
  const scroll = $("scroll");
  // Who has scrolled down reads: what comes on top must not push that away.
  const before = scroll.scrollTop > 4 ? scroll.scrollHeight : null;
  let first = body.firstChild;
  for (const row of rows) {
    if (row.element) break;
    showRow(row);
    row.element.classList.add("fresh");
    // Or it would arrive again whenever a filter shows it again.
    row.element.addEventListener("animationend", ({ currentTarget }) => currentTarget.classList.remove("fresh"), { once: true });
    body.insertBefore(row.element, first);
    showNote(row);
    dirty.delete(row);
  }
  for (const row of dirty) {
    showRow(row);
    showNote(row);
  }
  dirty.clear();
  if (before !== null) scroll.scrollTop += scroll.scrollHeight - before;
  showFoot();
}

function showFoot() {
  const shown = rows.filter((row) => row.element && !row.element.hidden).length;
  const empty = $("no-rows");
  empty.hidden = shown > 0;
  if (rows.length) say(empty, "Nothing of what happened lately is what the filters ask for.");
  const parts = [shown < rows.length ? `${count(shown)} of ${many(rows.length, "way")} through the loop` : rows.length ? `the last ${many(rows.length, "way")} through the loop` : ""];
  if (lost) parts.push(`${many(lost, "step")} came too fast to be shown`);
  say($("log-foot"), parts.filter(Boolean).join("; "));
}

/** The story of another process begins. */
export function forget() {
  rows.forEach(remove);
  rows = [];
  for (const known of [waiting, inHand, lastOf, dirty]) known.clear();
  held = [];
  last = -1;
  lost = 0;
  showFoot();
}

// === Pausing, choosing, listening ===

export const isPaused = () => paused;

/** Stops the log, or goes on with what has come meanwhile. */
export function pause(on) {
  paused = on;
  $("pause").setAttribute("aria-pressed", on);
  say($("pause"), on ? "Resume" : "Pause");
  if (!on) {
    held.splice(0).forEach(apply);
    schedule();
  }
  announce(on ? "The log is paused" : "The log goes on");
}

document.addEventListener("choice", () => {
  rows.forEach(filter);
  showFoot();
});
document.addEventListener("visibilitychange", () => document.hidden || schedule());

/** Failures are told now and then. */
const QUIET = 15_000;
let announced = -QUIET;

function announceFailure(row) {
  if (performance.now() - announced < QUIET) return;
  announced = performance.now();
  announce(`${row.controller} ${outcomes[row.outcome]} for ${row.key}: ${row.message}`);
}
