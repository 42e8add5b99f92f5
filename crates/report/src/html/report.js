// The page: sections from the data, the legend that shows and hides transports in all of them, and
// downloads. Texts of the data only ever become text, never HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const looks = data.transports;
const hidden = new Set();
const redraws = [];
let point = 0;

function node(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") made.addEventListener("click", value);
    else made.setAttribute(key, value);
  }
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

const darkness = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null;
function themeName() { return chosenTheme || (darkness.matches ? "dark" : "light"); }
function applyTheme() {
  document.documentElement.dataset.theme = themeName();
  const other = themeName() === "dark" ? "Light" : "Dark";
  document.getElementById("theme").textContent = other;
  redrawAll();
}
function redrawAll() { for (const redraw of redraws) redraw(); }

function swatch(look, theme) {
  const svg = svgNode("svg", { width: 22, height: 10, "aria-hidden": "true" });
  svgNode("line", { x1: 1, x2: 21, y1: 5, y2: 5, stroke: colourOf(look, theme), "stroke-width": 3.5, "stroke-dasharray": look.dash_pattern }, svg);
  return svg;
}

// --- Downloads -------------------------------------------------------------------------------

function slug(text) { return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "") || "report"; }

function download(name, blob) {
  const link = node("a", { href: URL.createObjectURL(blob), download: slug(data.title) + "-" + name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function svgText(svg) { return new XMLSerializer().serializeToString(svg); }

function svgToPng(svg, width, height, done) {
  const image = new Image();
  image.onload = () => {
    const canvas = node("canvas", { width: width * 2, height: height * 2 });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    context.drawImage(image, 0, 0, width, height);
    canvas.toBlob(done, "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(svg));
}

function chartRows(chart, view) {
  const unit = { time: "us", share: "share", bytes: "bytes", "bits-per-second": "bps" };
  const heading = (axis) => slug(axis.label).replaceAll("-", "_") + (unit[axis.unit] ? "_" + unit[axis.unit] : "");
  const x = view.x || chart.x, y = view.y || chart.y;
  const some = (key) => view.series.some((series) => series[key] && series[key].length);
  const head = ["transport"];
  if (view.series.some((series) => series.label)) head.push("of");
  const bars = chart.mark === "bars";
  if (!bars) head.push(heading(x));
  head.push(heading(y));
  if (some("half")) head.push("half_width_95");
  if (some("about")) head.push("about");
  const rows = [head];
  for (const series of view.series) {
    for (let i = 0; i < series.x.length; i++) {
      const row = [looks[series.transport].name];
      if (head.includes("of")) row.push(series.label);
      if (!bars) row.push(x.places ? x.places[series.x[i]] : series.x[i]);
      row.push(series.y[i]);
      if (some("half")) row.push(series.half ? series.half[i] : null);
      if (some("about")) row.push(series.about ? series.about[i] : null);
      rows.push(row);
    }
  }
  return rows;
}

// --- Kinds of sections: one function each ----------------------------------------------------

const KINDS = {
  table: showTable,
  chart: showChart,
  stack: showStack,
  network: showNetwork,
  text: showText,
};

function showTable(card, tools, section) {
  const { header, rows } = section.body;
  const facts = data.heads[section.point || 0];
  const queues = new Map(["summary", "capacity"].includes(section.id) && facts ? facts.queues : []);
  const table = node("table", {}, node("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": section.title }, card));
  const head = node("tr", {}, node("thead", {}, table));
  // Texts are on the left, numbers on the right.
  const kinds = header.map((_, i) => {
    const cells = rows.map((row) => row.cells[i]);
    if (i === 0) return cells.some((text) => text.length > 60) ? "prose" : "";
    return cells.some((text) => text.length > 30) ? "prose" : cells.every((text) => /^\D*[a-z]\D*$/i.test(text)) ? "words" : "";
  });
  header.forEach((text, i) => node("th", { scope: "col", ...(kinds[i] ? { class: kinds[i] } : {}) }, head, text));
  const body = node("tbody", {}, table);
  const drawn = rows.map((row) => {
    const line = node("tr", {}, body);
    row.cells.forEach((text, i) => {
      const kind = (row.best || []).includes(i) ? "best" : kinds[i];
      const cell = node("td", { "data-label": header[i], ...(kind ? { class: kind } : {}) }, line);
      if (i === 0 && row.transport !== undefined) {
        const name = node("span", { class: "name" }, cell);
        name.append(swatch(looks[row.transport], THEMES[themeName()]), text);
      } else {
        cell.textContent = text;
      }
    });
    const queue = queues.get(row.transport);
    if (queue) node("td", { colspan: header.length }, node("tr", { class: "note" }, body), "switch queue: " + queue);
    return { row, line };
  });
  node("button", { type: "button", onclick: () => {
    download(section.id + ".csv", new Blob([csv([queues.size ? [...header, "Switch queue"] : header, ...rows.map((row) => [...row.cells, ...(queues.size ? [queues.get(row.transport)] : [])])])], { type: "text/csv" }));
  } }, tools, "CSV");
  return () => {
    for (const { row, line } of drawn) {
      line.classList.toggle("off", hidden.has(row.transport));
      const old = line.querySelector("svg");
      if (old) old.replaceWith(swatch(looks[row.transport], THEMES[themeName()]));
    }
  };
}

function showText(card, tools, section) {
  const details = node("details", {}, card);
  node("summary", {}, details, "Show " + section.body.file);
  node("pre", {}, details, section.body.text);
  node("button", { type: "button", onclick: () => {
    download(section.body.file, new Blob([section.body.text], { type: "text/plain" }));
  } }, tools, "Download");
  return () => {};
}

let charts = 0;
function showChart(card, tools, section) {
  const chart = section.body;
  const id = ++charts;
  let view = chart.views[0], zoom = null, drawn = null, overlay = null;
  const shown = (series) => !hidden.has(series.transport);

  if (chart.views.length > 1) {
    const label = node("label", { class: "choice views" }, card, "Show ");
    const select = node("select", {}, label);
    chart.views.forEach(({ label }, i) => node("option", { value: i }, select, label));
    select.addEventListener("change", () => { view = chart.views[Number(select.value)]; zoom = null; draw(); });
  }
  const plot = node("div", { class: "plot" + (chart.mark === "bars" ? "" : " zooms") }, card);
  const tip = node("div", { class: "tip", hidden: "" }, plot);
  const reset = node("button", { type: "button", hidden: "", onclick: () => { zoom = null; draw(); } }, tools, "Reset zoom");
  const file = (width) => drawChart({
    chart, view, shown, looks, theme: THEMES.light, width, zoom, id: "file-" + id, file: true,
    title: data.title + ": " + section.title,
    subtitle: [data.points[section.point], ...data.overrides, view.label, data.about].filter(Boolean).join(", "),
  });
  const save = { SVG: () => {
    download(section.id + ".svg", new Blob([svgText(file(900).svg)], { type: "image/svg+xml" }));
  }, PNG: () => {
    const { svg, height } = file(900);
    svgToPng(svg, 900, height, (blob) => download(section.id + ".png", blob));
  }, CSV: () => {
    download(section.id + ".csv", new Blob([csv(chartRows(chart, view))], { type: "text/csv" }));
  } };
  for (const [name, action] of Object.entries(save)) node("button", { type: "button", onclick: action }, tools, name);

  function draw() {
    const width = Math.round(plot.clientWidth);
    if (!width) return;
    drawn = drawChart({ chart, view, shown, looks, theme: THEMES[themeName()], width, zoom, id, title: section.title });
    const old = plot.querySelector("svg.canvas");
    drawn.svg.classList.add("canvas");
    if (old) old.replaceWith(drawn.svg); else plot.prepend(drawn.svg);
    overlay = svgNode("g", { class: "overlay" }, drawn.svg);
    reset.hidden = !zoom;
    tip.hidden = true;
    if (drawn.areas.length) listen(drawn.svg);
  }

  function place(event) {
    const box = drawn.svg.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  function listen(svg) {
    let from = null, area = null;
    const areaAt = ([px, py]) => drawn.areas.find(({ left, right, top, bottom }) => px >= left && px <= right && py >= top && py <= bottom);
    svg.addEventListener("pointerdown", (event) => {
      const at = place(event);
      area = areaAt(at);
      if (event.button !== 0 || !area) return;
      from = at;
      if (event.pointerType === "touch") hover(area, at);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const at = place(event);
      const under = areaAt(at);
      if (from && (Math.abs(at[0] - from[0]) > 6 || Math.abs(at[1] - from[1]) > 6)) band(area, from, at);
      else if (under) hover(under, at);
      else leave();
    });
    svg.addEventListener("pointerup", (event) => {
      const start = from;
      from = null;
      if (start) zoomTo(area, start, place(event));
    });
    svg.addEventListener("pointercancel", () => { from = null; leave(); });
    svg.addEventListener("pointerleave", () => { if (!from) leave(); });
    svg.addEventListener("dblclick", () => { zoom = null; draw(); });
  }

  // The part of the plane between two places. A flat drag is about x alone, an upright one about y.
  function part({ left, right, top, bottom }, [x1, y1], [x2, y2]) {
    const within = (value, low, high) => Math.min(Math.max(value, low), high);
    let [xs, ys] = [[x1, x2], [y1, y2]].map((ends) => ends.sort((a, b) => a - b));
    xs = xs.map((value) => within(value, left, right));
    ys = ys.map((value) => within(value, top, bottom));
    if (ys[1] - ys[0] < 14) ys = [top, bottom];
    if (xs[1] - xs[0] < 14) xs = [left, right];
    return { xs, ys };
  }

  function band(area, from, to) {
    const { xs, ys } = part(area, from, to);
    overlay.replaceChildren();
    tip.hidden = true;
    svgNode("rect", { x: xs[0], y: ys[0], width: xs[1] - xs[0], height: ys[1] - ys[0], fill: "#0072b2", "fill-opacity": 0.15, stroke: "#0072b2" }, overlay);
  }

  function zoomTo(area, from, to) {
    if (Math.abs(from[0] - to[0]) < 14 && Math.abs(from[1] - to[1]) < 14) return;
    const { left, right, top, bottom, xScale, yScale } = area;
    const { xs, ys } = part(area, from, to);
    zoom = {
      x: xs.map((px) => xScale.value((px - left) / (right - left))),
      y: [ys[1], ys[0]].map((py) => yScale.value((bottom - py) / (bottom - top))),
    };
    draw();
  }

  function leave() { overlay.replaceChildren(); tip.hidden = true; }

  function hover(area, [px, py]) {
    const theme = THEMES[themeName()];
    overlay.replaceChildren();
    const found = lookUp(chart.mark, area, px, py);
    if (!found.length) { tip.hidden = true; return; }
    tip.replaceChildren();
    const written = (value, axis) => axis.places ? axis.places[value] : formatted(value, axis.unit);
    const row = (series, text) => {
      const line = node("div", {}, tip);
      const name = node("span", { class: "name" }, line);
      name.append(swatch(looks[series.transport], theme), series.label || looks[series.transport].name);
      if (text) node("span", { class: "value" }, line, text);
    };
    const dot = ({ series, i }) => svgNode("circle", {
      cx: area.x(series.x[i]), cy: area.y(series.y[i]), r: 5, fill: colourOf(looks[series.transport], theme), stroke: theme.page, "stroke-width": 1.5,
    }, overlay);
    if (chart.mark === "points") {
      const [{ series, i }] = found;
      row(series, "");
      const fact = (name, text) => { const line = node("div", {}, tip); node("span", {}, line, name); node("span", { class: "value" }, line, text); };
      fact("allowed", written(series.x[i], area.xAxis));
      fact((series.crosses || []).includes(i) ? "given up after" : "taken", written(series.y[i], area.yAxis));
      const late = series.y[i] - series.x[i];
      fact(late > 0 ? "late by" : "early by", written(Math.abs(late), area.yAxis));
      node("div", {}, tip, series.about[i]);
      dot(found[0]);
    } else {
      svgNode("line", { x1: px, x2: px, y1: area.top, y2: area.bottom, stroke: theme.muted, "stroke-dasharray": "3 3" }, overlay);
      const at = chart.mark === "line" ? found[0].series.x[found[0].i] : area.xScale.value((px - area.left) / (area.right - area.left));
      node("div", { class: "head" }, tip, written(at, area.xAxis));
      for (const hit of found.slice(0, 14)) {
        const { series, i } = hit;
        if (i < 0 && view.before === undefined) continue;
        const half = series.half && series.half[i] ? " ± " + formatted(series.half[i], area.yAxis.unit) : "";
        const about = series.about && series.about[i] ? ", " + series.about[i] : "";
        row(series, written(i < 0 ? view.before : series.y[i], area.yAxis) + half + about);
        if (chart.mark === "line") dot(hit);
      }
    }
    tip.hidden = false;
    const x = px + 16 + tip.offsetWidth > plot.clientWidth ? px - tip.offsetWidth - 16 : px + 16;
    const y = Math.min(Math.max(py - tip.offsetHeight / 2, 0), drawn.height - tip.offsetHeight);
    tip.style.transform = `translate(${Math.max(0, Math.round(x))}px, ${Math.round(y)}px)`;
  }

  let width = 0;
  new ResizeObserver(() => {
    if (plot.clientWidth !== width) { width = plot.clientWidth; draw(); }
  }).observe(plot);
  return draw;
}

// --- The page --------------------------------------------------------------------------------

function showLegend() {
  const legend = document.getElementById("legend");
  const chips = looks.map((look, number) => {
    const chip = node("button", { type: "button", class: "chip", "aria-pressed": "true", title: "Show or hide; twice: this one alone", onclick: () => {
      if (hidden.has(number)) hidden.delete(number); else hidden.add(number);
      redrawAll();
    } }, legend);
    chip.addEventListener("dblclick", () => {
      hidden.clear();
      looks.forEach((_, other) => { if (other !== number) hidden.add(other); });
      redrawAll();
    });
    return chip;
  });
  const all = node("button", { type: "button", class: "quiet", hidden: "", onclick: () => { hidden.clear(); redrawAll(); } }, legend, "Show all");
  redraws.push(() => {
    all.hidden = hidden.size === 0;
    chips.forEach((chip, number) => {
      chip.setAttribute("aria-pressed", String(!hidden.has(number)));
      chip.replaceChildren(swatch(looks[number], THEMES[themeName()]), looks[number].name);
    });
  });
}

function showPoints(cards) {
  const label = document.getElementById("points");
  const select = label.querySelector("select");
  data.points.forEach((text, i) => node("option", { value: i }, select, text));
  label.hidden = data.points.length < 2;
  const update = () => {
    const contents = document.getElementById("contents");
    contents.replaceChildren();
    showHead(data.heads[point] || data.heads[0]);
    for (const { section, card } of cards) {
      card.hidden = section.point !== undefined && section.point !== point;
      if (!card.hidden) node("a", { href: "#" + card.id }, contents, section.title);
    }
  };
  select.addEventListener("change", () => { point = Number(select.value); update(); redrawAll(); });
  update();
}

// The verdict on a point, and its network, load and runs.
function showHead(head) {
  const verdict = document.getElementById("verdict");
  const facts = document.getElementById("facts");
  verdict.replaceChildren();
  facts.replaceChildren();
  if (!head) return;
  for (const sentence of head.verdict) node("p", {}, verdict, sentence);
  for (const [name, text] of head.facts) {
    const fact = node("div", {}, facts);
    node("dt", {}, fact, name);
    node("dd", {}, fact, text);
  }
}

function showPage() {
  document.getElementById("about").textContent = data.about;
  const overrides = document.getElementById("overrides");
  overrides.hidden = !data.overrides.length;
  overrides.append(data.overrides.length === 1 ? "Override: " : "Overrides: ");
  data.overrides.forEach((set) => { node("code", {}, overrides, "--set " + set); overrides.append(" "); });
  for (const text of data.warnings) node("p", { class: "warning" }, document.getElementById("warnings"), text);
  showLegend();
  const main = document.getElementById("main");
  const cards = data.sections.map((section) => {
    const id = section.id + (section.point ? "-" + section.point : "");
    const card = node("section", { class: "card", id, "data-kind": section.body.kind }, main);
    const head = node("div", { class: "card-head" }, card);
    node("h2", {}, head, section.title);
    const tools = node("div", { class: "tools" }, head);
    node("p", { class: "lead" }, card, section.lead);
    const show = KINDS[section.body.kind];
    if (show) redraws.push(show(card, tools, section));
    return { section, card };
  });
  showPoints(cards);
  document.getElementById("foot").textContent =
    "Written by punctual " + data.version + ". Drag in a plot to zoom, double-click to zoom out; a click on a transport shows or hides it, a double click shows it alone.";
  document.getElementById("theme").addEventListener("click", () => {
    chosenTheme = themeName() === "dark" ? "light" : "dark";
    applyTheme();
  });
  darkness.addEventListener("change", applyTheme);
  applyTheme();
}

showPage();
