// The page of the console: renders a stream of server-sent events as tables and a log.

import { showCaches } from "./caches.js";
import { choose } from "./choice.js";
import { showControllers } from "./controllers.js";
import { $, announce, say } from "./dom.js";
import { begin, showProcess, showStations } from "./head.js";
import { forget, isPaused, pause, takeStory } from "./log.js";
import { clock } from "./words.js";

// === Filters ===

function toggle() {
  pause(!isPaused());
  showConnection();
}

$("only-controller").addEventListener("change", (event) => choose({ controller: event.target.value }));
$("only-outcome").addEventListener("change", (event) => choose({ outcome: event.target.value }));
$("only-text").addEventListener("input", (event) => choose({ text: event.target.value.trim().toLowerCase() }));
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("pause").addEventListener("click", toggle);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && typing) {
    $("only-text").value = "";
    choose({ text: "" });
    event.target.blur();
  } else if (!typing && event.key === "p") {
    toggle();
  } else if (!typing && event.key === "/") {
    event.preventDefault();
    $("only-text").focus();
  }
});

// === The stream ===

/** The last received state. */
let state = null;
/** The connection: `connecting`, `live` or `away`. */
let connection = "connecting";

function showConnection() {
  const shown = connection === "live" && isPaused() ? "paused" : connection;
  $("connection").dataset.state = shown;
  say($("connection"), shown === "away" ? "unreachable" : shown);
  document.body.classList.toggle("is-away", connection === "away");
  $("away").hidden = connection !== "away";
}

function connected(how) {
  const before = connection;
  connection = how;
  if (how === "away" && before !== "away") {
    const known = state ? ` Last update: ${clock(state.at).slice(0, 8)}.` : "";
    say($("away"), `The manager does not respond.${known} Retrying …`);
    announce("The manager does not respond");
  } else if (how === "live" && before === "away") {
    announce("The manager responds again");
  }
  showConnection();
}

function takeState(next) {
  // A restarted process has a new history.
  if (state && state.process.started !== next.process.started) {
    forget();
    begin();
  }
  state = next;
  for (const show of [showProcess, showStations, showControllers, showCaches]) show(next);
}

function follow() {
  const stream = new EventSource("api/events");
  stream.addEventListener("open", () => connected("live"));
  stream.addEventListener("state", (event) => {
    connected("live");
    takeState(JSON.parse(event.data));
  });
  stream.addEventListener("story", (event) => takeStory(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    connected("away");
    // The server refused, for example because of too many readers. The browser itself reconnects broken streams.
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
  });
}

follow();
