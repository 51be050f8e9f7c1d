// A model: what its kernels took at first and take now, as two bars of the same scale and as a table.

const NAMED = 7; // kernels with a colour of their own

function modelCard(model, choose) {
  const place = el("div", { class: "plot" });
  const known = model.layers.filter((one) => one.now !== null);
  const now = sum(known, "now"), before = sum(known, "before"), rows = model.layers.map((one) => layerRow(one, now, before, choose));
  const table = tableOf(["layers", ">calls", ">trials", ">at first", ">share", ">now", ">share", ">gain", ">of its ceiling"], rows, "Layers of the model");
  const card = el("section", { class: "card full", id: "layers" }, el("h2", {}, "Layers of the model"),
    el("p", { class: "why" }, `${model.name} on ${model.place}: the seconds of all calls of each kernel, at its first trial that ran `,
      "(what the analytic model picked) and at its best, in the units of one moment. Kernels are timed by themselves: a whole run adds what lies between them."), place, table);
  return { card, draw: () => drawModel(place, known, now, before) };
}

function sum(rows, key) {
  return rows.reduce((total, one) => total + (one[key] ?? 0), 0);
}

function layerRow(one, now, before, choose) {
  const name = one.task ? el("button", { type: "button", onclick: () => choose(one.task) }, one.place || "kernel") : one.place;
  if (one.now === null) return [name, String(one.calls), String(one.trials), "none", "", "none", "", "", ""];
  const gain = one.before ? digits(one.before / one.now, 3) + "×" : "";
  return [name, String(one.calls), String(one.trials), seconds(one.before), share(one.before / before), seconds(one.now), share(one.now / now), gain,
    one.least ? percent(one.least / one.now, 0) : ""];
}

function share(part) {
  const bar = el("b");
  bar.style.width = 100 * Math.max(0, Math.min(1, part || 0)) + "%";
  return el("div", { class: "share" }, percent(part || 0), el("i", { "aria-hidden": "true" }, bar));
}

function drawModel(place, known, now, before) {
  if (!known.length) return empty(place, "No kernel of this model has a record yet.");
  const named = known.slice(0, NAMED), rest = known.slice(NAMED), y = ["at first", "now"];
  const bar = (name, first, last, fill) => ({
    type: "bar", orientation: "h", name: plain(cut(name, 34)), y, x: [first * 1e3, last * 1e3], marker: { color: fill, line: { width: 1, color: color("card") } },
    hovertemplate: [[first, before], [last, now]].map(([part, all]) => `${plain(cut(name, 70))}<br>${seconds(part)}, ${percent(part / all)}<extra></extra>`),
  });
  const traces = named.map((one, n) => bar(one.place || "kernel", one.before ?? 0, one.now, series(n)));
  if (rest.length) traces.push(bar(count(rest.length, "other"), sum(rest, "before"), sum(rest, "now"), series(7)));
  const total = (value, row) => ({ x: value * 1e3, y: row, xanchor: "left", showarrow: false, text: `<b>${seconds(value)}</b>`, xshift: 6, font: { size: 13, color: color("ink") } });
  return put(place, traces, { barmode: "stack", height: 250, margin: { l: 70, r: 90, t: 8, b: 42 }, xaxis: axis("milliseconds"), yaxis: axis("", { autorange: "reversed" }),
    legend: { orientation: "h", y: -0.28, yanchor: "top", x: 0, traceorder: "normal", font: { size: 12, color: color("soft") } }, annotations: [total(before, "at first"), total(now, "now")] });
}
