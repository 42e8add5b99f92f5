// Charts as SVG. `drawChart` draws one at a given size and theme, for the screen or for a file; it
// returns the picture, and where things are in it.

const SVG = "http://www.w3.org/2000/svg";
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

function svgNode(name, attributes, parent, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}

const THEMES = {
  light: { page: "#ffffff", ink: "#1b1f24", muted: "#5b6470", axis: "#8a939e", grid: "#dde1e6", fine: "#eff1f4" },
  dark: { page: "#181c22", ink: "#e8ebef", muted: "#a2abb6", axis: "#6d7783", grid: "#323a44", fine: "#232931" },
};

// A transport's colour on the page of a theme.
function colourOf(look, theme) {
  return theme === THEMES.dark && look.dark ? look.dark : look.colour;
}

// About how wide a text is. Canvas text is measured where there is a canvas.
const measuring = document.createElement("canvas").getContext("2d");
function textWidth(text, size) {
  if (!measuring) return text.length * size * 0.58;
  measuring.font = size + "px " + FONT;
  return measuring.measureText(text).width;
}

function shortened(text, size, width) {
  if (textWidth(text, size) <= width) return text;
  let end = text.length;
  while (end > 1 && textWidth(text.slice(0, end) + "…", size) > width) end--;
  return text.slice(0, end).trimEnd() + "…";
}

// The values of all series along an axis, with the ends of their intervals.
function* valuesAlong(view, shown, which, lines) {
  for (const series of view.series) {
    if (!shown(series)) continue;
    for (let i = 0; i < series[which].length; i++) {
      const value = series[which][i];
      yield value;
      const half = which === "y" && series.half ? series.half[i] : null;
      if (half !== null && half !== undefined) { yield value - half; yield value + half; }
    }
  }
  for (const line of lines) {
    if (line.kind === (which === "x" ? "vertical" : "horizontal")) yield line.at;
  }
}

// Returns the picture, its height, and its planes: where each is and which series it shows.
function drawChart(options) {
  const { mark } = options.chart;
  return mark === "bars" ? drawBars(options) : mark === "points" ? drawMultiples(options) : drawPlane(options);
}

function canvasOf(options, height) {
  const { width, theme, chart, title } = options;
  const svg = svgNode("svg", {
    xmlns: SVG, viewBox: `0 0 ${width} ${height}`, height, role: "img",
    "aria-label": title + ": " + (chart.y.label || "") + (chart.x.label ? " by " + chart.x.label : ""),
    "font-family": FONT, "font-size": 12.5, fill: theme.muted,
  });
  if (options.file) {
    svg.setAttribute("width", width);
    svgNode("rect", { width, height, fill: theme.page }, svg);
    svgNode("text", { x: 20, y: 32, "font-size": 18, "font-weight": 700, fill: theme.ink }, svg, shortened(title, 19, width - 40));
    svgNode("text", { x: 20, y: 53 }, svg, shortened(options.subtitle, 12.5, width - 40));
  }
  return svg;
}

// The legend of a file, below or beside nothing else: on the screen the page has one.
function drawLegend(svg, options, names, top) {
  let x = 20, y = top + 14;
  for (const { look, label } of names) {
    const wide = 44 + textWidth(label, 12.5);
    if (x + wide > options.width - 12 && x > 20) { x = 20; y += 22; }
    svgNode("line", {
      x1: x, x2: x + 24, y1: y - 4, y2: y - 4, stroke: colourOf(look, options.theme), "stroke-width": 3,
      "stroke-dasharray": look.dash_pattern || "",
    }, svg);
    svgNode("text", { x: x + 31, y, fill: options.theme.ink }, svg, label);
    x += wide + 8;
  }
  return y + 12;
}

function legendHeight(options, names) {
  let x = 20, rows = 1;
  for (const { label } of names) {
    const wide = 44 + textWidth(label, 12.5);
    if (x + wide > options.width - 12 && x > 20) { x = 20; rows++; }
    x += wide + 8;
  }
  return rows * 22 + 12;
}

// Horizontal bars with intervals.
function drawBars(options) {
  const { chart, view, shown, looks, theme, width } = options;
  const rows = view.series.filter(shown);
  const axis = view.y || chart.y;
  const lines = view.lines || [];
  const top = (options.file ? 72 : 6) + (lines.length ? 18 : 0);
  const row = 36, thick = 20;
  const longest = Math.max(0, ...rows.map((series) => textWidth(looks[series.transport].name, 13.5)));
  const left = Math.min(longest + 22, width * 0.4);
  const value = (series) => {
    const half = series.half && series.half[0] !== null ? " ± " + (series.half[0] * 100).toFixed(1) : "";
    return (series.y[0] * 100).toFixed(1) + half + " %";
  };
  const right = width - Math.max(60, ...rows.map((series) => textWidth(value(series), 13.5) + 18));
  const bottom = top + rows.length * row;
  const height = bottom + 44;
  const svg = canvasOf(options, height);
  const scale = scaleOf(axis, ...axis.range);
  const x = (share) => left + scale.place(share) * (right - left);
  for (const tick of linearTicks(axis.range[0], axis.range[1], right - left < 320 ? 2 : 5)) {
    svgNode("line", { x1: x(tick), x2: x(tick), y1: top, y2: bottom, stroke: theme.grid }, svg);
    svgNode("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle" }, svg, digits(tick * 100));
  }
  svgNode("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle", fill: theme.ink }, svg, axis.label + " (%)");
  const marks = svgNode("g", { class: "marks" }, svg);
  rows.forEach((series, i) => {
    const look = looks[series.transport];
    const colour = colourOf(look, theme);
    const middle = top + i * row + row / 2;
    const end = x(Math.max(series.y[0], 0));
    svgNode("text", { x: left - 10, y: middle + 4.5, "text-anchor": "end", "font-size": 13.5, fill: theme.ink }, svg, shortened(look.name, 13.5, left - 14));
    svgNode("rect", {
      class: "series", x: left, y: middle - thick / 2, width: Math.max(end - left, 1), height: thick, rx: 2, fill: colour,
    }, marks);
    const half = series.half ? series.half[0] : null;
    if (half !== null && half > 0) {
      const [low, high] = [x(Math.max(series.y[0] - half, 0)), x(Math.min(series.y[0] + half, 1))];
      const d = `M${low} ${middle}H${high}M${low} ${middle - 5}v10M${high} ${middle - 5}v10`;
      svgNode("path", { d, stroke: theme.page, "stroke-width": 4, fill: "none" }, marks);
      svgNode("path", { d, stroke: theme.ink, "stroke-width": 1.5, fill: "none" }, marks);
    }
    svgNode("text", { x: right + 10, y: middle + 4.5, "font-size": 13.5, fill: theme.ink }, svg, value(series));
  });
  for (const { at, label } of lines) {
    const half = textWidth(label, 12.5) / 2;
    svgNode("line", { x1: x(at), x2: x(at), y1: top - 3, y2: bottom, stroke: theme.ink, "stroke-width": 1.5, "stroke-dasharray": "5 3", class: "reference" }, svg);
    svgNode("text", { x: Math.min(x(at), width - half - 2), y: top - 7, "text-anchor": "middle" }, svg, label);
  }
  return { svg, height, areas: [] };
}

// Lines in one plane.
function drawPlane(options) {
  const { view, shown, looks, width } = options;
  const names = options.file ? namesOf(view, shown, looks) : [];
  const top = options.file ? 98 : 28;
  const plotHeight = options.plotHeight || (width < 520 ? 250 : 350);
  const height = top + plotHeight + 50 + (options.file ? legendHeight(options, names) : 0);
  const svg = canvasOf(options, height);
  const box = { at: 0, width, top, plotHeight };
  const area = planeIn(svg, options, box, view.series.filter(shown), endsOf(options));
  if (options.file) drawLegend(svg, options, names, top + plotHeight + 54);
  return { svg, height, areas: [area] };
}

// Small multiples: a plane a transport, all with the same axes.
function drawMultiples(options) {
  const { view, shown, looks, width, chart } = options;
  const all = view.series.filter(shown);
  const most = width < 480 ? 1 : width < 860 || all.length === 4 ? 2 : 3;
  const columns = Math.max(1, Math.min(most, all.length));
  const wide = width / columns, plotHeight = columns === 1 ? 190 : 210;
  const head = options.file ? 84 : 24, tall = plotHeight + 62;
  const height = head + Math.max(1, Math.ceil(all.length / columns)) * tall + 24;
  const svg = canvasOf(options, height);
  const ends = endsOf(options), ink = { fill: options.theme.ink };
  svgNode("text", { x: options.file ? 20 : 2, y: head - 8, ...ink }, svg, shortened((view.y || chart.y).label, 12.5, width - 30));
  svgNode("text", { x: width / 2, y: height - 8, "text-anchor": "middle", ...ink }, svg, shortened((view.x || chart.x).label, 12.5, width - 30));
  const areas = all.map((series, i) => {
    const box = { at: (i % columns) * wide, width: wide - 6, top: head + Math.floor(i / columns) * tall + 24, plotHeight };
    const area = planeIn(svg, { ...options, id: options.id + "-" + i, panel: true, unnamed: i > 0 }, box, [series], ends);
    svgNode("text", { x: area.left, y: box.top - 8, "font-size": 13.5, "font-weight": 600, ...ink }, svg, shortened(looks[series.transport].name, 13.5, wide - 40));
    return area;
  });
  if (!all.length) svgNode("text", { x: width / 2, y: head + 80, "text-anchor": "middle", "font-size": 14 }, svg, "nothing to draw");
  return { svg, height, areas };
}

// The ends of both axes: those of all that is shown, or the zoom.
function endsOf({ chart, view, shown, zoom }) {
  const lines = view.lines || [];
  const ends = (which) => domainOf(view[which] || chart[which], valuesAlong(view, shown, which, lines));
  return zoom || { x: ends("x"), y: ends("y") };
}

// A plane with its axes and series, in a box of a picture. Returns where it is.
function planeIn(svg, options, box, visible, ends) {
  const { chart, view, theme } = options;
  const xAxis = view.x || chart.x, yAxis = view.y || chart.y;
  const lines = view.lines || [];
  const { top, plotHeight } = box, bottom = top + plotHeight;
  const narrow = box.width < 520;

  // Ticks first: how wide they are decides where the plane begins.
  const yTicks = ticksOf(yAxis, ends.y, Math.max(3, Math.floor(plotHeight / 55)));
  const widest = Math.max(...yTicks.labelled.map((tick) => textWidth(tick.text, 12.5)), 10);
  const left = box.at + Math.ceil(widest) + 14, right = box.at + box.width - (narrow ? 10 : 18);
  const xTicks = ticksOf(xAxis, ends.x, Math.max(2, Math.floor((right - left) / (narrow ? 72 : 84))));
  const xScale = scaleOf(xAxis, ...ends.x), yScale = scaleOf(yAxis, ...ends.y);
  const x = (value) => left + xScale.place(value) * (right - left);
  // Far beyond the plane is as good as anywhere beyond it: a logarithm of 0 has no place.
  const y = (value) => bottom - Math.max(-9, Math.min(9, yScale.place(value))) * (bottom - top);

  const line = (x1, y1, x2, y2, stroke) => svgNode("line", { x1, y1, x2, y2, stroke }, svg);
  for (const value of xTicks.fine) line(x(value), top, x(value), bottom, theme.fine);
  for (const value of yTicks.fine) line(left, y(value), right, y(value), theme.fine);
  let free = -Infinity;
  for (const { value, text } of xTicks.labelled) {
    line(x(value), top, x(value), bottom + 4, theme.grid);
    const half = textWidth(text, 12.5) / 2;
    const middle = Math.min(Math.max(x(value), box.at + half + 2), box.at + box.width - half - 2);
    if (middle - half < free) continue;
    free = middle + half + 8;
    svgNode("text", { x: middle, y: bottom + 19, "text-anchor": "middle" }, svg, text);
  }
  for (const { value, text } of yTicks.labelled) {
    line(left, y(value), right, y(value), theme.grid);
    svgNode("text", { x: left - 7, y: y(value) + 4.5, "text-anchor": "end" }, svg, text);
  }
  line(left, bottom, right, bottom, theme.axis);
  if (!options.panel) {
    const ink = { fill: theme.ink };
    svgNode("text", { x: options.file ? 20 : 2, y: top - 12, ...ink }, svg, shortened(yAxis.label + yTicks.unit, 12.5, box.width - 30));
    svgNode("text", { x: (left + right) / 2, y: bottom + 41, "text-anchor": "middle", ...ink }, svg, shortened(xAxis.label + xTicks.unit, 12.5, box.width - 30));
  }

  const clip = "clip-" + options.id;
  const defs = svgNode("defs", {}, svg);
  svgNode("rect", { x: left, y: top - 3, width: right - left, height: bottom - top + 6 }, svgNode("clipPath", { id: clip }, defs));
  const marks = svgNode("g", { class: "marks", "clip-path": `url(#${clip})` }, svg);
  const area = { left, right, top, bottom, x, y, xScale, yScale, xAxis, yAxis, series: visible };
  const named = drawReferences(marks, options, area, lines);
  // The first of the legend is drawn last, on top.
  for (const series of [...visible].reverse()) drawSeries(marks, series, options, area);
  if (!options.unnamed) svg.appendChild(named);
  if (visible.every((series) => series.x.length === 0)) {
    svgNode("text", { x: (left + right) / 2, y: (top + bottom) / 2, "text-anchor": "middle", "font-size": 14 }, svg, "nothing to draw");
  }
  return area;
}

function ticksOf(axis, [from, to], most) {
  if (axis.places) {
    const labelled = axis.places.map((text, value) => ({ text, value })).filter(({ value }) => value >= from && value <= to);
    const every = Math.ceil(labelled.length / Math.max(most, 1));
    return { labelled: labelled.filter((_, i) => i % every === 0), fine: [], unit: "" };
  }
  if (axis.log) {
    const { labelled, fine } = logTicks(from, to, most);
    return { labelled: labelled.map((value) => ({ value, text: formatted(value, axis.unit) })), fine, unit: "" };
  }
  const [size, name] = unitFor(axis.unit, Math.max(Math.abs(from), Math.abs(to)));
  const ticks = linearTicks(from / size, to / size, most);
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step * 1.0001))));
  const labelled = ticks.map((tick) => ({ value: tick * size, text: tick.toFixed(decimals) }));
  return { labelled, fine: [], unit: name ? ` (${name})` : "" };
}

// Series that have a look, with the name of each; those of one transport once.
function namesOf(view, shown, looks) {
  const names = new Map();
  for (const series of view.series.filter(shown)) {
    if (series.x.length) names.set(series.transport, { look: looks[series.transport], label: looks[series.transport].name });
  }
  return [...names.values()];
}

function drawReferences(marks, { theme }, { left, right, top, bottom, x, y, xScale, yScale, xAxis, yAxis }, lines) {
  const look = { stroke: theme.muted, "stroke-width": 1.5, "stroke-dasharray": "6 4", class: "reference" };
  // Legible on whatever is drawn below it.
  const halo = { stroke: theme.page, "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke", fill: theme.ink };
  const named = svgNode("g", {});
  for (const { kind, at, label } of lines) {
    if (kind === "vertical") {
      svgNode("line", { x1: x(at), x2: x(at), y1: top, y2: bottom, ...look }, marks);
      if (at < xScale.from || at > xScale.to) continue;
      const text = label + " " + formatted(at, xAxis.unit);
      const after = x(at) + textWidth(text, 12.5) + 8 < right;
      svgNode("text", { x: x(at) + (after ? 6 : -6), y: bottom - 8, "text-anchor": after ? "start" : "end", ...halo }, named, text);
    } else if (kind === "horizontal") {
      svgNode("line", { x1: left, x2: right, y1: y(at), y2: y(at), ...look }, marks);
      if (at < yScale.from || at > yScale.to) continue;
      svgNode("text", { x: right - 6, y: y(at) + (y(at) - top < 24 ? 16 : -6), "text-anchor": "end", ...halo }, named, label);
    } else {
      const from = Math.max(xScale.from, yScale.from), to = Math.min(xScale.to, yScale.to);
      if (from >= to) continue;
      // Straight where both axes are of one kind.
      svgNode("line", { x1: x(from), y1: y(from), x2: x(to), y2: y(to), ...look, "data-kind": "diagonal" }, marks);
      const end = { x: Math.min(x(to) - 8, right - 8), y: Math.max(y(to) + 6, top + 16) };
      svgNode("text", { x: end.x, y: end.y + 20, "text-anchor": "end", ...halo }, named, label);
    }
  }
  return named;
}

function drawSeries(marks, series, { chart, view, looks, theme }, { x, y, right }) {
  const look = looks[series.transport];
  const colour = colourOf(look, theme);
  const group = svgNode("g", { class: "series", "data-name": look.name }, marks);
  const n = series.x.length;
  const at = (i) => [x(series.x[i]).toFixed(1), y(series.y[i]).toFixed(1)];
  if (chart.mark === "points") {
    const crosses = new Set(series.crosses || []);
    let dots = "", marked = "";
    for (let i = 0; i < n; i++) {
      const [px, py] = at(i);
      if (crosses.has(i)) marked += `M${px - 3} ${py - 3}l6 6m0 -6l-6 6`;
      else dots += `M${px} ${py}h0`;
    }
    // All dots are one path: thousands of elements would be slow.
    svgNode("path", { d: dots, stroke: colour, "stroke-width": 4, "stroke-linecap": "round", "stroke-opacity": 0.6, fill: "none" }, group);
    if (marked) svgNode("path", { d: marked, stroke: colour, "stroke-width": 1.6, fill: "none" }, group);
    return;
  }
  let d = "";
  for (let i = 0; i < n; i++) {
    const [px, py] = at(i);
    if (i === 0) d += view.before !== undefined ? `M${px} ${y(view.before).toFixed(1)}V${py}` : `M${px} ${py}`;
    else d += chart.mark === "step" ? `H${px}V${py}` : `L${px} ${py}`;
  }
  // A distribution stays where it is for ever.
  if (n && view.before !== undefined) d += `H${right}`;
  svgNode("path", {
    d, stroke: colour, "stroke-width": 2.25, "stroke-linejoin": "round", "stroke-dasharray": look.dash_pattern || "", fill: "none",
  }, group);
  if (chart.mark !== "line") return;
  for (let i = 0; i < n; i++) {
    const half = series.half ? series.half[i] : null;
    const px = x(series.x[i]);
    if (half !== null && half > 0) {
      const [low, high] = [y(series.y[i] - half), y(series.y[i] + half)].map((v) => Math.max(-1e4, Math.min(1e4, v)));
      svgNode("path", { d: `M${px} ${low}V${high}M${px - 4} ${low}h8M${px - 4} ${high}h8`, stroke: colour, "stroke-width": 1.2, fill: "none", "stroke-opacity": 0.8 }, group);
    }
    svgNode("circle", { cx: px, cy: y(series.y[i]), r: 3.4, fill: colour }, group);
    if (series.marked === i) svgNode("circle", { cx: px, cy: y(series.y[i]), r: 7.5, fill: "none", stroke: colour, "stroke-width": 2 }, group);
  }
}

// What lies under a place of a plane: values of every line there, or the nearest point.
function lookUp(mark, area, px, py) {
  if (mark === "points") {
    let best = null, nearest = 26 * 26;
    for (const series of area.series) {
      for (let i = 0; i < series.x.length; i++) {
        const dx = area.x(series.x[i]) - px, dy = area.y(series.y[i]) - py;
        const distance = dx * dx + dy * dy;
        if (distance < nearest) { nearest = distance; best = { series, i }; }
      }
    }
    return best ? [best] : [];
  }
  const at = area.xScale.value((px - area.left) / (area.right - area.left));
  const found = [];
  for (const series of area.series) {
    // Values are in order: the last that is not beyond.
    let low = -1, high = series.x.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (series.x[middle] <= at) low = middle; else high = middle;
    }
    let i = low;
    if (mark === "line" && low + 1 < series.x.length) {
      const next = low + 1;
      if (low < 0 || Math.abs(area.x(series.x[next]) - px) < Math.abs(area.x(series.x[low]) - px)) i = next;
    }
    if (mark === "line" && (i < 0 || Math.abs(area.x(series.x[i]) - px) > 40)) continue;
    found.push({ series, i });
  }
  return found;
}
