// The figures of a task. Each function draws one into an element; drawn again it changes what is there.

const CONFIG = { displayModeBar: false, responsive: true, displaylogo: false, showTips: false, doubleClick: "reset" };
const MANY = 1500; // points from which on a figure is drawn by WebGL

function put(place, traces, more) {
  place.classList.remove("empty");
  return Plotly.react(place, traces, layout(more), CONFIG);
}

function empty(place, why) {
  if (place.data) Plotly.purge(place);
  place.classList.add("empty");
  place.replaceChildren(why);
}

function kindOf(points) {
  return points > MANY ? "scattergl" : "scatter";
}

function dots(name, rows, x, y, task, style) {
  return {
    type: kindOf(task.trials.id.length), mode: "markers", name, x: rows.map(x), y: rows.map(y), customdata: rows,
    text: rows.map((n) => told(task, n)), hovertemplate: "%{text}<extra></extra>", ...style,
  };
}

const TOLD = new WeakMap(); // task -> what is said of its trials: the same in all figures

function told(task, n) {
  if (!TOLD.has(task)) TOLD.set(task, task.trials.id.map((_, one) => words(task, one)));
  return TOLD.get(task)[n];
}

function words(task, n) {
  const t = task.trials, sketch = task.sketches[t.sketch[n]];
  const config = sketch.names.map((name, place) => `${name}=${t.config[n][place]}`);
  const lines = [`<b>record ${t.id[n]}</b>: ${seconds(t.seconds[n])}, ${speedText(task, t.seconds[n])}`];
  if (t.predicted[n] !== null) lines.push(`predicted ${seconds(t.predicted[n])}`);
  if (t.dropped[n]) lines.push("dropped early: clearly slower");
  for (let at = 0; at < Math.min(config.length, 12); at += 3) lines.push(plain(cut(config.slice(at, at + 3).join("  "), 90)));
  return lines.join("<br>");
}

function speedText(task, s) {
  return digits(task.amount / s, 4) + " " + task.unit;
}

function split(task, rows, chosen) {
  // Two groups of points where a filter is set: those that it leaves, and the others, which stay visible.
  if (!chosen) return [rows, []];
  const inside = new Set(chosen);
  return [rows.filter((n) => inside.has(n)), rows.filter((n) => !inside.has(n))];
}

function drawProgress(place, task, by, chosen) {
  const t = task.trials, all = t.id.map((_, n) => n), searched = all.filter((n) => !t.again[n]);
  const trial = new Map(searched.map((n, at) => [n, at + 1])), last = searched.length;
  const x = by === "trial" ? (n) => trial.get(n) ?? last + 0.5 : (n) => t.second[n];
  const ok = searched.filter((n) => t.seconds[n] !== null), failed = searched.filter((n) => t.seconds[n] === null);
  const again = all.filter((n) => t.again[n] && t.seconds[n] !== null);
  const speed = (n) => task.amount / t.seconds[n], bestX = [], bestY = [];
  let best = 0;
  for (const n of ok) if (speed(n) > best) bestX.push(x(n)), bestY.push((best = speed(n)));
  if (bestX.length) bestX.push(Math.max(...searched.map(x))), bestY.push(best);
  const [inside, outside] = split(task, ok, chosen);
  const traces = [
    dots("other trials", outside, x, speed, task, { marker: { size: 5, color: color("grid") }, showlegend: outside.length > 0, visible: outside.length > 0 }),
    dots(chosen ? "chosen trials" : "trials", inside, x, speed, task, { marker: { size: 5.5, color: color("pale") } }),
    dots("measured again", again, x, speed, task, { marker: { size: 8, symbol: "diamond-open", color: color("accent") }, visible: again.length > 0 }),
    { type: "scatter", mode: "lines", name: "best so far", x: bestX, y: bestY, line: { shape: "hv", width: 2.6, color: color("best") }, hoverinfo: "skip" },
  ];
  if (failed.length) traces.push({ type: "scatter", mode: "markers", name: "failed", x: failed.map(x), y: failed.map(() => 0),
    text: failed.map((n) => `record ${t.id[n]}: ${plain(task.statuses[t.status[n]])}`), hovertemplate: "%{text}<extra></extra>",
    marker: { symbol: "x-thin", size: 7, line: { width: 1.5, color: color("bad") } } });
  const shown = task.ceiling && best && task.ceiling < 4 * best;
  return put(place, traces, {
    xaxis: axis(by === "trial" ? "trial" : "seconds of work", { rangemode: "tozero" }),
    yaxis: axis(task.unit, { rangemode: "tozero" }),
    shapes: shown ? [level(task.ceiling)] : [], annotations: shown ? [levelName(task.ceiling, task.of)] : [],
  });
}

function level(y) {
  return { type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: color("soft"), width: 1.2, dash: "dash" } };
}

function levelName(y, text, log) {
  return { xref: "paper", x: 1, xanchor: "right", y: log ? Math.log10(y) : y, yanchor: "bottom", showarrow: false, text: plain(text), font: { size: 11.5, color: color("soft") } };
}

function drawPredicted(place, task, chosen) {
  const t = task.trials, rows = t.id.map((_, n) => n).filter((n) => !t.again[n] && t.seconds[n] !== null && t.predicted[n] !== null);
  if (!rows.length) return empty(place, "The model of this version could not read these candidates.");
  const [inside, outside] = split(task, rows, chosen), measured = (n) => t.seconds[n], said = (n) => t.predicted[n];
  const values = rows.flatMap((n) => [measured(n), said(n)]), low = Math.min(...values) / 1.12, high = Math.max(...values) * 1.12;
  const ticks = logTicks(low, high, seconds);
  return put(place, [
    { type: "scatter", mode: "lines", name: "as predicted", x: [low, high], y: [low, high], line: { color: color("soft"), width: 1.2, dash: "dash" }, hoverinfo: "skip" },
    dots("other trials", outside, measured, said, task, { marker: { size: 5, color: color("grid") }, visible: outside.length > 0 }),
    dots(chosen ? "chosen trials" : "trials", inside, measured, said, task, { marker: speedMarkers(task, inside) }),
  ], { xaxis: axis("measured", ticks), yaxis: axis("predicted", ticks) });
}

function speedMarkers(task, rows) {
  const t = task.trials, [cmin, cmax] = speedEnds(task, t.seconds);
  return { size: 6, color: rows.map((n) => task.amount / t.seconds[n]), cmin, cmax, colorscale: speedScale(), line: { width: 0 } };
}

function speedEnds(task, times) {
  // From the speed that a tenth of the trials stay below: most are near the best, and colours are to tell these apart.
  const speeds = times.filter((one) => one !== null).map((one) => task.amount / one).sort((a, b) => a - b);
  return [speeds[Math.floor(speeds.length / 10)] * 0.999, speeds[speeds.length - 1]];
}

function levelsOf(task) {
  // Caches into which the model says that most candidates bring something.
  const t = task.trials, known = t.moved.filter((row) => row !== null);
  return task.roof.slopes.map((_, n) => n).filter((n) => 2 * known.filter((row) => row[n] > 0).length >= Math.max(1, known.length));
}

function drawRoof(place, task, into, chosen) {
  const t = task.trials, roof = task.roof, slope = roof.slopes[into];
  if (!slope || !roof.flops) return empty(place, roof.flops ? "There is no model of traffic for this target." : "This program computes nothing: only moving bytes takes time.");
  const rows = t.id.map((_, n) => n).filter((n) => t.seconds[n] !== null && t.moved[n] !== null && t.moved[n][into] > 0);
  const x = (n) => roof.flops / t.moved[n][into], y = (n) => roof.flops / t.seconds[n] / 1e9;
  const [inside, outside] = split(task, rows, chosen), least = roof.flops / roof.bytes;
  const xs = [...rows.map(x), least, roof.peak / slope.speed], ys = rows.map(y), top = Math.max(roof.highest, roof.peak) / 1e9;
  const low = Math.min(...xs) / 1.6, high = Math.max(...xs) * 1.6, floor = Math.min(...ys, (low * slope.speed) / 1e9) / 1.5;
  const under = (peak) => [[low, peak / slope.speed, high].filter((one, n) => n !== 1 || (one > low && one < high)),
    [low, peak / slope.speed, high].filter((one, n) => n !== 1 || (one > low && one < high)).map((one) => Math.min(one * slope.speed, peak) / 1e9)];
  const [roofX, roofY] = under(roof.peak), traces = [
    { type: "scatter", mode: "lines", name: `roof of vectors and ${slope.source}`, x: roofX, y: roofY, line: { width: 2.4, color: color("ink") }, hoverinfo: "skip" },
  ];
  if (roof.highest > 1.01 * roof.peak) {
    const [moreX, moreY] = under(roof.highest);
    traces.push({ type: "scatter", mode: "lines", name: "matrix unit", x: moreX, y: moreY, line: { width: 1.4, dash: "dot", color: color("ink") }, hoverinfo: "skip" });
  }
  const best = rows.filter((n) => task.best && t.id[n] === task.best.id);
  traces.push(
    dots("other trials", outside, x, y, task, { marker: { size: 5, color: color("grid") }, visible: outside.length > 0 }),
    dots(chosen ? "chosen trials" : "trials", inside, x, y, task, { marker: speedMarkers(task, inside) }),
    dots("the best", best, x, y, task, { type: "scatter", visible: best.length > 0, marker: { size: 14, symbol: "star", color: color("best"), line: { width: 1, color: color("card") } } }),
  );
  return put(place, traces, {
    xaxis: axis(`operations for each byte that comes into ${slope.into} (modelled)`, logTicks(low, high, engineering)),
    yaxis: axis("GFLOP/s", logTicks(Math.max(floor, 1e-6), top * 1.7, (v) => digits(v, 3))),
    shapes: [{ type: "line", x0: least, x1: least, yref: "paper", y0: 0, y1: 1, line: { color: color("soft"), width: 1, dash: "dot" } }],
    annotations: [{ x: Math.log10(least), yref: "paper", y: 0, yanchor: "bottom", xanchor: "right", showarrow: false, text: "each byte once ", font: { size: 11.5, color: color("soft") } }],
  });
}

function drawSpace(place, choice, onbrush) {
  const { rows, axes, task } = choice;
  if (!rows.length || !axes.length) return empty(place, rows.length ? "These trials differ in nothing." : "No trial has run yet.");
  const lines = choice.lines(), speeds = lines.map((place) => choice.speedAt(rows[place])), last = speeds[speeds.length - 1];
  const [cmin, cmax] = speedEnds(task, task.trials.seconds);
  const dimensions = axes.map((one, number) => {
    const ends = one.texts.length - 1, step = Math.ceil((ends + 1) / 12), shown = one.texts.map((_, n) => n).filter((n) => n % step === 0 || n === ends);
    return { label: plain(cut(one.label, 18)), values: lines.map((place) => one.at[place]), range: [-0.25, ends + 0.25], tickvals: shown,
      ticktext: shown.map((n) => plain(cut(one.texts[n], 12))), constraintrange: choice.ranges[number] ?? undefined };
  });
  dimensions.push({ label: task.unit, values: speeds, range: [0, last * 1.02], constraintrange: choice.ranges[axes.length] ?? undefined });
  const trace = {
    type: "parcoords", dimensions, labelfont: { size: 12, color: color("ink") }, tickfont: { size: 11, color: color("ink"), shadow: "auto" },
    rangefont: { size: 10, color: color("card"), shadow: "none" }, unselected: { line: { color: color("grid"), opacity: 0.25 } },
    line: { color: speeds, cmin, cmax, colorscale: speedScale(), showscale: false },
  };
  put(place, [trace], { height: 460, margin: { l: 60, r: 50, t: 46, b: 22 } });
  place.removeAllListeners("plotly_restyle");
  place.on("plotly_restyle", () => {
    const ranges = place.data[0].dimensions.map((one) => one.constraintrange ?? null);
    onbrush(ranges);
  });
}

function drawFailures(place, task) {
  const t = task.trials, counts = new Map();
  t.status.forEach((status) => counts.set(status, (counts.get(status) || 0) + 1));
  const kinds = [...counts].filter(([status]) => task.statuses[status] !== "ok").sort((a, b) => a[1] - b[1]);
  if (!kinds.length) return empty(place, "No trial failed.");
  return put(place, [{
    type: "bar", orientation: "h", x: kinds.map(([, n]) => n), y: kinds.map(([status]) => plain(task.statuses[status].replaceAll("_", " "))),
    marker: { color: color("bad") }, text: kinds.map(([, n]) => n), textposition: "outside", cliponaxis: false, hoverinfo: "skip",
    textfont: { color: color("ink") },
  }], { height: 60 + 38 * kinds.length, showlegend: false, margin: { l: 110, r: 40, t: 6, b: 36 }, xaxis: axis("records", { rangemode: "tozero" }), yaxis: axis("", {}) });
}

function drawTime(place, task) {
  const runs = task.runs.filter((run) => run.wall > 0 || run.trials > 0);
  if (!runs.length) return empty(place, "This log tells no times.");
  const names = runs.map((run, n) => `run ${n + 1}`), parts = [["measure", "measuring"], ["compile", "compiling"], ["check", "checking"]];
  const bars = parts.map(([key, name], n) => ({
    type: "bar", orientation: "h", name, y: names, x: runs.map((run) => run[key]), marker: { color: series([0, 1, 2][n]) },
    hovertemplate: runs.map((run) => `${name}: ${seconds(run[key])}<extra></extra>`),
  }));
  const wall = { type: "scatter", mode: "markers", name: "by the clock", y: names, x: runs.map((run) => run.wall), hovertemplate: runs.map((run) => `by the clock: ${seconds(run.wall)}<extra></extra>`),
    marker: { symbol: "line-ns", size: 22, line: { width: 2.5, color: color("ink") } } };
  return put(place, [...bars, wall], { barmode: "stack", height: 110 + 40 * runs.length, margin: { l: 60, r: 20, t: 10, b: 42 },
    xaxis: axis("seconds", { rangemode: "tozero" }), yaxis: axis("", { autorange: "reversed" }) });
}
