// The filters chosen by the user. Views listen for the event "choice".

export const chosen = { controller: "", outcome: "", text: "" };

export function choose(change) {
  Object.assign(chosen, change);
  document.dispatchEvent(new Event("choice"));
}
