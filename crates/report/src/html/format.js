"use strict";
// Numbers as people read them, and the places of an axis where a number stands.

const SCALES = {
  time: [[1e-3, "ns"], [1, "µs"], [1e3, "ms"], [1e6, "s"]],
  bytes: [[1, "B"], [1e3, "KB"], [1e6, "MB"], [1e9, "GB"]],
  "bits-per-second": [[1, "b/s"], [1e3, "Kb/s"], [1e6, "Mb/s"], [1e9, "Gb/s"], [1e12, "Tb/s"]],
  share: [[0.01, "%"]],
  factor: [[1, "×"]],
  number: [[1, ""]],
};

// The size and the name of the unit in which a value is shown.
function unitFor(unit, value) {
  const scale = SCALES[unit] || [[1, unit]];
  let chosen = scale[0];
  for (const step of scale) {
    if (Math.abs(value) >= step[0] * 0.9999) chosen = step;
  }
  return chosen;
}

// Three significant digits, or more where there are more before the point.
function digits(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) return value.toExponential(2);
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return String(Number(value.toFixed(decimals)));
}

// A value with its unit: 1.25 ms, 87.9 %.
function formatted(value, unit) {
  const [size, name] = unitFor(unit, value);
  return name ? digits(value / size) + " " + name : digits(value);
}

// Round numbers from one end of an axis to the other.
function linearTicks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

// Powers of ten, with what lies between them where there is room.
function logTicks(from, to, most) {
  const first = Math.floor(Math.log10(from) + 1e-9);
  const last = Math.ceil(Math.log10(to) - 1e-9);
  const within = (n) => n >= from * 0.9999 && n <= to * 1.0001;
  const all = (factors) => {
    const ticks = [];
    for (let power = first; power <= last; power++) {
      for (const factor of factors) ticks.push(factor * 10 ** power);
    }
    return ticks.filter(within);
  };
  const choices = [[1, 2, 5], [1, 3], [1]].map(all);
  let labelled = choices.find((ticks) => ticks.length <= most) || choices[2];
  while (labelled.length > most && labelled.length > 2) {
    labelled = labelled.filter((_, i) => i % 2 === 0);
  }
  // Within less than a decade round numbers say more.
  if (labelled.length < 3 && to / from < 30) labelled = linearTicks(from, to, most).filter(within);
  return { labelled, fine: all([1, 2, 3, 4, 5, 6, 7, 8, 9]) };
}

// From values to a place between 0 and 1, and back.
function scaleOf(axis, from, to) {
  if (axis.log) {
    const [low, high] = [Math.log10(from), Math.log10(to)];
    return {
      from, to, log: true,
      place: (value) => (Math.log10(Math.max(value, 1e-300)) - low) / (high - low),
      value: (place) => 10 ** (low + place * (high - low)),
    };
  }
  return {
    from, to, log: false,
    place: (value) => (value - from) / (to - from),
    value: (place) => from + place * (to - from),
  };
}

// The ends of an axis around some values.
function domainOf(axis, values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || !Number.isFinite(value) || (axis.log && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (axis.range) return axis.range;
  if (low > high) return axis.log ? [1, 10] : [0, 1];
  if (axis.log) {
    const margin = low === high ? 2 : (high / low) ** 0.04;
    return [low / margin, high * margin];
  }
  if (axis.places) return [-0.5, axis.places.length - 0.5];
  // What is counted or measured from nothing begins there, unless it varies little.
  if (low > 0 && low < high * 0.6) low = 0;
  const margin = low === high ? Math.max(Math.abs(high) * 0.1, 0.5) : (high - low) * 0.04;
  return [low === 0 ? 0 : low - margin, high + margin];
}

// A text as a field of CSV.
function csvField(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
}

function csv(rows) {
  return rows.map((row) => row.map(csvField).join(",")).join("\n") + "\n";
}
