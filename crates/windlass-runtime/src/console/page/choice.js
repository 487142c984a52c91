// What the reader has chosen to see. Whoever shows something listens for "choice".

export const chosen = { controller: "", outcome: "", text: "" };

export function choose(change) {
  Object.assign(chosen, change);
  document.dispatchEvent(new Event("choice"));
}
