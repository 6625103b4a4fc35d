// What is known about a hold, a fault or a violation, under the timeline.

/** Writes into `box`; `go` leads from one to another. */
function makeDetails(box, run, violations, go) {
  const exact = (micros) => (micros / 1e6).toFixed(6) + " s";
  const millis = (micros) => micros < 10_000 ? (micros / 1000).toFixed(1) + " ms"
    : micros < 1e6 ? Math.round(micros / 1000) + " ms" : (micros / 1e6).toFixed(3) + " s";
  const text = (place) => run.texts[place];
  const node = (name, content = "", kind = "") => {
    const made = document.createElement(name);
    made.append(...[content].flat());
    if (kind) made.className = kind;
    return made;
  };
  const button = (label, act) => {
    const made = node("button", label);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };
  const lock = (hold) => text(run.hold_key[hold]) || "the lock";

  /** The rows of an operation: its beginning, and its end if it has one. */
  function rowsOf(operation) {
    const at = run.op_at[operation], name = text(run.op_f[operation]), end = run.op_end[operation];
    const asked = text(run.op_asked[operation]), said = text(run.op_said[operation]);
    if (end === 4) return [[at, "notice", name, asked]];
    const ended = [at + run.op_took[operation], ["ok", "fail", "info: not known"][end], name, said];
    return end === 3 ? [[at, "begins", name, asked]] : [[at, "begins", name, asked], ended];
  }

  /** The events of a hold's process on its key, from the beginning of the acquire to the end of the release. */
  function eventsOf(hold) {
    const rows = [], last = run.hold_end[hold];
    for (let at = firstAbove(run.op_at, run.hold_asked[hold] - 1); at < run.op_at.length && run.op_at[at] <= last + 1; at++) {
      if (run.op_process[at] !== run.hold_process[hold] || run.op_key[at] !== run.hold_key[hold]) continue;
      if (run.op_at[at] > run.hold_asked[hold] && text(run.op_f[at]) === "acquire") break;
      rows.push(...rowsOf(at).map((row) => [...row, "process " + run.hold_process[hold]]));
    }
    return rows;
  }

  function table(rows) {
    rows.sort((a, b) => a[0] - b[0]);
    const head = node("thead", node("tr", ["time", "who", "operation", "", "value"].map((name) => node("th", name))));
    const body = node("tbody", rows.map(([at, kind, name, value, who]) =>
      node("tr", [node("td", exact(at), "n"), node("td", who), node("td", name), node("td", kind), node("td", value)])));
    return node("div", node("table", [head, body]), "tablebox");
  }

  function holdSentence(hold) {
    const servers = run.server_sets[run.hold_servers[hold]].map((server) => run.servers[server]);
    const from = run.hold_from[hold], until = run.hold_until[hold], end = run.hold_end[hold];
    const claim = end > until ? `, and perhaps until ${exact(end)}` : "";
    return `It got ${lock(hold)} at ${exact(from)}${servers.length ? " from " + servers.join(", ") : ""}, and is known to have `
      + `believed for ${millis(until - from)} that it held it${claim}. The lock was promised to it until ${exact(run.hold_promised[hold])}.`;
  }

  /** Whom a hold met, and which faults were on: each to be clicked. */
  function around(hold) {
    const parts = [];
    for (const each of violations) {
      const other = each.hold === hold ? each.other : each.other === hold ? each.hold : undefined;
      if (other !== undefined) parts.push(node("span", each.class + ": ", "bad"), button(`process ${run.hold_process[other]}`, () => go.showHold(other)));
    }
    run.faults.forEach((fault, at) => {
      if (fault.effective && fault.from <= run.hold_end[hold] && fault.to >= run.hold_asked[hold]) parts.push(button(fault.label, () => go.showFault(at)));
    });
    return node("p", parts, "around");
  }

  return {
    hold(hold) {
      if (hold === null) return box.replaceChildren(node("p", "There is no hold here.", "note"));
      box.replaceChildren(node("h3", `Process ${run.hold_process[hold]} held ${lock(hold)}`), node("p", holdSentence(hold)), around(hold), table(eventsOf(hold)));
    },
    fault(at) {
      if (at === null) return box.replaceChildren(node("p", "There is no fault here.", "note"));
      const fault = run.faults[at];
      const rows = [[fault.from, "begins", fault.name, fault.requested, fault.targets]];
      if (fault.seen !== null) rows.push([fault.seen, fault.effective ? "in force" : "without effect", fault.name, fault.observed, fault.targets]);
      if (fault.healed) rows.push([fault.to, "healed", fault.name, "", fault.targets]);
      box.replaceChildren(node("h3", `Fault: ${fault.label}`), node("p", fault.healed ? `It lasted for ${millis(fault.to - fault.from)}.` : "It was never healed."), table(rows));
    },
    violation(each) {
      if (each.hold === undefined) return box.replaceChildren(node("h3", `${each.class} at ${exact(each.at)}`), node("p", each.text + "."));
      const [first, second] = [each.other, each.hold].map((hold) => run.hold_process[hold]);
      const both = `Process ${second} got ${lock(each.hold)} at ${exact(each.at)} while process ${first} held it`
        + (each.to > each.at ? `; both believed for ${millis(each.to - each.at)} that they held it.` : ".");
      box.replaceChildren(node("h3", `${each.class} at ${exact(each.at)}`), node("p", both), around(each.hold), table([...eventsOf(each.other), ...eventsOf(each.hold)]));
    },
  };
}
