"use strict";
// Light and dark: figures read their colours from the page's own variables, so that both change together.

const DARK = matchMedia("(prefers-color-scheme: dark)");
const THEMES = ["system", "light", "dark"];
let theme = "system";

function isDark() {
  return theme === "dark" || (theme === "system" && DARK.matches);
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function speedScale() {
  const stops = color("scale").split(/\s+/), places = [0, 0.55, 0.85, 1];
  return stops.map((one, n) => [places[n], one]);
}

function series(n) {
  return color("s" + (1 + (n % 8)));
}

function axis(title, more) {
  return {
    title: { text: title, standoff: 8, font: { size: 12, color: color("soft") } }, gridcolor: color("grid"),
    linecolor: color("line"), zerolinecolor: color("line"), tickcolor: color("line"), automargin: true,
    tickfont: { size: 11.5, color: color("soft") }, ...more,
  };
}

function layout(more) {
  return {
    paper_bgcolor: color("card"), plot_bgcolor: color("card"), height: 340, margin: { l: 56, r: 14, t: 14, b: 44 },
    font: { family: color("sans"), size: 12, color: color("ink") }, showlegend: true, hovermode: "closest",
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12, color: color("soft") } },
    hoverlabel: { bgcolor: color("card"), bordercolor: color("line"), font: { color: color("ink"), size: 12 }, align: "left" },
    ...more,
  };
}

function logTicks(low, high, text) {
  // Ticks at 1, 2 and 5 of each power of ten, fewer where there are many.
  const vals = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const steps = last - first > 4 ? [1] : last - first > 1 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
  for (let power = first; power <= last; power++) for (const step of steps) vals.push(step * 10 ** power);
  return { type: "log", tickvals: vals, ticktext: vals.map(text), range: [Math.log10(low), Math.log10(high)] };
}

function applyTheme(redraw) {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  document.getElementById("theme").textContent = "Theme: " + theme;
  if (redraw) redraw();
}
