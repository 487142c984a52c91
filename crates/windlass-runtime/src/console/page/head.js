// The header and the summary of the control loop.

import { $, make, say } from "./dom.js";
import { Speed, bytes, count, duration, many, rate } from "./words.js";

let speeds;

/** Resets the rates, because a restarted process counts from zero. */
export function begin() {
  speeds = { events: new Speed(), reconciles: new Speed(), writes: new Speed() };
}
begin();

export function showProcess({ process, leadership }) {
  say($("program"), process.program);
  say($("host"), `${process.host} · ${process.pid}`);
  document.title = `${process.program} · Windlass console`;
  say($("uptime"), duration(process.uptimeSeconds));
  say($("memory"), process.residentBytes ? bytes(process.residentBytes) : "–");
  const holder = leadership.leader;
  const role = { alone: "no election", leading: `leads ${leadership.lease}`, waiting: holder ? `standby: ${holder} leads` : "standby: no leader yet" };
  say($("leadership"), role[leadership.role] ?? leadership.role);
}

export function showStations({ at, controllers, caches }) {
  const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
  const events = sum(caches, (cache) => cache.events);
  const reconciles = sum(controllers, (one) => one.totals.reconciles);
  const writes = sum(controllers, (one) => one.totals.writes);
  say($("events-rate"), rate(speeds.events.add(at, events)));
  say($("events-total"), `${count(events)} in ${many(caches.length, "cache")}`);
  const depth = sum(controllers, (one) => one.depth);
  const hands = sum(controllers, (one) => one.inFlight.length);
  say($("waiting"), count(depth));
  const deepest = controllers.reduce((most, one) => (one.depth > (most?.depth ?? 0) ? one : most), null);
  say($("waiting-where"), deepest ? `most in ${deepest.name}; ${count(hands)} running` : `${count(hands)} running`);
  say($("reconciles-rate"), rate(speeds.reconciles.add(at, reconciles)));
  const failures = sum(controllers, (one) => one.totals.failures);
  tell($("reconciles-total"), count(reconciles), failures && `${count(failures)} failed`);
  say($("writes-rate"), rate(speeds.writes.add(at, writes)));
  const conflicts = sum(controllers, (one) => one.totals.conflicts);
  const refusals = sum(controllers, (one) => one.totals.refusals);
  tell($("writes-total"), count(writes), refusals && `${count(refusals)} refused`, conflicts && many(conflicts, "conflict"));
}

/** Shows a total with its failures, and with conflicts, which are only a nuisance because they are retried. */
function tell(node, total, trouble, nuisance) {
  const key = [total, trouble, nuisance].join("|");
  if (node.told === key) return;
  node.told = key;
  const parts = [`${total} total`];
  if (nuisance) parts.push(", ", make("span", { class: "nuisance" }, nuisance));
  if (trouble) parts.push(", ", make("span", { class: "trouble" }, trouble));
  node.replaceChildren(...parts);
}
