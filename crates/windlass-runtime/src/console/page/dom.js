// Helpers for elements and text. Data from the manager becomes text and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
export const $ = (id) => document.getElementById(id);

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
export const make = (tag, attributes = {}, ...children) => put(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

/** Sets a text only if it has changed, so that a selection is preserved. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Keeps one element per key, in order. `update` fills it. */
export function keyed(parent, items, keyOf, create, update) {
  const known = parent.known ??= new Map();
  const seen = new Set();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let node = known.get(key);
    if (!node) known.set(key, (node = create(item)));
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
    update(node, item);
  }
  for (const [key, node] of known) {
    if (!seen.has(key)) {
      node.remove();
      known.delete(key);
    }
  }
}

/** The label of a cell on small screens, where tables have no header. */
export const label = (text) => ({ "data-label": text });

/** Announces a text to screen readers. For important changes only. */
export const announce = (text) => say($("announcer"), text);
