// The table of caches: objects and memory.

import { $, draw, keyed, label, make, say } from "./dom.js";
import { bytes, count, many } from "./words.js";

const FORMS = ["encoded", "compressed", "decoded"];
const sizes = (cache) => FORMS.map((form) => cache[`${form}Bytes`]);
const size = (cache) => sizes(cache).reduce((a, b) => a + b, 0);

function createCache(cache) {
  const cells = {
    objects: make("td", { class: "number", ...label("objects") }),
    bytes: make("td", { class: "number", ...label("bytes") }),
    bar: make("td", { class: "bar-cell", ...label("stored as") }),
    events: make("td", { class: "number", ...label("events") }),
    listed: make("td", { class: "number", ...label("listed") }),
    errors: make("td", { class: "number", ...label("errors") }),
  };
  const where = [cache.namespace && `in ${cache.namespace}`, cache.selector].filter(Boolean).join(", ");
  const as = { PartialObject: "metadata only", DynamicObject: "dynamic" }[cache.type];
  const what = [as, where].filter(Boolean).join(" · ");
  const phase = make("span", { class: "phase" });
  const name = make("td", {}, cache.resource, " ", make("span", { class: "what" }, what), " ", phase);
  return Object.assign(make("tr", {}, name, ...Object.values(cells)), { parts: cells, phase });
}

function updateCache(row, cache, largest) {
  const { parts: cells, phase } = row;
  say(phase, cache.phase === "synced" ? "" : cache.phase);
  say(cells.objects, count(cache.objects));
  say(cells.bytes, bytes(size(cache)));
  say(cells.events, count(cache.events));
  say(cells.listed, cache.lists === 1 ? "once" : cache.lists === 2 ? "twice" : cache.lists ? `${count(cache.lists)} times` : "–");
  say(cells.errors, count(cache.errors));
  cells.errors.classList.toggle("trouble", cache.errors > 0);
  cells.errors.classList.toggle("faint", cache.errors === 0);
  const drawn = `${sizes(cache)}|${largest}`;
  if (row.drawn === drawn) return;
  row.drawn = drawn;
  const of = FORMS.map((form, i) => `${bytes(sizes(cache)[i])} ${form}`).join(", ");
  const bar = draw("svg", { viewBox: "0 0 100 9", preserveAspectRatio: "none", role: "img", "aria-label": of }, draw("title", {}, of));
  let x = 0;
  sizes(cache).forEach((bytes, i) => {
    // The square root keeps a bar of one percent visible.
    const width = size(cache) ? Math.sqrt(size(cache) / largest) * 100 * (bytes / size(cache)) : 0;
    if (width > 0) bar.append(draw("rect", { class: FORMS[i], x: x.toFixed(2), width: Math.max(width, 0.6).toFixed(2), height: 9 }));
    x += width;
  });
  cells.bar.replaceChildren(bar);
}

export function showCaches({ caches }) {
  const table = $("caches");
  for (const node of [table, $("caches-key")]) node.hidden = caches.length === 0;
  $("no-caches").hidden = caches.length > 0;
  const largest = Math.max(...caches.map(size), 1);
  const sorted = [...caches].sort((a, b) => size(b) - size(a) || a.resource.localeCompare(b.resource));
  const keyOf = (cache) => [cache.resource, cache.type, cache.namespace, cache.selector].join("|");
  keyed(table.tBodies[0], sorted, keyOf, createCache, (row, cache) => updateCache(row, cache, largest));
  const total = (of) => caches.reduce((sum, cache) => sum + of(cache), 0);
  const foot = [
    make("td", {}, many(caches.length, "cache")),
    make("td", { class: "number", ...label("objects") }, count(total((cache) => cache.objects))),
    make("td", { class: "number", ...label("bytes") }, bytes(total(size))),
    make("td", { colspan: "4" }),
  ];
  table.tFoot.replaceChildren(make("tr", {}, ...foot));
}
