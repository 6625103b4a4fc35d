#!/usr/bin/env python3
"""Runs every adapter under the conditions of the audit, and writes the table of adapters/README.md.

Runs that are there already are not made again, so that an audit which was ended early goes on where it was.
Needs only the standard library, and the program `fencepost`.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
INCREMENT = ["--workload", "increment"]

# The conditions: the column's title, what it means, and the arguments of `fencepost test`.
CONDITIONS = {
    "peace": ("in peace", "no fault", [*INCREMENT, "--hold", "200ms", "--time-limit", "10s"]),
    "pause": (
        "clients paused",
        "clients are stopped for longer than the TTL; they look at their lock before they write",
        [*INCREMENT, "--nemesis", "pause", "--careful", "--hold", "300ms", "--time-limit", "20s"],
    ),
    "long": (
        "sections longer than the TTL",
        "no fault; sections of 5 s under a TTL of 2 s, in which the holder looks three times whether its lock is valid",
        ["--workload", "lock", "--careful", "--hold", "5s", "--time-limit", "20s"],
    ),
    "server-paused": (
        "a server stopped",
        "the first server is stopped for 8 s",
        [*INCREMENT, "--nemesis-file", "adapters/plans/server-paused.toml", "--hold", "5ms", "--time-limit", "15s"],
    ),
    "server-dead": (
        "a server dead",
        "the first server is dead for 30 s",
        [*INCREMENT, "--nemesis-file", "adapters/plans/server-dead.toml", "--hold", "200ms", "--time-limit", "35s"],
    ),
    "servers-in-turn": (
        "servers stopped in turn",
        "each of three servers is stopped for 4 s, one after the other",
        [*INCREMENT, "--nemesis-file", "adapters/plans/servers-paused-in-turn.toml", "--careful", "--time-limit", "20s"],
    ),
    "server-clocks": (
        "servers' clocks jump",
        "clocks of servers jump",
        [*INCREMENT, "--nemesis", "clock-jump", "--hold", "300ms", "--time-limit", "20s"],
    ),
    "client-clocks": (
        "clients' clocks jump back",
        "the wall clocks of all clients jump back by a minute, again and again; five servers",
        [*INCREMENT, "--nemesis-file", "adapters/plans/client-clock-back.toml", "--careful", "--time-limit", "20s"],
    ),
}


def rows():
    """Every adapter, and every variant of it, as `--lock` takes them."""
    locks = []
    for folder in sorted(path.parent for path in HERE.glob("*/lock.toml")):
        name = f"adapters/{folder.name}"
        locks.append(name)
        for line in (folder / "lock.toml").read_text().splitlines():
            if line.startswith("[variants.") and line.count(".") == 1:
                locks.append(f"{name}@{line[len('[variants.'):].rstrip(']').strip()}")
    return locks


def run(options, lock, condition, number):
    """One run, if it was not made yet. Gives what the table needs of it."""
    results = options.results / condition / lock.replace("/", "-") / str(number)
    kept = results / "run.json"
    if kept.exists():
        return json.loads(kept.read_text())
    command = ["test", "--lock", lock, *CONDITIONS[condition][2], "--ttl", "2s"]
    command += ["--driver", options.driver, "--seed", str(1000 + number)]
    done = subprocess.run(
        [options.fencepost, *command, "--results", str(results)], cwd=HERE.parent, capture_output=True, text=True
    )
    found = {"exit": done.returncode, "command": "fencepost " + " ".join(command)}
    verdict = results / "latest" / "verdict.json"
    if done.returncode <= 2 and verdict.exists():
        judged = json.loads(verdict.read_text())
        found["outcome"] = judged["outcome"]
        broken = [each for each in judged["verdicts"] if each["outcome"] == "violation"]
        found["broken"] = [each["checker"] for each in broken]
        sentences = [f["sentence"] for each in broken for f in each["findings"]] + [b["summary"] for b in broken]
        found["sentence"] = sentences[0] if sentences else ""
        text = (results / "latest" / "run.toml").read_text().split("\n[lock]", 1)[-1].split("\n[", 1)[0]
        versions = [line.split('"')[1] for line in text.splitlines() if line.startswith("version = ")]
        found["version"] = versions[0] if versions else ""
        kept.write_text(json.dumps(found))
    elif "there is no node" in done.stderr:
        # The plan names servers that this lock does not have.
        found["outcome"] = "not applicable"
    else:
        found["outcome"] = "failed"
        found["sentence"] = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    print(f"{lock:40} {condition:14} {number}  {found['outcome']}", flush=True)
    return found


def cell(runs):
    """`3 of 3 broken: exclusion`, or what became of the runs otherwise."""
    if any(each["outcome"] == "not applicable" for each in runs):
        return "–"
    broken = [each for each in runs if each["outcome"] == "violation"]
    if broken:
        names = sorted({name for each in broken for name in each["broken"] if name != "linearizable"})
        return f"**broken {len(broken)} of {len(runs)}**: {', '.join(names)}"
    counts = {}
    for each in runs:
        counts[each["outcome"]] = counts.get(each["outcome"], 0) + 1
    if counts == {"valid": len(runs)}:
        return f"held {len(runs)} of {len(runs)}"
    words = {"valid": "held", "unknown": "undecided", "vacuous": "nothing tested", "failed": "could not be run"}
    return ", ".join(f"{words[outcome]} {count}" for outcome, count in sorted(counts.items()))


def table(found, locks, conditions):
    """The text between the two marks of the README."""
    lines = ["| lock | version | " + " | ".join(CONDITIONS[name][0] for name in conditions) + " |"]
    lines.append("|---" * (2 + len(conditions)) + "|")
    evidence = []
    for lock in locks:
        runs = {name: found[lock, name] for name in conditions}
        version = next((each["version"] for all_ in runs.values() for each in all_ if each.get("version")), "")
        cells, shown = [cell(runs[name]) for name in conditions], set()
        lines.append(f"| {lock.removeprefix('adapters/')} | {version} | " + " | ".join(cells) + " |")
        for name in conditions:
            broken = [each for each in runs[name] if each["outcome"] == "violation"]
            if broken and set(broken[0]["broken"]) - shown:
                shown |= set(broken[0]["broken"])
                sentence = broken[0]["sentence"].replace("|", "\\|")
                evidence.append(f"- {lock.removeprefix('adapters/')}, {CONDITIONS[name][0]}: {sentence}.")
                evidence.append(f"  `{broken[0]['command']}`")
    meaning = [f"- *{CONDITIONS[name][0]}*: {CONDITIONS[name][1]}" for name in conditions]
    parts = ["\n".join(lines), "\n".join(meaning)]
    if evidence:
        parts.append("Of each lock the first violation of each property, and the command that repeats it:\n\n" + "\n".join(evidence))
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("locks", nargs="*", help="adapters/NAME[@VARIANT]; all, if none is named")
    parser.add_argument("--fencepost", default="fencepost", help="the program [default: fencepost]")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results/audit"))
    parser.add_argument("--runs", type=int, default=3, help="runs of each lock under each condition [default: 3]")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side [default: 2]")
    parser.add_argument("--driver", default="local")
    parser.add_argument("--conditions", default=",".join(CONDITIONS), help="of " + ", ".join(CONDITIONS))
    parser.add_argument("--write", action="store_true", help="write the table into adapters/README.md")
    options = parser.parse_args()
    options.results = options.results.resolve()
    locks, conditions = options.locks or rows(), options.conditions.split(",")
    unknown = [name for name in conditions if name not in CONDITIONS]
    if unknown:
        sys.exit(f"audit.py: there is no condition {unknown[0]}; there are {', '.join(CONDITIONS)}")
    todo = [(lock, name, number) for number in range(1, options.runs + 1) for lock in locks for name in conditions]
    found = {(lock, name): [] for lock in locks for name in conditions}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (lock, name, _), one in zip(todo, pool.map(lambda each: run(options, *each), todo)):
            found[lock, name].append(one)
    text = table(found, locks, conditions)
    if not options.write:
        print(text)
        return
    readme = HERE / "README.md"
    before, rest = readme.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


main()
