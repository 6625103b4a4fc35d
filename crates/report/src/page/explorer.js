// Draws what is visible of the run, and shows what was clicked.
(async () => {
  if (typeof DecompressionStream === "undefined") return; // The drawing stays.
  const run = await unpackRun();
  const explorer = document.querySelector(".explorer");
  const canvas = explorer.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const processes = processLanes(run), servers = serverLanes(run), violations = allViolations(run);
  const faults = makeTrack(run.faults.map((fault, of) => ({ from: fault.from, to: fault.to, of })));

  // Places, in pixels.
  const LEFT = 96, RIGHT = 12, FAULT_ROWS = 3, FAULT_ROW = 17, TOP = FAULT_ROWS * FAULT_ROW + 22, GAP = 30, FOOT = 24;
  const lane = Math.max(5, Math.min(24, Math.floor(640 / (processes.length + servers.length || 1))));
  const serversTop = TOP + processes.length * lane + GAP;
  const bottom = serversTop + servers.length * lane;
  let width = 0;
  const view = { from: 0, to: run.end };
  let chosen = null, violation = -1, asked = false;

  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let dark = false;
  const colour = (twins) => twins[dark ? 1 : 0];
  const x = (time) => LEFT + (time - view.from) / (view.to - view.from) * (width - LEFT - RIGHT);
  const time = (at) => view.from + (at - LEFT) / (width - LEFT - RIGHT) * (view.to - view.from);
  const seconds = (micros, digits = 3) => (micros / 1e6).toFixed(digits) + " s";

  function draw() {
    asked = false;
    const begun = performance.now();
    const scale = devicePixelRatio || 1;
    width = explorer.clientWidth;
    dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
    canvas.style.height = bottom + FOOT + "px";
    canvas.width = width * scale;
    canvas.height = (bottom + FOOT) * scale;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.textBaseline = "middle";
    fill(run.colours.ground, 0, 0, width, bottom + FOOT);
    drawGround();
    drawFaults();
    processes.forEach((each, at) => {
      const top = TOP + at * lane, gap = Math.max(1, lane / 6);
      bars(each.claimed, top + gap, lane - 2 * gap, run.colours.claim);
      bars(each.believed, top + gap, lane - 2 * gap, run.colours.hold);
      bars(each.clashes, top + gap, lane - 2 * gap, run.colours.clash, 3);
    });
    servers.forEach((each, at) => {
      const top = serversTop + at * lane, gap = Math.max(1, lane / 4);
      bars(each.granted, top + gap, lane - 2 * gap, run.colours.grant, 1, 0.55);
      bars(each.twice, top + gap, lane - 2 * gap, run.colours.clash, 3);
    });
    drawMarks();
    drawChosen();
    canvas.dataset.from = view.from;
    canvas.dataset.to = view.to;
    canvas.dataset.drawMs = performance.now() - begun;
  }

  function fill(twins, left, top, wide, high, alpha = 1) {
    pen.globalAlpha = alpha;
    pen.fillStyle = colour(twins);
    pen.fillRect(left, top, wide, high);
    pen.globalAlpha = 1;
  }

  function write(text, left, top, twins = run.colours.muted, align = "left", font = "11px") {
    pen.font = font + " system-ui, 'DejaVu Sans', sans-serif";
    pen.textAlign = align;
    pen.fillStyle = colour(twins);
    pen.fillText(text, left, top);
  }

  /** The visible part of a track. What ends within a pixel that is coloured already is passed over, and what touches is one bar. */
  function bars(track, top, high, twins, least = 1, alpha = 1) {
    const edge = width - RIGHT;
    let begun = 0, drawn = -Infinity;
    pen.fillStyle = colour(twins);
    pen.globalAlpha = alpha;
    for (let at = firstAbove(track.most, view.from - 1); at < track.from.length && track.from[at] <= view.to;) {
      const left = Math.max(x(track.from[at]), LEFT);
      const right = Math.min(Math.max(x(track.to[at]), left + least), edge);
      if (track.to[at] >= view.from && right > drawn) {
        if (left > drawn + 0.5) {
          if (drawn > begun) pen.fillRect(begun, top, drawn - begun, high);
          begun = left;
        }
        drawn = right;
      }
      at = firstAbove(track.most, time(drawn), at + 1);
    }
    if (drawn > begun) pen.fillRect(begun, top, drawn - begun, high);
    pen.globalAlpha = 1;
  }

  function drawGround() {
    const edge = width - RIGHT;
    const group = (lanes, top, name) => {
      write(name, LEFT - 8, top - 9, run.colours.muted, "right");
      lanes.forEach((each, at) => {
        if (at % 2 === 0) fill(run.colours.stripe, LEFT, top + at * lane, edge - LEFT, lane);
        if (at % Math.ceil(13 / lane) === 0) write(each.label, LEFT - 8, top + (at + 0.5) * lane, run.colours.ink, "right");
      });
    };
    group(processes, TOP, "process");
    if (servers.length) {
      group(servers, serversTop, run.servers.length ? "server" : "");
      write("promised by the servers: until released, or until its time ran out; red: promised twice", LEFT, serversTop - 10);
    }
    const wanted = (view.to - view.from) / Math.max(2, (edge - LEFT) / 110);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = power * ([1, 2, 5].find((each) => each * power >= wanted) ?? 10);
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / 1e6) - 1e-9)));
    for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
      fill(run.colours.grid, Math.round(x(tick)), TOP, 1, bottom - TOP);
      if (x(tick) > LEFT + 12 && x(tick) < edge - 24) write(seconds(tick, digits), x(tick), bottom + 12, run.colours.muted, "center");
    }
    for (const phase of run.phases) {
      if (phase.name === "main" || phase.at < view.from || phase.at > view.to) continue;
      for (let y = TOP - 14; y < bottom; y += 6) fill(run.colours.muted, x(phase.at), y, 1, 3);
    }
  }

  function drawFaults() {
    if (faults.from.length) write("faults", LEFT - 8, FAULT_ROW / 2, run.colours.muted, "right");
    const ends = new Array(FAULT_ROWS).fill(-Infinity), edge = width - RIGHT;
    let bands = -Infinity;
    for (let at = firstAbove(faults.most, view.from); at < faults.from.length && faults.from[at] <= view.to; at++) {
      const fault = run.faults[faults.of[at]];
      if (fault.to < view.from) continue;
      const left = Math.max(x(fault.from), LEFT), right = Math.min(Math.max(x(fault.to), left + 2), edge);
      if (fault.effective && right > bands) {
        fill(fault.colour, Math.max(left, bands), TOP, right - Math.max(left, bands), bottom - TOP, 0.13);
        bands = right;
      }
      const free = ends.findIndex((end) => end <= left);
      if (free < 0) continue;
      const top = free * FAULT_ROW + 1;
      fill(fault.colour, left, top, right - left, FAULT_ROW - 3, fault.effective ? 0.45 : 0.15);
      pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
      const room = pen.measureText(fault.label).width + 8;
      const inside = right - left >= room;
      const rest = inside || left + room > edge ? right : right + room;
      if (inside || rest > right) write(fault.label, inside ? left + 4 : right + 4, top + 7, run.colours.ink);
      ends[free] = rest + 2;
    }
  }

  /** A red arrow above the lanes for each violation. */
  function drawMarks() {
    let last = -Infinity;
    pen.fillStyle = colour(run.colours.clash);
    for (const { at } of violations) {
      const middle = x(at);
      if (at < view.from || at > view.to || middle < last + 2) continue;
      pen.beginPath();
      pen.moveTo(middle - 4, TOP - 9);
      pen.lineTo(middle + 4, TOP - 9);
      pen.lineTo(middle, TOP - 1);
      pen.fill();
      last = middle;
    }
  }

  function drawChosen() {
    if (chosen === null) return;
    const top = TOP + run.hold_lane[chosen] * lane;
    const left = Math.max(LEFT, x(run.hold_from[chosen])), right = Math.min(width - RIGHT, x(run.hold_end[chosen]));
    if (right < LEFT || left > width - RIGHT) return;
    pen.strokeStyle = colour(run.colours.ink);
    pen.lineWidth = 2;
    pen.strokeRect(left - 1, top + 1, Math.max(4, right - left + 2), lane - 2);
  }

  function redraw() {
    if (!asked) requestAnimationFrame(draw);
    asked = true;
  }

  /** Shows a span of time, within the run and not below a twentieth of a millisecond. */
  function show(from, to) {
    const span = Math.min(run.end, Math.max(50, to - from));
    view.from = Math.min(Math.max(0, (from + to - span) / 2), run.end - span);
    view.to = view.from + span;
    redraw();
  }

  const zoom = (factor, about = (view.from + view.to) / 2) =>
    show(about - (about - view.from) * factor, about + (view.to - about) * factor);
  const move = (share) => {
    const span = view.to - view.from;
    const from = Math.min(Math.max(0, view.from + share * span), run.end - span);
    show(from, from + span);
  };

  /** What of a track stands at a time, or else nearest to it within a few pixels. */
  function at(track, moment, reach) {
    let best = -1, least = reach;
    for (let place = firstAbove(track.most, moment - reach); place < track.from.length && track.from[place] <= moment + reach; place++) {
      const off = Math.max(track.from[place] - moment, moment - track.to[place], 0);
      if (off <= least) [best, least] = [track.of[place], off];
    }
    return best < 0 ? null : best;
  }

  function click(left, top) {
    const reach = (view.to - view.from) / (width - LEFT - RIGHT) * 4, moment = time(left);
    if (top >= TOP && top < TOP + processes.length * lane) return showHold(at(processes[Math.floor((top - TOP) / lane)].claimed, moment, reach));
    if (top >= serversTop && top < bottom) return showHold(at(servers[Math.floor((top - serversTop) / lane)].granted, moment, reach));
    if (top < TOP) showFault(at(faults, moment, reach));
  }

  const details = makeDetails(explorer.querySelector(".details"), run, violations, { showHold, showFault });
  function showHold(hold) {
    chosen = hold;
    details.hold(hold);
    redraw();
  }
  function showFault(fault) {
    chosen = null;
    details.fault(fault);
    redraw();
  }
  function goTo(step) {
    if (!violations.length) return;
    violation = (Math.max(violation, step < 0 ? 0 : -1) + step + violations.length) % violations.length;
    const { at, to, hold, other } = violations[violation];
    const ends = hold === undefined ? [at - 50_000, at + 50_000]
      : [Math.min(run.hold_from[hold], run.hold_from[other]), Math.max(to, run.hold_until[hold], run.hold_until[other])];
    const margin = (ends[1] - ends[0]) / 2 + 1000;
    show(ends[0] - margin, ends[1] + margin);
    explorer.querySelector(".count").textContent = `violation ${violation + 1} of ${violations.length}`;
    chosen = hold ?? null;
    details.violation(violations[violation]);
  }
  function neighbour(step) {
    if (chosen === null) return;
    for (let next = chosen + step; next >= 0 && next < run.hold_from.length; next += step) {
      if (run.hold_lane[next] !== run.hold_lane[chosen]) continue;
      const span = view.to - view.from, from = run.hold_from[next];
      if (from < view.from || from > view.to) show(from - span / 2, from + span / 2);
      return showHold(next);
    }
  }

  const deeds = { in: () => zoom(0.5), out: () => zoom(2), whole: () => show(0, run.end), previous: () => goTo(-1), next: () => goTo(1) };
  explorer.querySelectorAll("[data-do]").forEach((button) => button.addEventListener("click", deeds[button.dataset.do]));
  const keys = { "+": deeds.in, "=": deeds.in, "-": deeds.out, 0: deeds.whole, n: deeds.next, p: deeds.previous,
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: deeds.in, ArrowDown: deeds.out,
    ",": () => neighbour(-1), ".": () => neighbour(1) };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) / 250), time(Math.max(LEFT, event.offsetX)));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { left: event.offsetX, from: view.from, to: view.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const off = drag.left - event.offsetX;
    drag.moved ||= Math.abs(off) > 3;
    if (!drag.moved) return;
    const span = drag.to - drag.from;
    const from = Math.min(Math.max(0, drag.from + off / (width - LEFT - RIGHT) * span), run.end - span);
    show(from, from + span);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) click(event.offsetX, event.offsetY);
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  document.addEventListener("theme", redraw);
  addEventListener("resize", redraw);

  explorer.querySelector(".violations").hidden = !violations.length;
  explorer.querySelector(".count").textContent = violations.length === 1 ? "1 violation" : `${violations.length} violations`;
  root.classList.add("explores");
  explorer.hidden = false;
  draw();
  performance.mark("timeline-ready");
})();
