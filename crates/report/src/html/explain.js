// Bars that are made of parts: where the time went.

function drawStack({ stack, view, rows, theme, width, file, title, subtitle }) {
  const looks = data.transports;
  const kinds = stack.kinds.filter((_, k) => rows.some((row) => row.micros[k] > 0));
  const names = kinds.map((kind) => ({ look: { colour: kind.colour, dash: "solid" }, label: kind.title }));
  const options = { width, theme, file, title, subtitle, chart: { x: {}, y: { label: view.label } } };
  const top = file ? 72 : 6;
  const tall = rows.length > 12 ? 22 : 34, thick = tall - 12;
  const longest = Math.max(0, ...rows.map((row) => textWidth(row.label, 13)));
  const left = Math.min(longest + 20, width * 0.35);
  const sum = (row) => row.micros.reduce((a, b) => a + b, 0);
  const most = Math.max(1e-6, ...rows.map(sum));
  const right = width - 84;
  const bottom = top + rows.length * tall;
  const height = bottom + 46 + legendHeight(options, names);
  const svg = canvasOf(options, height);
  const x = (value) => left + (value / most) * (right - left);
  const [size, unit] = unitFor("time", most);
  for (const tick of linearTicks(0, most / size, right - left < 320 ? 2 : 5)) {
    svgNode("line", { x1: x(tick * size), x2: x(tick * size), y1: top, y2: bottom, stroke: theme.grid }, svg);
    svgNode("text", { x: x(tick * size), y: bottom + 17, "text-anchor": "middle" }, svg, digits(tick));
  }
  svgNode("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle", fill: theme.ink }, svg, "Time (" + unit + ")");
  const marks = svgNode("g", { class: "marks" }, svg);
  rows.forEach((row, i) => {
    const middle = top + i * tall + tall / 2;
    const name = svgNode("text", { x: left - 8, y: middle + 4.5, "text-anchor": "end", "font-size": 13, fill: theme.ink }, svg, shortened(row.label, 13, left - 12));
    svgNode("title", {}, name, row.about);
    let at = 0;
    stack.kinds.forEach((kind, k) => {
      const value = row.micros[k];
      if (!(value > 0)) return;
      const part = svgNode("rect", {
        class: "series", x: x(at), y: middle - thick / 2, width: Math.max(x(at + value) - x(at), 0.5), height: thick, fill: kind.colour,
      }, marks);
      svgNode("title", {}, part, row.label + ": " + formatted(value, "time") + " " + kind.title + "\n" + row.about);
      at += value;
    });
    svgNode("text", { x: x(at) + 7, y: middle + 4.5, "font-size": 13, fill: theme.ink }, svg, formatted(at, "time"));
  });
  drawLegend(svg, options, names, bottom + 46);
  return { svg, height };
}

function showStack(card, tools, section) {
  const stack = section.body;
  let view = stack.views[0];
  if (stack.views.length > 1) {
    const label = node("label", { class: "choice views" }, card, "Show ");
    const select = node("select", {}, label);
    stack.views.forEach(({ label }, i) => node("option", { value: i }, select, label));
    select.addEventListener("change", () => { view = stack.views[Number(select.value)]; draw(); });
  }
  const plot = node("div", { class: "plot" }, card);
  const rows = () => view.rows.filter((row) => row.transport === undefined || !hidden.has(row.transport));
  const file = () => drawStack({
    stack, view, rows: rows(), theme: THEMES.light, width: 900, file: true,
    title: data.title + ": " + section.title,
    subtitle: [data.points[section.point], view.label, data.about].filter(Boolean).join(", "),
  });
  const save = { SVG: () => {
    download(section.id + ".svg", new Blob([svgText(file().svg)], { type: "image/svg+xml" }));
  }, PNG: () => {
    const { svg, height } = file();
    svgToPng(svg, 900, height, (blob) => download(section.id + ".png", blob));
  }, CSV: () => {
    const head = ["of", ...stack.kinds.map((kind) => kind.name.replaceAll("-", "_") + "_us"), "about"];
    const lines = view.rows.map((row) => [row.label, ...row.micros, row.about]);
    download(section.id + ".csv", new Blob([csv([head, ...lines])], { type: "text/csv" }));
  } };
  for (const [name, action] of Object.entries(save)) node("button", { type: "button", onclick: action }, tools, name);

  function draw() {
    const width = Math.round(plot.clientWidth);
    if (!width) return;
    const { svg } = drawStack({ stack, view, rows: rows(), theme: THEMES[themeName()], width, title: section.title });
    svg.classList.add("canvas");
    const old = plot.querySelector("svg.canvas");
    if (old) old.replaceWith(svg); else plot.prepend(svg);
  }
  return draw;
}
