// Which trials are chosen: by brushing the axes of the space, or by the lists below them. One state, whoever changes it.

const LINES = 1200; // that are drawn: more hide one another, and take their time
const FASTEST = 400; // of them all are drawn

class Choice {
  constructor(task, sketch) {
    this.task = task;
    this.sketch = sketch; // a number, or -1 for all of them
    this.rows = this.timed(); // trials with a time, slowest first: the fast ones are drawn over the others
    this.axes = this.axesOf();
    this.ranges = this.axes.map(() => null); // of each axis [low, high] in positions, or null
  }

  timed() {
    const t = this.task.trials, rows = [];
    for (let n = 0; n < t.id.length; n++)
      if (t.seconds[n] !== null && (this.sketch < 0 || t.sketch[n] === this.sketch)) rows.push(n);
    return rows.sort((a, b) => t.seconds[b] - t.seconds[a]);
  }

  axesOf() {
    const { task, rows } = this, t = task.trials, found = [];
    const shown = [...new Set(rows.map((n) => t.sketch[n]))].sort((a, b) => a - b);
    if (shown.length > 1) found.push(this.axis("sketch", rows.map((n) => t.sketch[n] + 1)));
    const names = [...new Set(shown.flatMap((s) => task.sketches[s].names))];
    const index = task.sketches.map((s) => new Map(s.names.map((name, n) => [name, n])));
    const stages = new Set(names.map((name) => name.split(".")[0]));
    for (const name of names) {
      const values = rows.map((n) => {
        const place = index[t.sketch[n]].get(name);
        return place === undefined ? null : t.config[n][place];
      });
      const label = stages.size === 1 && name.includes(".") ? name.slice(name.indexOf(".") + 1) : name;
      const made = this.axis(label, values);
      if (made.texts.length > 1) found.push(made);
    }
    return found;
  }

  axis(label, values) {
    // Positions along an axis: values in order, each as far from the next, "none" for a schedule without it at the foot.
    const kinds = [...new Set(values)];
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : 1);
    const sorted = kinds.filter((one) => one !== null).sort(order);
    if (kinds.includes(null)) sorted.unshift(null);
    const place = new Map(sorted.map((one, n) => [one, n]));
    return { label, texts: sorted.map((one) => (one === null ? "none" : String(one))), at: values.map((one) => place.get(one)) };
  }

  lines() {
    // Places of the trials that are drawn: the fastest, and of the others each n-th by speed.
    const slow = Math.max(0, this.rows.length - FASTEST), step = Math.max(1, Math.ceil(slow / (LINES - FASTEST)));
    return this.rows.map((_, place) => place).filter((place) => place >= slow || place % step === 0);
  }

  speedAt(row) {
    return this.task.amount / this.task.trials.seconds[row];
  }

  constrain(number, range) {
    this.ranges[number] = range;
  }

  clear() {
    this.ranges = this.ranges.map(() => null);
  }

  get filtered() {
    return this.ranges.some((range) => range !== null) || this.sketch >= 0;
  }

  chosen() {
    // Trials that lie in all ranges, fastest first. The last range is of the speed itself.
    const bounds = this.ranges.map((range) => (range === null ? null : Array.isArray(range[0]) ? range : [range]));
    const out = [];
    for (let n = this.rows.length - 1; n >= 0; n--) {
      let inside = true;
      for (let a = 0; a < bounds.length && inside; a++) {
        if (bounds[a] === null) continue;
        const value = a < this.axes.length ? this.axes[a].at[n] : this.speedAt(this.rows[n]);
        inside = bounds[a].some(([low, high]) => value >= low - 1e-9 && value <= high + 1e-9);
      }
      if (inside) out.push(this.rows[n]);
    }
    return out;
  }
}

function listsOf(choice, onchange) {
  // The same filters for a keyboard: from and to of each axis.
  const boxes = choice.axes.map((axis, number) => {
    const select = (word, chosen) => {
      const made = el("select", { "aria-label": `${axis.label}, ${word}` }, axis.texts.map((text, n) => el("option", { value: n }, text)));
      made.value = chosen;
      made.addEventListener("change", changed);
      return made;
    };
    const last = axis.texts.length - 1, range = choice.ranges[number];
    const flat = range === null ? [0, last] : [Math.ceil(Math.min(...range.flat()) - 1e-9), Math.floor(Math.max(...range.flat()) + 1e-9)];
    function changed() {
      const [low, high] = [+from.value, +to.value].sort((a, b) => a - b);
      onchange(number, low === 0 && high === last ? null : [low - 0.25, high + 0.25]);
    }
    const from = select("from", Math.max(0, flat[0])), to = select("to", Math.min(last, flat[1]));
    return el("fieldset", {}, el("legend", {}, axis.label), from, "to", to);
  });
  return el("div", { class: "axes" }, boxes);
}
