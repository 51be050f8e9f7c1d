// Puts the page together: reads the data, unpacks Plotly, and draws again what a choice changes.

const DATA = JSON.parse(document.getElementById("data").textContent);
const state = { task: 0, by: "trial", into: 0, choice: null };
let cards = {};

async function unpacked() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent.trim()), (c) => c.charCodeAt(0));
  const text = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(el("script", {}, text));
}

function pickTask(number) {
  const task = DATA.tasks[number], levels = levelsOf(task);
  state.task = number;
  state.into = levels.length ? levels[levels.length - 1] : 0;
  state.choice = new Choice(task, -1);
  build();
  draw();
}

function build() {
  const task = DATA.tasks[state.task], body = document.getElementById("body"), models = DATA.models.map((model) => modelCard(model, chooseByKey));
  document.getElementById("head").replaceChildren(...heading(task));
  cards = {};
  body.replaceChildren(el("div", { class: "cards" }, models.map((one) => one.card), progressCard(task), predictedCard(task), roofCard(task), spaceCard(), failuresCard(task), timeCard(task), winnerCard(task), provenanceCard(task)));
  cards.models = models;
  const sections = [...body.querySelectorAll("section[id]")].map((one) => el("a", { href: "#" + one.id }, one.dataset.short || one.querySelector("h2").textContent));
  document.getElementById("nav").replaceChildren(...sections);
  document.getElementById("foot").textContent = `Written by Tilesmith on ${new Date(DATA.made * 1000).toLocaleString()}. Everything is in this file; nothing is fetched.`;
}

function chooseByKey(key) {
  const number = DATA.tasks.findIndex((one) => one.key === key);
  if (number < 0) return;
  pickTask(number);
  document.getElementById("progress").scrollIntoView();
}

function heading(task) {
  const made = [el("h1", {}, DATA.title), el("p", { class: "sub" }, DATA.tasks.length > 1 ? count(DATA.tasks.length, "task") : `${task.place} · task ${task.key.slice(0, 8)}`)];
  if (DATA.models.length) made.push(el("dl", { class: "tiles" }, modelTiles(DATA.models[0])));
  if (DATA.tasks.length > 1) {
    const select = el("select", { id: "task", onchange: () => (pickTask(+select.value), document.getElementById("task").focus()) },
      DATA.tasks.map((one, n) => el("option", { value: n }, cut(`${one.title} · ${one.place} · ${one.key.slice(0, 8)}`, 130))));
    select.value = state.task;
    made.push(el("div", { class: "pick" }, el("label", { for: "task" }, "Task"), select));
  }
  if (DATA.left) made.push(el("p", { class: "note" }, `${count(DATA.left, "more task")} had no room on this page.`));
  if (task.emulated) made.push(el("p", { class: "note" }, "These are times of an emulator, which say nothing about any device."));
  made.push(el("dl", { class: "tiles" }, taskTiles(task)));
  return made;
}

function modelTiles(model) {
  const known = model.layers.filter((one) => one.now !== null), now = sum(known, "now"), before = sum(known, "before");
  const trials = model.layers.reduce((total, one) => total + one.trials, 0), calls = model.layers.reduce((total, one) => total + one.calls, 0);
  return [
    tile("Model now", seconds(now), known.length < model.layers.length ? `${known.length} of ${model.layers.length} kernels` : "kernels added up"),
    tile("At first", seconds(before), "what the model picked"), tile("Gain", digits(before / now, 3) + "×", "by searching"),
    tile("Kernels", String(model.layers.length), `called ${count(calls, "time")}`), tile("Trials", trials.toLocaleString("en"), "in all"),
    tile("Open", percent(model.open, 0), "that no ceiling accounts for", model.open),
  ];
}

function taskTiles(task) {
  const t = task.trials, searched = t.id.map((_, n) => n).filter((n) => !t.again[n]), ran = searched.filter((n) => t.seconds[n] !== null);
  const failed = searched.length - ran.length, dropped = ran.filter((n) => t.dropped[n]).length, best = task.best && task.best.seconds;
  const wall = task.runs.reduce((total, run) => total + run.wall, 0), first = ran.length ? t.seconds[ran[0]] : null, speed = best ? task.amount / best : 0;
  return [
    tile("Best time", best ? seconds(best) : "none", best ? `record ${task.best.id}` : "no candidate has run"),
    tile("Speed", best ? digits(speed, 4) + " " + task.unit : "none", task.ceiling && best ? `${percent(speed / task.ceiling)} of ${task.of}` : "", task.ceiling ? speed / task.ceiling : 0),
    tile("Gain", best && first ? digits(first / searchedSeconds(task), 3) + "×" : "none", "over the first trial that ran"),
    tile("Trials", searched.length.toLocaleString("en"), `${failed} failed, ${dropped} dropped early`),
    tile("Time", seconds(wall), count(task.runs.length, "run") + " by the clock"),
  ];
}

function searchedSeconds(task) {
  // What the best record took as a trial: it was measured again at another moment, and the first trial was not.
  const t = task.trials, at = t.id.indexOf(task.best.id), key = (n) => t.sketch[n] + " " + JSON.stringify(t.config[n]);
  const same = t.id.map((_, n) => n).find((n) => !t.again[n] && t.seconds[n] !== null && key(n) === key(at));
  return same === undefined ? task.best.seconds : t.seconds[same];
}

function card(id, title, short, why, ...content) {
  return el("section", { class: "card", id, "data-short": short }, el("h2", {}, title), el("p", { class: "why" }, why), ...content);
}

function plot(name, label) {
  cards[name] = el("div", { class: "plot", role: "img", "aria-label": label });
  return cards[name];
}

function progressCard(task) {
  const by = choice("Progress by", [["trial", "by trial"], ["second", "by second"]], state.by, (value) => ((state.by = value), drawTrials()));
  const made = card("progress", "Best so far", "Progress", "Each dot is a trial; the line is the best that was known then.", el("div", { class: "tools" }, by),
    plot("progress", `Best so far: ${task.best ? speedText(task, task.best.seconds) : "none"}`));
  made.classList.add("full");
  return made;
}

function predictedCard(task) {
  const figures = agreement(task), rounds = task.rounds;
  const why = "Predicted by the analytic model of the version that wrote this page. " + (figures ? `Rank correlation ${figures.rank.toFixed(2)}, half of the trials within ${percent(figures.error, 0)}.` : "");
  const table = rounds.length ? el("details", {}, el("summary", {}, `What the learned model said of ${count(rounds.length, "batch").replace("batchs", "batches")}`),
    tableOf([">batch", ">known", ">measured", ">failed", ">rank correlation", ">regret of first", ">error"], rounds.map((r) => [String(r.number + 1), String(r.known - r.foreign), String(r.batch), String(r.failed), r.correlation.toFixed(2), percent(r.regret), percent(r.error)]), "Figures of the learned model")) : null;
  return card("predicted", "Predicted against measured", "Model", why, plot("predicted", "Predicted seconds against measured seconds"), table);
}

function agreement(task) {
  const t = task.trials, rows = t.id.map((_, n) => n).filter((n) => !t.again[n] && t.seconds[n] !== null && t.predicted[n] !== null);
  if (rows.length < 3) return null;
  const ranks = (key) => {
    const order = [...rows].sort((a, b) => t[key][a] - t[key][b]);
    return new Map(order.map((n, place) => [n, place]));
  };
  const a = ranks("seconds"), b = ranks("predicted"), middle = (rows.length - 1) / 2;
  const dot = (p, q) => rows.reduce((total, n) => total + (p.get(n) - middle) * (q.get(n) - middle), 0);
  const errors = rows.map((n) => Math.abs(Math.log(t.predicted[n] / t.seconds[n]))).sort((x, y) => x - y);
  return { rank: dot(a, b) / dot(a, a), error: Math.expm1(errors[Math.floor(errors.length / 2)]) };
}

function roofCard(task) {
  const levels = levelsOf(task), options = levels.map((n) => [String(n), `${task.roof.slopes[n].source} to ${task.roof.slopes[n].into}`]);
  const tools = options.length > 1 ? choice("Traffic", options, String(state.into), (value) => ((state.into = +value), drawTrials())) : null;
  return card("roofline", "Roofline", "Roofline", "Speeds are measured; how many bytes each candidate moves is what the analytic model says.", el("div", { class: "tools" }, tools),
    plot("roof", "Roofline of all candidates"));
}

function spaceCard() {
  const task = DATA.tasks[state.task], choice = state.choice, drawn = choice.lines().length;
  const part = drawn < choice.rows.length ? ` Of ${count(choice.rows.length, "trial")} the fastest ${FASTEST.toLocaleString("en")} and a sample of the others have lines; filters and figures count all of them.` : "";
  const select = el("select", { id: "sketch", onchange: () => ((state.choice = new Choice(task, +select.value)), drawAll()) }, el("option", { value: -1 }, "all sketches"),
    task.sketches.map((one, n) => el("option", { value: n }, cut(`${n + 1}: ${one.title}`, 110))));
  select.value = choice.sketch;
  cards.lists = el("div");
  cards.said = el("p", { class: "said", role: "status" });
  cards.table = el("div");
  const clear = el("button", { type: "button", onclick: () => (state.choice.clear(), drawAll()) }, "Clear filters");
  const made = card("space", "The space", "Space", "Each line is a trial, coloured by its speed. Drag along an axis to choose a part of it; what is chosen shows in the figures above and in the table below." + part,
    el("div", { class: "tools" }, el("label", { for: "sketch" }, "Sketch"), select, clear), plot("space", "Parallel coordinates of all trials"),
    el("details", { class: "filters" }, el("summary", {}, "Choose by lists, without a mouse"), cards.lists), cards.said, cards.table);
  made.classList.add("full");
  return made;
}

function failuresCard(task) {
  const rows = task.failures.map((one) => [String(one.count), one.status.replaceAll("_", " "), one.stage, code(one.message), code(one.command)]);
  const table = rows.length ? tableOf([">count", "failure", "stage", "message", "to see it again"], rows, "Failures by kind") : null;
  return card("failures", "Failures by kind", "Failures", "Trials that crashed, took too long or gave wrong results; each costs its own trial and nothing else.", plot("failures", "Failures by kind"), table);
}

function timeCard() {
  return card("time", "Where the time went", "Time", "Compiling and checking run beside measuring on other cores, so that bars may be longer than the clock. What the search itself thinks is not kept with the records.",
    plot("time", "Seconds of measuring, compiling and checking for each run"));
}

function winnerCard(task) {
  const made = card("winner", "The winner", "Winner", "What the best record computes, and how: its loops, each with the step that made it.");
  made.classList.add("full");
  if (!task.best) return made;
  const best = task.best, [low, high] = best.spread;
  const facts = [["record", String(best.id)], ["time", `${seconds(best.seconds)}, ${speedText(task, best.seconds)} (from ${seconds(low)} to ${seconds(high)})`], ["sketch", best.sketch], ["config", code(best.config || "nothing is open")]];
  made.append(el("dl", { class: "facts" }, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("h3", {}, "Outline"), copied(best.outline || "This version cannot make the loops of this record.", "Outline of the best record"),
    el("h3", {}, "Program"), copied(task.program, "Program"));
  return made;
}

function provenanceCard(task) {
  const facts = [...DATA.facts.map((one) => [one.name, one.text]), ["task", task.key], ...task.runs.map((run, n) => [`run ${n + 1}`, `${new Date(run.started * 1000).toLocaleString()}, ${count(run.trials, "trial")}, ${run.state}`])];
  const made = card("provenance", "Provenance", "Provenance", "Which versions and machines these figures are of.", el("dl", { class: "facts" }, facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
  made.classList.add("full");
  return made;
}

function chosenTable(task, rows) {
  const t = task.trials, lines = rows.slice(0, 20).map((n, place) => {
    const sketch = task.sketches[t.sketch[n]], config = sketch.names.map((name, at) => `${name}=${t.config[n][at]}`).join(" ");
    return { first: place === 0, cells: [String(t.id[n]), seconds(t.seconds[n]), speedText(task, t.seconds[n]), seconds(t.predicted[n]), String(t.sketch[n] + 1), code(config)] };
  });
  return tableOf([">record", ">time", ">speed", ">predicted", ">sketch", "config"], lines, "The fastest of the chosen trials");
}

function drawTrials() {
  const task = DATA.tasks[state.task], rows = state.choice.chosen(), chosen = state.choice.filtered ? rows : null;
  drawProgress(cards.progress, task, state.by, chosen);
  drawPredicted(cards.predicted, task, chosen);
  drawRoof(cards.roof, task, state.into, chosen);
  const best = rows.length ? `; the best takes ${seconds(task.trials.seconds[rows[0]])}` : "";
  cards.said.textContent = `${rows.length.toLocaleString("en")} of ${count(task.trials.seconds.filter((one) => one !== null).length, "timed record")} chosen${best}.`;
  cards.table.replaceChildren(rows.length ? chosenTable(task, rows) : "");
}

let waiting = 0;

function brushed(ranges) {
  state.choice.ranges = ranges;
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => (drawLists(), drawTrials()));
}

function drawLists() {
  cards.lists.replaceChildren(listsOf(state.choice, (number, range) => {
    state.choice.constrain(number, range);
    const held = document.activeElement && document.activeElement.getAttribute("aria-label");
    drawAll();
    if (held) cards.lists.querySelector(`[aria-label="${CSS.escape(held)}"]`)?.focus();
  }));
}

function drawAll() {
  drawSpace(cards.space, state.choice, brushed);
  drawLists();
  drawTrials();
}

function draw() {
  const task = DATA.tasks[state.task];
  drawAll();
  drawFailures(cards.failures, task);
  drawTime(cards.time, task);
  cards.models.forEach((one) => one.draw());
}

async function start() {
  document.getElementById("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    applyTheme(draw);
  });
  DARK.addEventListener("change", () => applyTheme(draw));
  applyTheme();
  await unpacked();
  pickTask(0);
  document.documentElement.dataset.ready = "true";
}

start();
