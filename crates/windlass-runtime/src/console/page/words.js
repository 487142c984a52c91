// Formatting of numbers.

const grouped = new Intl.NumberFormat("en");
export const count = (n) => grouped.format(n);
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

export function rate(n) {
  if (n === 0) return "0";
  if (n < 0.05) return "< 0.1";
  return n < 10 ? n.toFixed(1) : count(Math.round(n));
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    n /= 1024;
    if (n < 1000 || unit === "GiB") return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`;
  }
}

export function micros(n) {
  if (n < 1000) return `${n} µs`;
  if (n < 1e6) return `${n < 1e4 ? (n / 1e3).toFixed(1) : Math.round(n / 1e3)} ms`;
  return n < 1e7 ? `${(n / 1e6).toFixed(1)} s` : duration(n / 1e6);
}

export function duration(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function clock(millis) {
  const d = new Date(millis);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}.${String(d.getMilliseconds()).padStart(3, "0")}`;
}

/** The rate of a counter, smoothed over a few seconds. */
export class Speed {
  #at = null;
  #count = 0;
  value = 0;
  add(at, n) {
    if (this.#at !== null && at > this.#at && n >= this.#count) {
      const now = ((n - this.#count) * 1000) / (at - this.#at);
      this.value += (now - this.value) * 0.4;
      if (now === 0 && this.value < 0.05) this.value = 0;
    } else if (n < this.#count) this.value = 0;
    this.#at = at;
    this.#count = n;
    return this.value;
  }
}
