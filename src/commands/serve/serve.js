"use strict";
// The list: filters and turns pages without loading anew, and looks again every few seconds. Without this script the
// links and the button do the same.
(() => {
  const AGAIN_MS = 5000;
  const TYPING_MS = 200;
  const filter = document.getElementById("filter");
  if (!filter) return;
  const chosen = new Set();
  let asked = 0;

  const showChosen = () => {
    for (const box of document.querySelectorAll("#runs input[name=run]")) box.checked = chosen.has(box.value);
    document.getElementById("chosen-count").textContent = chosen.size ? `${chosen.size} chosen` : "";
  };

  // Of several answers on their way only the last one counts, and what is asked for overtakes what was to be asked soon:
  // a field that is left by turning the page must not turn it back.
  let waiting = null;
  // What the list is to show, whether or not its answer has come: a look for news must not take back what was asked for.
  let wanted = location.pathname + location.search;
  const show = async (address) => {
    clearTimeout(waiting);
    waiting = null;
    wanted = address;
    const mine = ++asked;
    const answer = await fetch(address).catch(() => null);
    if (!answer?.ok) {
      // A browser gives requests up when the machine's networks change, and a server may be started again.
      if (mine === asked) waiting = setTimeout(() => show(address), AGAIN_MS);
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== asked) return;
    // What has not changed stays, so that nothing moves away under a click.
    const [old, fresh] = [document.getElementById("runs"), page.getElementById("runs")];
    if (old.innerHTML !== fresh.innerHTML) old.replaceWith(fresh);
    filter.elements.sort.value = page.querySelector("#filter [name=sort]").value;
    history.replaceState(null, "", address);
    showChosen();
  };

  const wishes = () => {
    const wishes = [...new FormData(filter)].filter(([, value]) => value !== "");
    return "/?" + new URLSearchParams(wishes);
  };

  // A choice is a change, typing an input; where both come, the list is asked for once.
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => show(wishes()), TYPING_MS);
  };
  filter.addEventListener("input", soon);
  filter.addEventListener("change", soon);
  filter.addEventListener("submit", (event) => {
    event.preventDefault();
    show(wishes());
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.turn");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    show(link.getAttribute("href"));
  });
  document.addEventListener("change", (event) => {
    if (event.target.name !== "run") return;
    if (event.target.checked) chosen.add(event.target.value);
    else chosen.delete(event.target.value);
    showChosen();
  });
  // Those that were chosen on other pages count, too.
  document.getElementById("chosen").addEventListener("submit", (event) => {
    event.preventDefault();
    location.href = "/compare?" + new URLSearchParams([...chosen].map((name) => ["run", name]));
  });
  setInterval(() => {
    const mayMove = waiting === null && !document.hidden && !document.activeElement?.closest("#runs");
    if (mayMove) show(wanted);
  }, AGAIN_MS);
})();

// A run that goes on: its events as they come.
(() => {
  const AGAIN_MS = 500;
  const SHOWN_MAX = 300;
  const live = document.getElementById("live");
  if (!live) return;
  const list = document.getElementById("live-events");
  const count = document.getElementById("live-count");

  const line = (event) => {
    const item = document.createElement("li");
    const who = event.process === "nemesis" ? "nemesis" : `process ${event.process}`;
    const what = [event.f, event.type, event.key, event.value === null ? "" : JSON.stringify(event.value), event.error];
    item.textContent = `${(event.time / 1e9).toFixed(3).padStart(9)} s  ${who}  ${what.filter(Boolean).join(" ")}`;
    if (event.process === "nemesis") item.className = "fault";
    return item;
  };

  let next = null;
  const look = async () => {
    const from = next === null ? "" : `?from=${next}`;
    const answer = await fetch(live.dataset.address + from).catch(() => null);
    if (!answer?.ok) {
      count.textContent = "The server does not answer.";
      setTimeout(look, AGAIN_MS);
      return;
    }
    const seen = await answer.json();
    next = seen.next;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    list.append(...seen.events.slice(-SHOWN_MAX).map(line));
    while (list.childElementCount > SHOWN_MAX) list.firstElementChild.remove();
    if (atEnd) list.scrollTop = list.scrollHeight;
    const last = seen.events.at(-1);
    if (last) count.textContent = `${last.index + 1} events in ${(last.time / 1e9).toFixed(1)} s.`;
    if (!seen.running) location.reload();
    else setTimeout(look, AGAIN_MS);
  };
  look();
})();
