#!/usr/bin/env python3
"""Runs every adapter, and the built-in lock of its servers beside it, under the conditions of the audit, and writes the tables of
adapters/README.md.

What each run showed is one line of adapters/audit.jsonl. The tables are made of all lines, so that runs of several days, and of both
drivers, add up, and an audit that was ended early goes on where it was: a cell gets runs until it has as many as --runs asks for.
Needs only the standard library, and the program `fencepost`.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
INCREMENT = ["--workload", "increment"]

# The conditions of each table: the column's title, what it means, and the arguments of `fencepost test`.
DRAWN = {
    "lock": ("no fault, `lock`", "the workload `lock`", ["--workload", "lock", "--hold", "100ms", "--time-limit", "10s"]),
    "peace": ("no fault, `increment`", "the workload `increment`", [*INCREMENT, "--hold", "200ms", "--time-limit", "10s"]),
    "pause": (
        "`pause`",
        "clients or servers are stopped for longer than the TTL; clients look at their lock before they write",
        [*INCREMENT, "--nemesis", "pause", "--careful", "--hold", "300ms", "--time-limit", "20s"],
    ),
    "server-clocks": (
        "`clock-jump`",
        "the time of day jumps, of servers or clients",
        [*INCREMENT, "--nemesis", "clock-jump", "--hold", "300ms", "--time-limit", "20s"],
    ),
    "kill": (
        "`kill`",
        "servers are killed and started again, Redis without having stored anything",
        [*INCREMENT, "--nemesis", "kill", "--hold", "300ms", "--time-limit", "15s"],
    ),
    "partition": (
        "`partition`",
        "nodes are cut off from each other; clients look at their lock before they write",
        [*INCREMENT, "--nemesis", "partition", "--careful", "--hold", "300ms", "--time-limit", "15s"],
    ),
}
PLANNED = {
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
    "client-clocks": (
        "clients' clocks jump back",
        "the wall clocks of all clients jump back by a minute, again and again; five servers",
        [*INCREMENT, "--nemesis-file", "adapters/plans/client-clock-back.toml", "--careful", "--time-limit", "20s"],
    ),
}
CONDITIONS = {**DRAWN, **PLANNED}
# The built-in lock on the same servers that an adapter is measured against; of servers that no built-in lock uses, none.
REFERENCES = {
    "redis": "redis-single",
    "redis-independent": "redlock",
    "etcd": "etcd",
    "zookeeper": "zookeeper-sequential",
    "postgres": "postgres-advisory",
}
# What violations mean, the worst first: the name in verdict.json, the sign, and the words that reports use.
HARMS = {
    "granted-twice": ("✗", "granted twice"),
    "promise-broken": ("◆", "promise broken"),
    "stuck": ("■", "stuck"),
    "unfenced": ("△", "no fence"),
    "busy-machine": ("~", "busy machine"),
}
# Those that say something about the lock itself.
OF_THE_LOCK = ["granted-twice", "promise-broken", "stuck"]
WHOSE = {"service": "the service", "library": "the library", "no-fence": "no fence", "machine": "the machine"}
# Longer than any run takes on a busy machine.
PATIENCE_S = 300


def services():
    """Of each service the locks on it, as `--lock` takes them: the reference first, then every adapter with its variants."""
    found = {service: [reference] for service, reference in REFERENCES.items()}
    for folder in sorted(path.parent for path in HERE.glob("*/lock.toml")):
        name, lines = f"adapters/{folder.name}", (folder / "lock.toml").read_text().splitlines()
        named = [line.split('"')[1] for line in lines if line.startswith("service = ")]
        locks = found.setdefault(named[0] if named else folder.name, [])
        locks.append(name)
        for line in lines:
            if line.startswith("[variants.") and line.count(".") == 1:
                locks.append(f"{name}@{line[len('[variants.'):].rstrip(']').strip()}")
    return {service: locks for service, locks in found.items() if len(locks) > 1 or locks[0] not in REFERENCES.values()}


def rows():
    """All of them, one after the other."""
    return [lock for locks in services().values() for lock in locks]


def arguments(record):
    """The arguments of `fencepost` that make this run."""
    words = ["test", "--lock", record["lock"], *CONDITIONS[record["condition"]][2], "--ttl", "2s"]
    return [*words, "--driver", record["driver"], "--seed", str(record["seed"])]


def run(options, record):
    """One run; completes its record. A run that gave no verdict is not kept."""
    folder = options.results / record["driver"] / record["condition"] / record["lock"].replace("/", "-") / str(record["seed"])
    command = [options.fencepost, *arguments(record), "--results", str(folder)]
    try:
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=PATIENCE_S)
        record["exit"], stderr = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        record["exit"], stderr = None, f"no verdict within {PATIENCE_S} s"
    verdict = folder / "latest" / "verdict.json"
    if record["exit"] in (0, 1, 2) and verdict.exists():
        judged = json.loads(verdict.read_text())
        record["outcome"] = judged["outcome"]
        broken = [each for each in judged["verdicts"] if each["outcome"] == "violation"]
        record["broken"] = {each["checker"]: sorted({f["class"] for f in each["findings"]}) for each in broken}
        record["harms"] = judged.get("harms", [])
        record["whose"] = sorted({f["whose"] for each in broken if each.get("claimed", True) for f in each["findings"]})
        found = [(list(WHOSE).index(f["whose"]), f["sentence"]) for each in broken for f in each["findings"]]
        # What a late writer did says least about the lock.
        record["sentence"] = min(found, key=lambda each: each[0] >= 2, default=(0, broken[0]["summary"] if broken else ""))[1]
        text = (folder / "latest" / "run.toml").read_text().split("\n[lock]", 1)[-1].split("\n[", 1)[0]
        versions = [line.split('"')[1] for line in text.splitlines() if line.startswith("version = ")]
        record["version"] = versions[0] if versions else ""
    elif "there is no node" in stderr:
        # The plan names servers that this lock does not have.
        record["outcome"] = "not-applicable"
    else:
        record["outcome"] = "failed"
        record["sentence"] = (stderr.strip().splitlines() or ["it said nothing"])[-1]
    shown = " ".join(str(record[name]) for name in ("driver", "condition", "lock", "seed", "exit", "outcome"))
    print(shown, record.get("broken") or record.get("sentence", ""), flush=True)
    return record


def missing(options, kept, locks, conditions):
    """The runs that the cells lack, each with a seed that the cell has not had yet."""
    todo = []
    for number in range(options.runs):
        for lock in locks:
            for condition in conditions:
                cell = {"lock": lock, "condition": condition, "driver": options.driver}
                had = [each for each in kept if cell.items() <= each.items()]
                if len(had) > number or any(each["outcome"] == "not-applicable" for each in had):
                    continue
                free = (seed for seed in range(1001, 10_000) if seed not in {each["seed"] for each in had})
                todo.append({**cell, "seed": [next(free) for _ in range(number - len(had) + 1)][-1]})
    return todo


def worst(runs):
    """The worst that violations of some runs mean; none where there are none."""
    shown = {harm for each in runs for harm in each.get("harms", ())}
    return next((harm for harm in HARMS if harm in shown), None)


def is_own(harm, reference):
    """Whether it is worse than what the reference showed in its runs, so that it is the lock's own."""
    same = worst(reference)
    return harm in OF_THE_LOCK and bool(reference) and (same is None or list(HARMS).index(harm) < list(HARMS).index(same))


def library(lock):
    """What stands for the client's side of a lock: its library, or the recipe that is an adapter's own, with nothing of a library but its
    requests: a mistake in one is not that library's."""
    file = HERE / lock.removeprefix("adapters/").split("@")[0] / "lock.toml"
    return "the recipe" if file.exists() and file.read_text().startswith('about = "a recipe by ') else WHOSE["library"]


def whose(lock, named, own):
    """Whose failures some runs show, in words: the lock's own where the reference did not show it."""
    words = {**WHOSE, "library": library(lock)}
    return words["library"] if own else " and ".join(words[name] for name in WHOSE if name in named)


def cell(lock, runs, reference):
    """`✗ granted twice 3/4 (the service)`, or what became of the runs otherwise. In bold where the lock's own failure is worse than what
    the reference showed in its runs."""
    if not runs:
        return ""
    if any(each["outcome"] == "not-applicable" for each in runs):
        return "–"
    if (harm := worst(runs)) is not None:
        sign, words = HARMS[harm]
        having = [each for each in runs if harm in each["harms"]]
        drivers = {each["driver"] for each in having}
        where = f", {drivers.pop()} only" if len(drivers) == 1 and len({each["driver"] for each in runs}) > 1 else ""
        own = is_own(harm, reference)
        late = ("no-fence", "machine")
        of_lock = whose(lock, {name for each in having for name in each["whose"] if name not in late}, own)
        named = "" if harm in ("unfenced", "busy-machine") or not of_lock else f" ({of_lock})"
        text = f"{sign} {words} {len(having)}/{len(runs)}{named}{where}"
        return f"**{text}**" if own else text
    counts = {}
    for each in runs:
        counts[each["outcome"]] = counts.get(each["outcome"], 0) + 1
    if counts == {"valid": len(runs)}:
        return f"✓ held {len(runs)}/{len(runs)}"
    words = {"valid": "held", "unknown": "undecided", "vacuous": "nothing tested"}
    return ", ".join(f"{words[outcome]} {count}" for outcome, count in sorted(counts.items()))


def table(kept, conditions):
    """One table, and what its columns mean."""
    lines = ["| lock | version | " + " | ".join(title for title, _, _ in conditions.values()) + " |"]
    lines.append("|---" * (2 + len(conditions)) + "|")
    for service, locks in services().items():
        reference = REFERENCES.get(service)
        if reference is None:
            lines.append(f"| *{service}: no reference, since no built-in lock uses these servers* |" + " |" * (1 + len(conditions)))
        for lock in locks:
            of = {name: [[each for each in kept if (each["lock"], each["condition"]) == (row, name)] for row in (lock, reference)] for name in conditions}
            if not any(runs for runs, _ in of.values()):
                continue
            version = next((each["version"] for each in reversed(kept) if each["lock"] == lock and each.get("version")), "")
            cells = " | ".join(cell(lock, *of[name]) for name in conditions)
            name = f"*{lock}*, the reference" if lock == reference else lock.removeprefix("adapters/")
            # Runs of before adapters said so themselves.
            is_old = library(lock) != WHOSE["library"] and version and not version.startswith("a recipe")
            by = f"a recipe by {version}" if is_old else version
            lines.append(f"| {name} | {by} | {cells} |")
    meaning = [f"- *{title}*: {about}" for title, about, _ in conditions.values()]
    return "\n".join(lines) + "\n\n" + "\n".join(meaning)


def evidence(kept):
    """Of each lock the first violation of each property, and the command that repeats it. Whose it is stands there as in the tables."""
    lines = []
    for lock, reference in [(lock, REFERENCES.get(service)) for service, locks in services().items() for lock in locks]:
        shown = set()
        for condition in CONDITIONS:
            for each in kept:
                is_new = set(each.get("broken", ())) - shown - {"linearizable"}
                if (each["lock"], each["condition"]) == (lock, condition) and is_new and each["sentence"]:
                    shown |= set(each["broken"])
                    sentence = each["sentence"].replace("|", "\\|")
                    beside = [other for other in kept if (other["lock"], other["condition"]) == (reference, condition)]
                    own = lock != reference and is_own(worst([each]), beside)
                    words = whose(lock, each["whose"], own) or "whose: not known"
                    lines.append(f"- {lock.removeprefix('adapters/')}, {CONDITIONS[condition][0]} ({words}): {sentence}.")
                    lines.append(f"  `fencepost {' '.join(arguments(each))}`")
    return "Of each lock the first violation of each property, and the command that repeats it:\n\n" + "\n".join(lines)


def drivers(kept):
    """How many runs each driver has, in words."""
    names = sorted({each["driver"] for each in kept})
    counts = [f"{sum(each['driver'] == name for each in kept if each['outcome'] != 'not-applicable')} by `{name}`" for name in names]
    legend = " · ".join(f"{sign} {words}" for sign, words in HARMS.values())
    return (
        f"Runs so far: {', '.join(counts)}. A cell adds up those of both drivers, and says the worst that they showed, in how many of them, and "
        f"whose failure it was: ✓ held · {legend} ([docs/checking.md](../docs/checking.md#whose-failure)). The first row of each group is "
        "its reference: the built-in lock on the same servers, under the same conditions with the same seeds; groups without one say so. **Bold** is "
        "what the reference did not show, so that it is the library's, whatever a fault may have done to the servers. *The recipe*: the adapter is "
        "a lock of this project's own, and the library beneath it only sends its requests, so its mistakes are none of that library's."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("locks", nargs="*", help="adapters/NAME[@VARIANT]; all, if none is named")
    parser.add_argument("--fencepost", default="fencepost", help="the program [default: fencepost]")
    parser.add_argument("--kept", type=pathlib.Path, default=HERE / "audit.jsonl", help="what runs showed, a line each")
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results/audit"), help="the folders of the runs")
    parser.add_argument("--runs", type=int, default=1, help="runs of each lock under each condition and this driver, with those kept")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side [default: 2]")
    parser.add_argument("--driver", default="local", choices=["local", "docker"])
    parser.add_argument("--conditions", default=",".join(CONDITIONS), help="of " + ", ".join(CONDITIONS))
    parser.add_argument("--write", action="store_true", help="write the tables into adapters/README.md")
    parser.add_argument("--check", action="store_true", help="make no runs; fail if adapters/README.md has other tables")
    options = parser.parse_args()
    options.results = options.results.resolve()
    locks, conditions = options.locks or rows(), options.conditions.split(",")
    unknown = [name for name in conditions if name not in CONDITIONS]
    if unknown:
        sys.exit(f"audit.py: there is no condition {unknown[0]}; there are {', '.join(CONDITIONS)}")
    kept = [json.loads(line) for line in options.kept.read_text().splitlines()] if options.kept.exists() else []
    writing = threading.Lock()

    def run_and_keep(record):
        record = run(options, record)
        with writing:
            if record["outcome"] != "failed":
                kept.append(record)
                kept.sort(key=lambda each: [each[name] for name in ("lock", "condition", "driver", "seed")])
                options.kept.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in kept))
        return record

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        made = list(pool.map(run_and_keep, [] if options.check else missing(options, kept, locks, conditions)))
    if options.write or options.check:
        parts = [drivers(kept), table(kept, DRAWN), table(kept, PLANNED), evidence(kept)]
        readme = HERE / "README.md"
        before, rest = readme.read_text().split(BEGIN, 1)
        after = rest.split(END, 1)[1]
        text = f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"
        if options.check and text != readme.read_text():
            sys.exit("audit.py: the tables of adapters/README.md are not those of audit.jsonl; write them with --runs 0 --write")
        readme.write_text(text)
    failed = sum(each["outcome"] == "failed" for each in made)
    if failed:
        sys.exit(f"audit.py: {failed} of {len(made)} runs gave no verdict")


main()
