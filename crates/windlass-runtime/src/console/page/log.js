// The log: one row for each pass through the control loop, from the watch event to the writes.

import { chosen } from "./choice.js";
import { $, announce, label, make, say } from "./dom.js";
import { clock, count, many, micros } from "./words.js";

const ROWS = 250;
const CHANGES = { added: ["+", "added"], updated: ["~", "updated"], deleted: ["−", "deleted"] };

/** The rows, the newest first. */
let rows = [];
/** Rows of waiting keys, by controller and key; rows of running reconciles, by reconcile ID. */
const waiting = new Map();
const inHand = new Map();
const lastOf = new Map();
const dirty = new Set();
let held = [];
/** The number of the last received line, and the number of skipped lines. */
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
        row.why = lastOf.get(place(line)) ?? "requeued";
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
      lastOf.set(place(line), line.message ? "retried" : line.requeueMillis != null ? "requeued after a delay" : "requeued");
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

/** Processes a `story` event. */
export function takeStory({ lost: missing, lines }) {
  // Lines from before the page was opened do not count as lost. Repeated lines are ignored.
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
  // A page in the background is not rendered, and must not grow.
  if (document.hidden) trim(), (scheduled = false);
  else requestAnimationFrame(show);
}

const outcomes = { waiting: "waiting", running: "running", done: "done", gone: "object deleted", failed: "failed", timedOut: "timed out", panicked: "panicked" };
/** A resource without its group, which the title shows. */
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

/** The name is omitted if the object is the key's own. */
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
  const status = write.status ?? "no response";
  return make(
    "span",
    { class: "item", title: `${write.verb} ${write.resource} ${write.object ?? ""}: ${status}, ${micros(write.tookMicros)}` },
    make("span", { class: "verb" }, write.verb),
    ` ${brief(write.resource)} `,
    write.object && write.object !== write.key ? make("span", { class: "mono" }, `${write.object} `) : null,
    make("span", { class: `status ${kind}` }, kind === "conflict" ? "409 conflict" : String(status)),
  );
}

/** The last items of a list, and the number of previous items. */
function some(items, most, show) {
  const shown = items.slice(-most).map(show);
  if (items.length > most) shown.unshift(make("span", { class: "item faint" }, `${count(items.length - most)} more, then`));
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
  if (row.requeue != null) told.append(make("span", { class: "item faint" }, `requeue in ${micros(row.requeue * 1000)}`));
  reconcile.replaceChildren(told);
  writes.replaceChildren(make("div", {}, ...some(row.writes, 5, writeItem)));
}

/** Shows the message of a failure in a line below its row. */
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
  // Keep the position of a scrolled log when new rows are added on top.
  const before = scroll.scrollTop > 4 ? scroll.scrollHeight : null;
  let first = body.firstChild;
  for (const row of rows) {
    if (row.element) break;
    showRow(row);
    row.element.classList.add("fresh");
    // Otherwise the animation would repeat whenever a filter shows the row again.
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
  if (rows.length) say(empty, "No recent step matches the filters.");
  const parts = [shown < rows.length ? `${count(shown)} of ${many(rows.length, "pass", "passes")} through the loop` : rows.length ? `the last ${many(rows.length, "pass", "passes")} through the loop` : ""];
  if (lost) parts.push(`${many(lost, "step")} skipped`);
  say($("log-foot"), parts.filter(Boolean).join("; "));
}

/** Clears the log for a restarted process. */
export function forget() {
  rows.forEach(remove);
  rows = [];
  for (const known of [waiting, inHand, lastOf, dirty]) known.clear();
  held = [];
  last = -1;
  lost = 0;
  showFoot();
}

// === Pause, filters, announcements ===

export const isPaused = () => paused;

/** Pauses the log, or resumes it with the lines received meanwhile. */
export function pause(on) {
  paused = on;
  $("pause").setAttribute("aria-pressed", on);
  say($("pause"), on ? "Resume" : "Pause");
  if (!on) {
    held.splice(0).forEach(apply);
    schedule();
  }
  announce(on ? "The log is paused" : "The log continues");
}

document.addEventListener("choice", () => {
  rows.forEach(filter);
  showFoot();
});
document.addEventListener("visibilitychange", () => document.hidden || schedule());

/** The minimum interval between announced failures, in milliseconds. */
const QUIET = 15_000;
let announced = -QUIET;

function announceFailure(row) {
  if (performance.now() - announced < QUIET) return;
  announced = performance.now();
  announce(`${row.controller} ${outcomes[row.outcome]} for ${row.key}: ${row.message}`);
}
