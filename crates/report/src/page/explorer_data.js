"use strict";
// Unpacks what the page carries, and sorts it so that whatever is visible is found at once.

/** The run: the fields of its JSON text, and each column as an array of numbers. */
async function unpackRun() {
  const text = atob(document.getElementById("timeline-data").textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let at = 0; at < packed.length; at++) packed[at] = text.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const header = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const run = JSON.parse(new TextDecoder().decode(bytes.subarray(4, header)));
  let at = header;
  for (const [name, length] of run.columns) {
    const values = new Float64Array(length);
    let last = 0;
    for (let place = 0; place < length; place++) {
      let rest = 0, scale = 1, byte;
      do {
        byte = bytes[at++];
        rest += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      last += rest % 2 ? -(rest + 1) / 2 : rest / 2;
      values[place] = last;
    }
    run[name] = values;
  }
  return run;
}

/** The first place from `low` on whose value is greater; the values never fall. */
function firstAbove(values, value, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] > value) high = middle; else low = middle + 1;
  }
  return low;
}

/** Spans of time in order of their beginning; `most` is how far those up to each place reach. */
function makeTrack(spans) {
  spans.sort((a, b) => a.from - b.from);
  const count = spans.length;
  const track = { from: new Float64Array(count), to: new Float64Array(count), of: new Float64Array(count), most: new Float64Array(count) };
  let most = -Infinity;
  spans.forEach((span, at) => {
    most = Math.max(most, span.to);
    track.from[at] = span.from;
    track.to[at] = span.to;
    track.of[at] = span.of;
    track.most[at] = most;
  });
  return track;
}

/** A lane for each process: what it believed, what it claimed, and where two held at once. */
function processLanes(run) {
  const lanes = run.lanes.map((label) => ({ label, believed: [], claimed: [], clashes: [] }));
  run.hold_from.forEach((from, of) => {
    const lane = lanes[run.hold_lane[of]];
    lane.believed.push({ from, to: run.hold_until[of], of });
    lane.claimed.push({ from, to: run.hold_end[of], of });
  });
  run.overlap_from.forEach((from, of) => {
    for (const hold of [run.overlap_first[of], run.overlap_second[of]])
      lanes[run.hold_lane[hold]].clashes.push({ from, to: run.overlap_to[of], of: hold });
  });
  return lanes.map(({ label, believed, claimed, clashes }) =>
    ({ label, believed: makeTrack(believed), claimed: makeTrack(claimed), clashes: makeTrack(clashes) }));
}

/** A lane for each server: to whom it had promised the lock, and where it did so twice. */
function serverLanes(run) {
  // Where the lock does not say which servers granted, the service as a whole did.
  const names = run.servers.length ? run.servers : ["service"];
  const lanes = names.map((label) => ({ label, granted: [], twice: [], last: new Map() }));
  run.hold_from.forEach((from, of) => {
    const excludes = run.excludes[run.hold_claim[of]];
    if (!run.weights[run.hold_claim[of]]) return;
    const to = run.hold_promised[of], key = run.hold_key[of], granted = run.server_sets[run.hold_servers[of]];
    lanes.forEach((lane, server) => {
      if (run.servers.length && !granted.includes(server)) return;
      lane.granted.push({ from, to, of });
      const last = lane.last.get(key);
      if (last && last.to > from && excludes[last.claim]) lane.twice.push({ from, to: Math.min(to, last.to), of });
      if (!last || to > last.to) lane.last.set(key, { to, claim: run.hold_claim[of] });
    });
  });
  return lanes.filter((lane) => lane.granted.length)
    .map(({ label, granted, twice }) => ({ label, granted: makeTrack(granted), twice: makeTrack(twice) }))
    .sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
}

/** Every violation of a property, in order of time. */
function allViolations(run) {
  const overlaps = Array.from(run.overlap_from, (at, of) => ({ at, to: run.overlap_to[of], hold: run.overlap_second[of],
    other: run.overlap_first[of], class: run.classes[run.overlap_class[of]] }));
  const others = run.findings.map((finding) => ({ ...finding, to: finding.at }));
  return overlaps.concat(others).sort((a, b) => a.at - b.at);
}
