// Numbers as people read them, and elements whose texts are only ever texts.

function seconds(s) {
  if (s === null || s === undefined) return "none";
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]])
    if (s >= scale) return digits(s / scale, 4) + " " + unit;
  return digits(s * 1e9, 4) + " ns";
}

function digits(x, count) {
  if (!Number.isFinite(x)) return "none";
  return x >= 10 ** count ? Math.round(x).toLocaleString("en") : String(+x.toPrecision(count));
}

function percent(x, places) {
  return (100 * x).toFixed(places ?? 1) + "%";
}

function count(n, noun) {
  return n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");
}

function engineering(x) {
  for (const [mark, scale] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (x >= scale) return digits(x / scale, 3) + mark;
  return digits(x, 3);
}

function plain(text) {
  // Plotly reads some markup in its texts: what comes from a record has none.
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

function cut(text, length) {
  return text.length <= length ? text : text.slice(0, length - 1) + "…";
}

function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {}))
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function tile(name, value, small, share) {
  const bar = share === undefined ? null : el("div", { class: "meter", "aria-hidden": "true" }, el("i"));
  if (bar) bar.firstChild.style.width = Math.max(0, Math.min(1, share)) * 100 + "%";
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value, el("small", {}, small || "\u00a0"), bar));
}

function tableOf(headings, rows, label) {
  // A heading that starts with ">" stands to the right.
  const right = headings.map((one) => one.startsWith(">"));
  const cell = (tag, content, n) => el(tag, right[n] ? { class: "r" } : {}, content);
  const head = el("tr", {}, headings.map((one, n) => {
    const made = cell("th", one.replace(/^>/, ""), n);
    made.scope = "col";
    return made;
  }));
  const lines = rows.map((row) => {
    const line = el("tr", row.first ? { class: "first" } : {}, (row.cells || row).map((one, n) => cell("td", one, n)));
    return line;
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, head), el("tbody", {}, lines)));
}

function code(text) {
  return el("code", {}, text);
}

function copied(text, label) {
  const button = el("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  } }, "Copy");
  const pre = el("pre", { tabindex: "0", role: "region", "aria-label": label }, text);
  return el("div", { class: "with-copy" }, pre, button);
}

function choice(legend, options, chosen, onchange) {
  const name = "choice-" + legend.replace(/\W+/g, "-");
  return el("fieldset", { class: "seg" }, el("legend", {}, legend), options.map(([value, text]) => {
    const input = el("input", { type: "radio", name, value, onchange: () => onchange(value) });
    input.checked = value === chosen;
    return el("label", {}, input, text);
  }));
}
