// The network in time: nodes and links drawn once, what they did set anew for each frame.

const NETWORK_THEMES = {
  light: {
    idle: "#d3d8de", ramp: ["#c3daee", "#8abfdd", "#4b97c9", "#1864aa", "#08306b"], box: "#eef1f4", edge: "#9aa4af",
    queue: "#e69f00", bad: "#d55e00", trim: "#b0508a", mark: "#00795a", grant: "#009e73", pause: "#1b1f24",
  },
  dark: {
    idle: "#37404a", ramp: ["#28507a", "#2f73ab", "#4b9bd6", "#8cc7f0", "#eaf6ff"], box: "#232a33", edge: "#66717d",
    queue: "#e69f00", bad: "#ff7a33", trim: "#e08fc0", mark: "#35c79d", grant: "#35c79d", pause: "#ffffff",
  },
};

// What can happen at a port, in the order of the strip: how it is called, its colour and its shape
// around a place.
const HAPPENINGS = [
  { name: "drops", one: "drop", about: "packets dropped", colour: "bad", shape: (x, y, r) => `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}` },
  { name: "losses", one: "loss on a link", about: "packets lost on the link", colour: "bad", middle: true, shape: (x, y, r) => `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}M${x - r - 2} ${y}a${r + 2} ${r + 2} 0 1 0 ${2 * r + 4} 0a${r + 2} ${r + 2} 0 1 0 ${-2 * r - 4} 0` },
  { name: "trims", one: "trim", about: "packets trimmed", colour: "trim", filled: true, shape: (x, y, r) => `M${x - r} ${y - r * 0.9}h${2 * r}l${-r} ${1.9 * r}z` },
  { name: "bounces", one: "header sent back", about: "headers sent back", colour: "trim", shape: (x, y, r) => `M${x - r} ${y + r * 0.9}h${2 * r}l${-r} ${-1.9 * r}z` },
  { name: "marks", one: "ECN mark", about: "packets ECN-marked", colour: "mark", shape: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0` },
  { name: "paused", one: "paused", about: "of the time paused", colour: "pause", share: true, shape: (x, y, r) => `M${x - r * 0.6} ${y - r}v${2 * r}M${x + r * 0.6} ${y - r}v${2 * r}` },
  { name: "grants", one: "grant", about: "times granted more", colour: "grant", filled: true, shape: (x, y, r) => `M${x} ${y - r}l${r} ${r}l${-r} ${r}l${-r} ${-r}z` },
];

const NETWORK_DIGITS = new Map([..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].map((c, i) => [c, i]));
const SPEEDS = [[2, "slow"], [8, "normal"], [24, "fast"], [60, "very fast"]];

function rampColour(theme, share) {
  const at = Math.min(Math.max(share, 0), 1) * (theme.ramp.length - 1);
  const low = Math.min(Math.floor(at), theme.ramp.length - 2);
  const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mix = (i) => Math.round(part(theme.ramp[low], i) + (at - low) * (part(theme.ramp[low + 1], i) - part(theme.ramp[low], i)));
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}

// The numbers of a run, by port then frame.
function networkRun(body, run) {
  if (run.read) return run.read;
  const ports = body.links.length, { frames } = run;
  const dense = (texts, scale) => {
    const values = new Float32Array(ports * frames);
    texts.forEach((text, port) => {
      for (let f = 0; 2 * f < text.length; f++) {
        values[port * frames + f] = (NETWORK_DIGITS.get(text[2 * f]) * 64 + NETWORK_DIGITS.get(text[2 * f + 1])) * scale;
      }
    });
    return values;
  };
  const sparse = (lists, scale) => {
    const values = new Float32Array(ports * frames);
    for (const list of lists || []) {
      for (let i = 1; i < list.length; i += 2) values[list[0] * frames + list[i]] = list[i + 1] * scale;
    }
    return values;
  };
  const read = {
    used: dense(run.used, 1 / 4000),
    bytes: dense(run.bytes, run.most_bytes / 4095),
    packets: dense(run.packets, Math.max(run.most_packets, 4095) / 4095),
    granted: sparse(run.events.granted, 1e-3),
    pauses: sparse(run.events.pauses, 1),
  };
  for (const { name, share } of HAPPENINGS) read[name] = sparse(run.events[name], share ? 1e-3 : 1);
  run.happened = HAPPENINGS.filter(({ name }) => run.events[name]);
  run.active = body.links.map((_, port) => run.used[port] !== "");
  run.read = read;
  return read;
}

// Where nodes and links are on a canvas of some width. Hosts are at least `pitch` apart: where there
// is less room, the picture is wider than the screen and scrolls.
function networkPlaces(body, room, pitch) {
  const hosts = body.nodes.filter((node) => node.host).length;
  if (body.circle) return circlePlaces(body, Math.max(room, 320));
  const width = Math.max(room, Math.min(hosts, 300) * pitch + 40);
  const top = Math.max(...body.nodes.map((node) => node.y));
  const side = 14, gap = top > 2 ? 118 : 132;
  const tall = (node) => (node.host ? 20 : 26);
  const y = (level) => 22 + (top - level) * gap;
  const height = y(0) + 10 + 26;
  const ends = body.nodes.map(() => ({ up: [], down: [], left: [], right: [] }));
  body.links.forEach((link, port) => {
    const [from, to] = [body.nodes[link.from], body.nodes[link.to]];
    const where = to.y > from.y ? "up" : to.y < from.y ? "down" : to.x < from.x ? "left" : "right";
    ends[link.from][where].push(port);
  });
  // Few hosts stay together, in the middle.
  const spread = Math.min(width - 2 * side, Math.max(hosts, 2) * 150);
  const x = (node) => width / 2 + (node.x - 0.5) * spread;
  const nodes = body.nodes.map((node, i) => {
    const peers = body.nodes.filter((other) => other.y === node.y).map((other) => Math.abs(x(other) - x(node))).filter((far) => far > 0.5);
    const spacing = Math.min(spread, ...peers);
    const slots = Math.max(ends[i].up.length, ends[i].down.length, 1);
    const pitch = Math.min(node.host ? 14 : 80, (0.86 * spacing) / slots);
    const least = node.host ? Math.min(8, 0.8 * spacing) : Math.min(96, 0.8 * spacing);
    return { ...node, x: x(node), y: y(node.y), wide: Math.max(slots * pitch, least), tall: tall(node) };
  });
  const place = new Array(body.links.length);
  nodes.forEach((node, i) => {
    for (const where of ["up", "down"]) {
      const own = ends[i][where];
      own.sort((a, b) => body.nodes[body.links[a].to].x - body.nodes[body.links[b].to].x || Math.min(a, body.links[a].twin) - Math.min(b, body.links[b].twin));
      own.forEach((port, n) => {
        place[port] = [node.x + ((n + 0.5) / own.length - 0.5) * node.wide, node.y + (where === "up" ? -1 : 1) * node.tall / 2];
      });
    }
    for (const where of ["left", "right"]) {
      ends[i][where].forEach((port, n, own) => {
        place[port] = [node.x + (where === "left" ? -1 : 1) * node.wide / 2, node.y + ((n + 0.5) / own.length - 0.5) * node.tall];
      });
    }
  });
  const lines = body.links.map((link, port) => [...place[port], ...place[link.twin]]);
  return { width, height, nodes, lines };
}

function circlePlaces(body, width) {
  const size = Math.min(width, 560);
  // Names of hosts stand outside the circle and are wider than tall.
  const radius = Math.min(size / 2 - 34, width / 2 - 58);
  const [cx, cy] = [width / 2, size / 2];
  const nodes = body.nodes.map((node) => ({ ...node, x: cx + node.x * radius, y: cy + node.y * radius, wide: node.host ? 16 : 34, tall: node.host ? 16 : 34, round: true }));
  // Of several links between two nodes each has a place beside the other.
  const seen = new Map();
  const lines = body.links.map((link, port) => {
    const [a, b] = [nodes[link.from], nodes[link.to]];
    const far = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const [ux, uy] = [(b.x - a.x) / far, (b.y - a.y) / far];
    const key = link.from + " " + link.to;
    const nth = seen.get(key) || 0;
    seen.set(key, nth + 1);
    const beside = nth * 10 * (link.from < link.to ? 1 : -1);
    return [a.x + ux * a.wide / 2 - uy * beside, a.y + uy * a.wide / 2 + ux * beside, b.x - ux * b.wide / 2 - uy * beside, b.y - uy * b.wide / 2 + ux * beside];
  });
  return { width, height: size, nodes, lines };
}

// One clock for one transport, or for two side by side.
function showNetwork(card, tools, section) {
  const body = section.body;
  if (!body.runs.length) return () => {};
  let frame = 0, timer = null;
  const view = node("div", { class: "net-view", tabindex: 0, role: "group", "aria-label": section.title + ": space plays, arrow keys step" }, card);
  const controls = node("div", { class: "net-controls" }, view);
  const choices = node("span", { class: "net-choices" }, controls);
  const play = node("button", { type: "button", class: "play", onclick: () => (timer === null ? start() : stop()) }, controls, "▶ Play");
  node("button", { type: "button", class: "step", "aria-label": "Back", onclick: () => { stop(); show(frame - 1); } }, controls, "‹");
  node("button", { type: "button", class: "step", "aria-label": "On", onclick: () => { stop(); show(frame + 1); } }, controls, "›");
  const slider = node("input", { type: "range", min: 0, step: 1, value: 0, "aria-label": "Time" }, controls);
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  const clock = node("output", {}, controls);
  const speed = node("select", { "aria-label": "Speed", class: "speed" }, controls);
  SPEEDS.forEach(([rate, name]) => node("option", { value: rate }, speed, name));
  speed.value = 8;
  speed.addEventListener("change", () => { if (timer !== null) { stop(); start(); } });
  view.addEventListener("keydown", (event) => {
    const own = event.target.tagName;
    if (event.key === " " && own !== "BUTTON" && own !== "SELECT") {
      event.preventDefault();
      if (timer === null) start(); else stop();
    } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && own !== "INPUT" && own !== "SELECT") {
      event.preventDefault();
      stop();
      show(frame + (event.key === "ArrowLeft" ? -1 : 1));
    }
  });

  const row = node("div", { class: "net-panes" }, view);
  const seek = (us) => { stop(); show(Math.floor(us / step())); };
  const panes = [networkPane(row, choices, section, 0, seek, update)];
  // The first and the last transport, where there is room for two.
  const wide = matchMedia("(min-width: 50rem)").matches;
  if (body.runs.length > 1) panes.push(networkPane(row, choices, section, wide ? body.runs.length - 1 : -1, seek, update));
  const open = () => panes.filter((pane) => pane.run());
  // Frames of the clock are those of the finer run, until the longer one ends.
  const step = () => Math.min(...open().map((pane) => pane.run().frame_us));
  const frames = () => Math.max(1, ...open().map(({ run }) => Math.ceil((run().frames * run().frame_us) / step() - 1e-6)));
  const end = () => Math.max(...open().map((pane) => pane.run().end_us));

  function show(next) {
    frame = Math.min(Math.max(next, 0), frames() - 1);
    const [from, until] = [frame * step(), Math.min((frame + 1) * step(), end())];
    for (const pane of open()) pane.show((frame + 0.5) * step());
    slider.max = frames() - 1;
    slider.value = frame;
    clock.textContent = spanText(from, until);
    slider.setAttribute("aria-valuetext", clock.textContent);
  }
  // Both ends in the unit of the end of the runs, with as many digits as frames need.
  function spanText(from, until) {
    const [size, unit] = unitFor("time", end());
    const decimals = Math.max(0, Math.min(6, 1 - Math.floor(Math.log10(step() / size))));
    return `${(from / size).toFixed(decimals)} – ${(until / size).toFixed(decimals)} ${unit}`;
  }
  function update(at) {
    row.classList.toggle("two", open().length > 1);
    for (const pane of panes) pane.draw();
    show(at === undefined ? frame : Math.floor(at / step()));
  }
  function start() {
    if (frame >= frames() - 1) show(0);
    play.textContent = "❚❚ Pause";
    timer = setInterval(() => {
      if (card.hidden || frame >= frames() - 1) stop(); else show(frame + 1);
    }, 1000 / Number(speed.value));
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "▶ Play";
  }

  // The pictures as they are now, side by side.
  function filed() {
    const theme = THEMES[themeName()];
    let width = 0, height = 0;
    const file = svgNode("svg", { xmlns: SVG, "font-family": FONT, "font-size": 11, fill: theme.ink });
    const page = svgNode("rect", { fill: theme.page }, file);
    for (const pane of open()) {
      const picture = pane.picture();
      const group = svgNode("g", { transform: `translate(${width} 24)` }, file);
      group.append(...picture.svg.childNodes);
      svgNode("text", { x: width + 8, y: 15, "font-size": 13 }, file, `${data.title}, ${looks[pane.run().transport].name}, ${clock.textContent}`);
      width += picture.width + 16;
      height = Math.max(height, picture.height + 24);
    }
    for (const whole of [file, page]) { whole.setAttribute("width", width); whole.setAttribute("height", height); }
    file.setAttribute("viewBox", `0 0 ${width} ${height}`);
    return { svg: file, width, height };
  }
  const save = {
    SVG: () => download("network.svg", new Blob([svgText(filed().svg)], { type: "image/svg+xml" })),
    PNG: () => { const { svg, width, height } = filed(); svgToPng(svg, width, height, (blob) => download("network.png", blob)); },
    CSV: () => download("network.csv", new Blob([csv(networkRows(body, open().map((pane) => pane.run())))], { type: "text/csv" })),
  };
  for (const [name, action] of Object.entries(save)) node("button", { type: "button", onclick: action }, tools, name);

  let width = 0;
  new ResizeObserver(() => {
    if (row.clientWidth !== width) { width = row.clientWidth; update(); }
  }).observe(row);
  return () => { if (card.hidden) stop(); else update(); };
}

// One transport's network: a choice, the strip of its whole run, the picture and its legend.
// `chosen` is the run shown first, or -1 for none; `seek` moves the clock, `update` redraws all.
function networkPane(row, choices, section, chosen, seek, update) {
  const body = section.body;
  let run = body.runs[chosen], frame = 0, drawn = null, hovered = -1;
  const theme = () => NETWORK_THEMES[themeName()];
  const ink = () => THEMES[themeName()];
  const view = node("div", { class: "net-pane" }, row);
  if (body.runs.length > 1) {
    const label = node("label", {}, choices, chosen === 0 ? "Transport " : " beside ");
    const choice = node("select", { "aria-label": chosen === 0 ? "Transport" : "Second transport", class: "run" }, label);
    if (chosen !== 0) node("option", { value: -1 }, choice, "none");
    body.runs.forEach((own, i) => node("option", { value: i }, choice, looks[own.transport].name));
    choice.value = chosen;
    choice.addEventListener("change", () => {
      const at = run && (frame + 0.5) * run.frame_us;
      run = body.runs[Number(choice.value)];
      update(at);
    });
  }
  const name = node("h3", {}, view);
  const strip = node("div", { class: "net-strip" }, view);
  const plot = node("div", { class: "plot" }, view);
  const scroll = node("div", { class: "net-scroll" }, plot);
  const tip = node("div", { class: "tip", hidden: "" }, plot);
  const legend = node("div", { class: "net-legend" }, view);

  // --- The picture
  function draw() {
    view.hidden = !run;
    const room = Math.round(plot.clientWidth);
    if (!room || !run) return;
    name.textContent = looks[run.transport].name;
    const values = networkRun(body, run);
    const places = networkPlaces(body, room, room < 480 ? 6 : row.classList.contains("two") ? 10 : 15);
    const { width, height, nodes, lines } = places;
    const svg = svgNode("svg", {
      xmlns: SVG, class: "network", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": section.title,
      "font-family": FONT, "font-size": 11, fill: ink().ink,
    });
    const apart = places.width / Math.max(1, body.nodes.filter((n) => n.host).length) < 20 ? 1.6 : 2.3;
    // Each direction is on the right of the way it goes.
    const beside = lines.map(([x1, y1, x2, y2]) => {
      const far = Math.hypot(x2 - x1, y2 - y1) || 1;
      const [ux, uy] = [(x2 - x1) / far, (y2 - y1) / far];
      return { x1, y1, x2, y2, far, ux, uy, nx: -uy, ny: ux };
    });
    const group = svgNode("g", { class: "links", "stroke-linecap": "butt" }, svg);
    const strokes = beside.map(({ x1, y1, x2, y2, nx, ny }) => svgNode("line", {
      class: "link", x1: x1 + nx * apart, y1: y1 + ny * apart, x2: x2 + nx * apart, y2: y2 + ny * apart,
    }, group));
    const marked = svgNode("g", { class: "hovered" }, svg);
    const queues = svgNode("path", { class: "queues", fill: theme().queue, "fill-opacity": 0.92, stroke: ink().page, "stroke-width": 0.6 }, svg);
    const boxes = svgNode("g", { class: "nodes" }, svg);
    for (const box of nodes) {
      svgNode("rect", {
        x: box.x - box.wide / 2, y: box.y - box.tall / 2, width: box.wide, height: box.tall, rx: box.round ? box.wide / 2 : 4,
        fill: theme().box, stroke: theme().edge,
      }, boxes);
      const label = nodeLabel(box, nodes);
      const [lx, ly] = box.round && box.host ? outward(box, width, height) : [box.x, box.host ? box.y + box.tall / 2 + 13 : box.y + 4];
      if (label) svgNode("text", { x: lx, y: ly, "text-anchor": "middle", fill: box.host ? ink().muted : ink().ink }, boxes, label);
    }
    const happenings = HAPPENINGS.map(({ colour, filled }) => svgNode("path", {
      class: "happening", stroke: theme()[colour], "stroke-width": filled ? 1 : 2.1, fill: filled ? theme()[colour] : "none", "stroke-linejoin": "round",
    }, svg));
    const old = scroll.querySelector("svg");
    if (old) old.replaceWith(svg); else scroll.appendChild(svg);
    drawn = { svg, places, beside, strokes, queues, happenings, marked, values, apart };
    listen(svg);
    drawStrip(room);
    drawLegend();
  }

  function outward(box, width, height) {
    const far = Math.hypot(box.x - width / 2, box.y - height / 2) || 1;
    return [box.x + ((box.x - width / 2) / far) * 30, box.y + ((box.y - height / 2) / far) * 20 + 4];
  }

  // A name where there is room for it, or the number at its end; of hosts that stand close, only as
  // many as fit.
  function nodeLabel(box, nodes) {
    if (box.round && box.host) return box.name;
    const hosts = nodes.filter((n) => n.host);
    const near = box.host ? Math.min(...hosts.filter((n) => n !== box).map((n) => Math.abs(n.x - box.x)), 200) - 3 : box.wide - 4;
    const numberOf = (n) => (n.name.match(/[0-9]+$/) || [""])[0];
    const fits = (text) => textWidth(text, 11) <= near;
    if (!box.host) return fits(box.name) ? box.name : fits(numberOf(box)) ? numberOf(box) : "";
    if (hosts.every((n) => fits(n.name))) return box.name;
    const every = Math.ceil(Math.max(...hosts.map((n) => textWidth(numberOf(n), 11))) / Math.max(near, 1));
    return hosts.indexOf(box) % every === 0 ? numberOf(box) : "";
  }

  // Shows the frame at a time; the last one once the run has ended.
  function show(at) {
    frame = Math.min(Math.max(Math.floor(at / run.frame_us), 0), run.frames - 1);
    if (!drawn) return;
    const { values, strokes, beside, apart } = drawn;
    const shades = theme();
    const cell = (port) => port * run.frames + frame;
    let bars = "";
    const longest = Math.max(run.most_bytes, 1);
    strokes.forEach((stroke, port) => {
      const used = values.used[cell(port)];
      stroke.setAttribute("stroke", used > 0 ? rampColour(shades, used) : shades.idle);
      stroke.setAttribute("stroke-width", used > 0 ? apart * (1.1 + 0.6 * used) : 1);
      const waiting = values.bytes[cell(port)];
      if (waiting > 0) {
        const { x1, y1, ux, uy, nx, ny, far } = beside[port];
        const long = Math.max(1.5, Math.min(52, far * 0.44) * waiting / longest);
        const [low, high] = [0.4, Math.max(5.5, apart * 3)];
        const corner = (along, aside) => `${(x1 + ux * along + nx * aside).toFixed(1)} ${(y1 + uy * along + ny * aside).toFixed(1)}`;
        bars += `M${corner(0, low)}L${corner(long, low)}L${corner(long, high)}L${corner(0, high)}z`;
      }
    });
    drawn.queues.setAttribute("d", bars);
    const taken = new Float32Array(strokes.length);
    HAPPENINGS.forEach(({ name, middle, shape, share }, kind) => {
      let d = "";
      if (run.events[name]) {
        strokes.forEach((_, port) => {
          const count = values[name][cell(port)];
          if (!(count > 0)) return;
          const { x1, y1, ux, uy, nx, ny, far } = beside[port];
          const size = share ? 2.5 + 2.5 * count : Math.min(2.9 + 0.5 * Math.log2(count), 5.5);
          const aside = middle ? apart : apart * 2 + 6.5;
          // Outside of the node, however steep the link is.
          const clear = body.circle ? 8 : (10 - Math.sign(uy) * ny * aside) / Math.max(Math.abs(uy), 0.2);
          const along = middle ? far / 2 : Math.min(Math.max(clear, 8), far * 0.45) + taken[port];
          if (!middle) taken[port] += 13;
          d += shape(Number((x1 + ux * along + nx * aside).toFixed(1)), Number((y1 + uy * along + ny * aside).toFixed(1)), Number(size.toFixed(1)));
        });
      }
      drawn.happenings[kind].setAttribute("d", d);
    });
    if (drawn.cursor) drawn.cursor.setAttribute("x", drawn.stripX(frame * run.frame_us));
    if (hovered >= 0) tell(hovered);
  }

  // --- What is under the mouse
  function listen(svg) {
    const find = (event) => {
      const box = svg.getBoundingClientRect();
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      let best = -1, nearest = 14 * 14;
      drawn.beside.forEach(({ x1, y1, ux, uy, nx, ny, far }, port) => {
        const [dx, dy] = [px - x1 - nx * drawn.apart, py - y1 - ny * drawn.apart];
        const along = Math.min(Math.max(dx * ux + dy * uy, 0), far);
        const distance = (dx - along * ux) ** 2 + (dy - along * uy) ** 2;
        if (distance < nearest) { nearest = distance; best = port; }
      });
      if (best < 0) leave(); else tell(best);
    };
    svg.addEventListener("pointermove", find);
    svg.addEventListener("pointerdown", find);
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") leave(); });
  }
  function leave() { hovered = -1; tip.hidden = true; drawn.marked.replaceChildren(); }

  function tell(port) {
    hovered = port;
    const link = body.links[port], { values } = drawn;
    const i = port * run.frames + frame;
    tip.replaceChildren();
    node("div", { class: "head" }, tip, body.nodes[link.from].name + " → " + body.nodes[link.to].name);
    const fact = (name, text) => { const line = node("div", {}, tip); node("span", {}, line, name); node("span", { class: "value" }, line, text); };
    fact("sending", formatted(values.used[i], "share") + " of " + formatted(link.rate, "bits-per-second"));
    const packets = Math.round(values.packets[i]);
    fact("longest queue", packets ? `${formatted(values.bytes[i], "bytes")}, ${packets} ${packets === 1 ? "packet" : "packets"}` : "none");
    if (run.events.granted) fact("granted", formatted(values.granted[i] * link.rate, "bits-per-second"));
    for (const { name, about, share } of run.happened) {
      if (values[name][i] > 0) fact(about, share ? formatted(values[name][i], "share") : String(values[name][i]));
    }
    const { x1, y1, x2, y2, nx, ny, far, ux, uy } = drawn.beside[port];
    drawn.marked.replaceChildren();
    svgNode("line", { x1: x1 + nx * drawn.apart, y1: y1 + ny * drawn.apart, x2: x2 + nx * drawn.apart, y2: y2 + ny * drawn.apart, stroke: ink().ink, "stroke-width": 7, "stroke-opacity": 0.22, "stroke-linecap": "round" }, drawn.marked);
    tip.hidden = false;
    const [mx, my] = [x1 + ux * far / 2 - scroll.scrollLeft, y1 + uy * far / 2];
    const x = mx + 18 + tip.offsetWidth > plot.clientWidth ? mx - tip.offsetWidth - 18 : mx + 18;
    const y = Math.min(Math.max(my - tip.offsetHeight / 2, 0), drawn.places.height - tip.offsetHeight);
    tip.style.transform = `translate(${Math.max(0, Math.round(x))}px, ${Math.round(y)}px)`;
  }

  // --- All of the run at a glance
  function drawStrip(room) {
    const { values } = drawn;
    const { frames } = run;
    const sums = (numbers, weight) => {
      const sum = new Float64Array(frames);
      for (let port = 0; port < body.links.length; port++) {
        const by = weight ? weight(port) : 1;
        for (let f = 0; f < frames; f++) sum[f] += by * numbers[port * frames + f];
      }
      return sum;
    };
    const rates = body.links.map((link, port) => (run.active[port] ? link.rate : 0));
    const all = rates.reduce((a, b) => a + b, 0) || 1;
    const rows = [
      { label: "links in use", values: sums(values.used, (port) => rates[port] / all), most: 1, unit: "share", colour: theme().ramp[themeName() === "dark" ? 2 : 3], tall: 30 },
      { label: "queued", values: sums(values.bytes), unit: "bytes", colour: theme().queue, tall: 30 },
      ...run.happened.map(({ name, one, colour, share }) => ({ label: share ? one : name === "losses" ? "losses" : name, values: sums(values[name]), colour: theme()[colour], tall: 15, unit: share ? "ports" : "number" })),
    ];
    const left = 76, right = room - 56;
    const height = rows.reduce((sum, row) => sum + row.tall + 5, 0) + 24;
    const svg = svgNode("svg", { class: "strip", width: room, height, viewBox: `0 0 ${room} ${height}`, "font-family": FONT, "font-size": 11, fill: ink().muted, "aria-hidden": "true" });
    const x = (us) => left + (us / (frames * run.frame_us)) * (right - left);
    let y = 2;
    for (const row of rows) {
      const most = row.most || Math.max(...row.values);
      svgNode("line", { x1: left, x2: right, y1: y + row.tall, y2: y + row.tall, stroke: ink().grid }, svg);
      svgNode("text", { x: left - 8, y: y + row.tall - 2, "text-anchor": "end", fill: ink().ink }, svg, row.label);
      const written = row.unit === "ports" ? Number(most.toFixed(1)) + " ports" : formatted(most, row.unit);
      svgNode("text", { x: right + 5, y: y + 9 }, svg, written);
      let d = "";
      for (let f = 0; f < frames; f++) {
        const tall = most > 0 ? (row.values[f] / most) * row.tall : 0;
        if (!(tall > 0)) continue;
        const seen = Math.max(tall, 1.5);
        d += `M${x(f * run.frame_us).toFixed(1)} ${(y + row.tall).toFixed(1)}v${(-seen).toFixed(1)}H${x((f + 1) * run.frame_us).toFixed(1)}v${seen.toFixed(1)}z`;
      }
      svgNode("path", { class: "row", d, fill: row.colour }, svg);
      y += row.tall + 5;
    }
    const ticks = ticksOf({ unit: "time" }, [0, frames * run.frame_us], Math.max(2, Math.floor((right - left) / 90)));
    ticks.labelled.forEach(({ value, text }, i) => {
      svgNode("line", { x1: x(value), x2: x(value), y1: 2, y2: y - 3, stroke: ink().grid, "stroke-opacity": 0.6 }, svg);
      const last = i === ticks.labelled.length - 1;
      svgNode("text", { x: x(value), y: y + 11, "text-anchor": "middle" }, svg, last ? text + ticks.unit.replace(/[()]/g, "") : text);
    });
    drawn.cursor = svgNode("rect", { class: "cursor", x: left, y: 0, width: Math.max(2, x(run.frame_us) - x(0)), height: y - 2, fill: ink().ink, "fill-opacity": 0.28 }, svg);
    drawn.stripX = x;
    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const share = ((event.clientX - box.left) * (room / box.width) - left) / (right - left);
      seek(share * frames * run.frame_us);
    };
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); follow(event); });
    svg.addEventListener("pointermove", (event) => { if (event.buttons) follow(event); });
    strip.replaceChildren(svg);
  }

  function drawLegend() {
    legend.replaceChildren();
    const entry = (text, wide, paint) => {
      const item = node("span", {}, legend);
      const svg = svgNode("svg", { width: wide, height: 14, "aria-hidden": "true" });
      paint(svg);
      item.append(svg, text);
    };
    entry("sending: 0 to 100 % of the time", 92, (svg) => {
      svgNode("line", { x1: 0, x2: 10, y1: 7, y2: 7, stroke: theme().idle, "stroke-width": 1.5 }, svg);
      for (let i = 0; i < 20; i++) svgNode("rect", { x: 12 + i * 4, y: 3, width: 4.2, height: 8, fill: rampColour(theme(), i / 19) }, svg);
    });
    if (run.most_bytes > 0) entry("a full bar is a queue of " + formatted(run.most_bytes, "bytes"), 24, (svg) => svgNode("rect", { x: 0, y: 4, width: 24, height: 6, fill: theme().queue }, svg));
    for (const { one, colour, filled, shape } of run.happened) {
      entry(one, 14, (svg) => svgNode("path", { d: shape(7, 7, 4), stroke: theme()[colour], "stroke-width": filled ? 1 : 2.1, fill: filled ? theme()[colour] : "none" }, svg));
    }
  }

  // A copy of what is shown.
  function picture() {
    const svg = drawn.svg.cloneNode(true);
    svg.querySelector(".hovered").replaceChildren();
    return { svg, width: drawn.places.width, height: drawn.places.height };
  }
  return { draw, show, picture, run: () => run };
}

// Every port in every frame of some runs in which it did something.
function networkRows(body, runs) {
  const rows = [["transport", "from_us", "until_us", "from", "to", "sending_share", "queue_bytes", "queue_packets", "granted_bps", ...HAPPENINGS.map(({ name, share }) => name + (share ? "_share" : ""))]];
  for (const run of runs) {
    const values = networkRun(body, run);
    for (let f = 0; f < run.frames; f++) {
      body.links.forEach((link, port) => {
        const i = port * run.frames + f;
        const numbers = [values.used[i], Math.round(values.bytes[i]), Math.round(values.packets[i]), values.granted[i] * link.rate, ...HAPPENINGS.map(({ name }) => values[name][i])];
        if (!numbers.some((value) => value > 0)) return;
        const ends = [f * run.frame_us, Math.min((f + 1) * run.frame_us, run.end_us)];
        rows.push([looks[run.transport].name, ...ends, body.nodes[link.from].name, body.nodes[link.to].name, ...numbers.map((value) => Number(value.toPrecision(6)))]);
      });
    }
  }
  return rows;
}
