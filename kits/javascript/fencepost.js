"use strict";
/*
 * Fencepost's kit for JavaScript: makes a client of Fencepost from a lock. One file without dependencies, for
 * Node.js 18 or later. Copy it beside your program; README.md says how to use it.
 *
 *     const { run, NotAcquired } = require("./fencepost");
 *     run((env) => ({
 *       async acquire(key, ttl, timeout) { … return true; },   // times are in milliseconds
 *       async release(key) { … },
 *     }));
 *
 * A read-write lock also has `acquireShared(key, ttl, timeout)`, for readers; a semaphore has
 * `acquirePermit(key, permits, ttl, timeout)` in place of `acquire`; a reentrant lock has `reenter(key, ttl, timeout)` and
 * `leave(key)`; a lock on several names has `acquireAll(keys, ttl, timeout)` and `releaseAll(keys)`; a lock whose user can
 * prolong it has `prolong(key, ttl, timeout)`; an election that can say who leads has `leader(key, timeout)`.
 */
const fs = require("node:fs");
const net = require("node:net");

const VERSION = 1;
const TIMEOUT_DEFAULT_MS = 1000;
/** The least time that an attempt gets: one that is cut off is indeterminate. */
const ATTEMPT_MS = 300;
const DIAL_TIMEOUT_MS = 1000;
const DIAL_PAUSE_MS = 50;
/** The point between a careful process's look at its clock and its write. */
const CHECKED = "between-check-and-write";

const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What `acquire` may return instead of `true`, when there is more to say. */
class Grant {
  /**
   * @param {number} [token] fencing token, greater with each grant
   * @param {string} [unique] value that no other grant has
   * @param {number} [validity] for how many milliseconds from now the lock is valid, as the library says
   * @param {string[]} [granted_by] names of the servers that granted it
   */
  constructor(grant = {}) {
    Object.assign(this, grant);
  }
}

/** Thrown by `acquire`: every request was answered, and another holds the lock. */
class NotAcquired extends Error {
  constructor(message = "another holds the lock") {
    super(message);
  }
}

/** Thrown by `release`: there was nothing to release. */
class NotHeld extends Error {
  constructor(message = "the lock was no longer this process's") {
    super(message);
  }
}

/** Thrown by `acquire` or `release`: it certainly did not happen. The text begins with a code of the protocol. */
class Certain extends Error {
  constructor(message = "unreachable: nothing was sent") {
    super(message);
  }
}

/** Ends a call that its caller has given up. */
class Cancelled extends Error {
  constructor() {
    super("the caller gave it up");
  }
}

/** All names that an acquire or a release is of, each once (rule 27). */
const namesOf = ({ key, value }) => [...new Set([key, ...(value?.also ?? [])])];

/** What a lock may know and report. Each process has its own. */
class Env {
  #process;

  constructor(hello, process) {
    this.#process = process;
    this.client = hello.client;
    this.process = process.number;
    this.lock = hello.lock;
    /** The servers of the lock: `{name, address, host, port, tlsName}`. */
    this.servers = (hello.servers ?? []).map(({ name, address, tls_name }) => {
      const place = hostAndPort(address);
      return { name, address, ...place, tlsName: tls_name ?? place.host };
    });
    /**
     * What the servers ask of a client: `{user, password, tls}`; `tls` has the paths of files in PEM, `{ca, certificate, key}`.
     * What they do not ask for is undefined.
     */
    this.access = hello.access ?? {};
    /** The options of lock.toml and the command line; all values are texts. */
    this.options = hello.options ?? {};
    /** The TTL of the run in milliseconds. */
    this.ttl = hello.ttl_ms;
    this.lease = hello.lease ?? "ttl";
    this.seed = hello.seed ?? 0;
    /** Like `Math.random`, drawn from the seed and the number of the process. */
    /** The AbortSignal of the call that runs: it is aborted where the caller gives the call up (`cancel`). */
    this.signal = null;
    this.random = randomOf(this.seed ^ Math.imul(process.number + 1, 0x9e3779b1));
  }

  /**
   * Repeats `attempt(left)`, which must not block, until it gives a grant or `timeout` milliseconds are over, and returns
   * the grant, or null. The TTL counts from the begin of the attempt that was granted; `left` is
   * the time that remains, and at least 300 ms.
   */
  async poll(attempt, timeout) {
    const begun = now();
    do {
      this.#process.attemptBegins();
      const granted = await attempt(Math.max(ATTEMPT_MS, begun + timeout - now()));
      if (granted) return granted;
      await sleep(1 + 9 * this.random());
      // None begins in the last twentieth of the time.
    } while (now() < begun + 0.95 * timeout);
    return null;
  }

  /** Reports that, as the library says, the lock is lost. */
  lost(key, reason) {
    this.#process.lost(key, String(reason));
  }

  /** Reports that the library prolonged the lease by a request that was sent `age` milliseconds ago. */
  renewed(key, age = 0) {
    this.#process.renewed(key, Math.max(0, age));
  }
}

function hostAndPort(address) {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}

/** mulberry32: small, and the same on every machine. */
function randomOf(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ok = (value) => ({ type: "ok", value });
const fail = (error, value) => ({ type: "fail", value, error });
const info = (error, value) => ({ type: "info", value, error });

/** How an operation ended that threw: indeterminate, unless the lock says that it is certain. */
function failed(error, value) {
  if (error instanceof NotAcquired) return fail(`taken: ${error.message}`, value);
  if (error instanceof NotHeld) return fail(`not-held: ${error.message}`, { ...value, removed: false });
  if (error instanceof Certain) return fail(error.message, value);
  return info(`raised: ${error?.name ?? "Error"}: ${error?.message ?? error}`, value);
}

/** One process: an independent user of the lock. Its operations come one after the other. */
class Process {
  #client;
  #storage;
  #lock = null;
  #turn = Promise.resolve();
  over = false;
  /** By key: the grant, until when it is valid, whether it is lost. */
  #held = new Map();
  /** The acquire that is under way: its names, when its latest attempt began, and what was reported meanwhile. */
  #acquiring = null;
  /** The call that runs: its operation's id, how its caller gives it up, and what rejects then. */
  #call = null;
  #env = null;

  constructor(client, number) {
    this.#client = client;
    this.#storage = new Storage(client, number);
    this.number = number;
  }

  enqueue(operation) {
    this.#turn = this.#turn.then(() => this.#serve(operation));
  }

  /** Ends the process as if it had crashed: no belief, no notices, and after the operation that is under way no connections. */
  end() {
    if (this.over) return;
    this.over = true;
    this.#turn = this.#turn.then(() => this.#close());
  }

  async #close() {
    this.#storage.close();
    try {
      await this.#lock?.close?.();
    } catch (error) {
      console.error(`closing the lock of process ${this.number}:`, error);
    }
  }

  /** The caller gives up the call that runs (rule 28): its signal is aborted, and its promise is abandoned. */
  cancel(id) {
    if (this.#call?.id === id) this.#call.controller.abort();
  }

  /** The program goes on under another number, with the lock that it has. */
  goOn(next) {
    this.number = next;
    this.#storage.goOn(next);
  }

  /** What the user's function gives, or the error of a call that was given up. */
  #called(f, ...given) {
    const { controller } = this.#call;
    this.#env.signal = controller.signal;
    const abandoned = new Promise((_, reject) => {
      controller.signal.addEventListener("abort", () => setTimeout(() => reject(new Cancelled()), 0));
    });
    const called = Promise.resolve(this.#lock[f](...given));
    called.catch(() => {}); // it may end later
    return Promise.race([called, abandoned]);
  }

  attemptBegins() {
    if (this.#acquiring) this.#acquiring.begun = now();
  }

  lost(key, reason) {
    const held = this.#held.get(key);
    if (this.#acquiring?.names.includes(key)) this.#acquiring.lost.set(key, reason);
    else if (held && !held.lost) {
      held.lost = true;
      this.#notice({ event: "lost", process: this.number, key, reason });
    }
  }

  renewed(key, age) {
    const held = this.#held.get(key);
    if (this.#acquiring?.names.includes(key)) this.#acquiring.renewed = now() - age;
    else if (held && !held.lost) {
      if (held.validUntil !== null) held.validUntil = now() - age + held.ttl;
      this.#notice({ event: "renewed", process: this.number, key, age_ms: Math.ceil(age) });
    }
  }

  #notice(notice) {
    if (!this.over) this.#client.send(notice);
  }

  async #serve(operation) {
    this.#call = { id: operation.id, controller: new AbortController() };
    const answer = this.over
      ? fail("process-over: an operation before it was indeterminate")
      : await this.#perform(operation).catch((error) => failed(error));
    const isCancelled = answer.type === "info" && this.#call.controller.signal.aborted;
    this.#call = null;
    if (isCancelled) answer.error = answer.error.replace(/^(raised: )?/, "cancelled: ");
    else if (answer.type === "info") this.end();
    this.#client.send({ id: operation.id, ...answer });
    const { lost = new Map() } = this.#acquiring ?? {};
    this.#acquiring = null;
    lost.forEach((reason, key) => this.lost(key, reason));
  }

  async #perform(operation) {
    const { f, key, value } = operation;
    const asked = now();
    const timeout = operation.timeout_ms ?? TIMEOUT_DEFAULT_MS;
    try {
      this.#lock ??= await this.#client.make((this.#env = new Env(this.#client.hello, this)));
    } catch (error) {
      // Nothing of the operation was begun.
      return f === "holds" ? ok(false) : fail(`unreachable: the lock could not be made: ${error?.message ?? error}`);
    }
    switch (f) {
      case "acquire":
        return this.#acquire(operation, timeout, asked);
      case "release":
        return this.#release(operation);
      case "leave":
        return this.#leave(key);
      case "prolong":
      case "reenter":
        return this.#prolong(operation, timeout);
      case "leader":
        return this.#leader(key, timeout);
      case "holds":
        return ok(await this.#believes(key));
      case "read":
        return this.#storage.read(key, this.#held.get(key), timeout);
      case "write":
        return (await this.#hesitates(key)) ?? this.#storage.write(key, value, this.#held.get(key), timeout);
      default:
        return fail(`bad-command: this client does not know ${f}`);
    }
  }

  async #acquire(operation, timeout, asked) {
    const { key, value, ttl_ms: ttl } = operation;
    if (!(ttl > 0)) return fail("bad-command: an acquire needs a ttl_ms greater than 0");
    const { mode = "exclusive", capacity, also } = value ?? {};
    if (mode !== "shared" && mode !== "exclusive") return fail(`bad-command: unknown mode ${mode}: expected shared or exclusive`);
    if (capacity !== undefined && !(Number.isInteger(capacity) && capacity > 0)) {
      return fail("bad-command: a semaphore needs a capacity greater than 0");
    }
    const isSet = (also ?? null) !== null;
    if (isSet && !(Array.isArray(also) && also.every((name) => typeof name === "string"))) {
      return fail("bad-command: the names of a set are a list of texts");
    }
    const names = namesOf(operation);
    const [f, ...wish] = isSet ? ["acquireAll", names]
      : capacity !== undefined ? ["acquirePermit", key, capacity]
      : [mode === "shared" ? "acquireShared" : "acquire", key];
    if (!this.#lock[f]) return fail(`bad-command: this lock has no ${f}`);
    this.#acquiring = { names, asked, begun: now(), lost: new Map() };
    let grant;
    try {
      grant = await this.#called(f, ...wish, ttl, timeout);
    } catch (error) {
      return failed(error);
    }
    if (!grant) return fail(`refused-by-library: ${f} returned ${grant}`);
    const answer = this.#granted(names, grant, ttl);
    // Granted so late, it is given back, as by a program that no longer needs it.
    if (this.over) await this.#release(operation);
    return ok(answer);
  }

  /** Begins the belief in a grant. Returns the value of the answer. */
  #granted(names, { token, unique, validity, granted_by }, ttl) {
    const { asked, begun, renewed } = this.#acquiring;
    const value = { token, granted_by };
    let validUntil = null;
    if (this.#client.expires) {
      validUntil = validity === undefined ? begun + ttl : now() + validity;
      value.validity_ms = Math.floor(validity ?? Math.max(0, validUntil - now()));
      const waited = Math.floor(now() - asked);
      if (waited > 0) value.waited_ms = waited;
      if (renewed !== undefined) validUntil = renewed + ttl;
    }
    for (const name of names) this.#held.set(name, { token, unique, ttl, validUntil, lost: false, marked: false });
    return value;
  }

  async #release(operation) {
    const names = namesOf(operation);
    const believed = [];
    for (const name of names) believed.push(await this.#believes(name));
    const value = { believed: believed.every(Boolean) };
    // Whatever becomes of it: a process that began to release no longer works under the lock.
    const held = names.map((name) => [name, this.#held.get(name)]);
    const wasGranted = names.map((name) => this.#held.delete(name)).every(Boolean);
    if (!wasGranted) return fail("not-held: this process has not acquired it", value);
    const isSet = (operation.value?.also ?? null) !== null;
    try {
      const removed = isSet ? await this.#called("releaseAll", names) : await this.#called("release", operation.key);
      if (removed === false) throw new NotHeld("the release removed nothing");
      return ok(removed === true ? { ...value, removed } : value);
    } catch (error) {
      // The program may release it once more.
      if (this.#call?.controller.signal.aborted) for (const [name, grant] of held) this.#held.set(name, grant);
      return failed(error, value);
    }
  }

  /** Releases once what the process acquired more than once (rule 26). */
  async #leave(key) {
    const value = { believed: await this.#believes(key) };
    if (!this.#lock.leave) return fail("bad-command: this lock has no leave", value);
    const held = this.#held.get(key);
    if (!held) return fail("not-held: this process has not acquired it", value);
    try {
      const removed = await this.#lock.leave(key);
      return ok(typeof removed === "boolean" ? { ...value, removed } : value);
    } catch (error) {
      if (error instanceof NotHeld) held.lost = true;
      return failed(error, value);
    }
  }

  /** Prolongs what the process holds, or acquires it once more (rules 25 and 26). */
  async #prolong({ f, key, ttl_ms: ttl }, timeout) {
    if (!(ttl > 0)) return fail(`bad-command: a ${f} needs a ttl_ms greater than 0`);
    if (!this.#lock[f]) return fail(`bad-command: this lock has no ${f}`);
    const held = this.#held.get(key);
    if (!held) return fail("not-held: this process has not acquired it");
    const begun = now();
    let granted;
    try {
      granted = await this.#called(f, key, ttl, timeout);
      if (granted === false) throw new NotHeld(`${f} returned false`);
    } catch (error) {
      if (!(error instanceof NotHeld)) return failed(error);
      held.lost = true;
      return fail(`not-held: ${error.message}`);
    }
    const validity = f === "reenter" ? granted?.validity : begun + ttl - now();
    if (held.validUntil === null || validity === undefined) return ok();
    Object.assign(held, { ttl, validUntil: now() + validity });
    return ok(f === "reenter" ? { validity_ms: Math.floor(validity) } : undefined);
  }

  /** Asks who leads (rule 29). That changes nothing, so no answer is an `info`. */
  async #leader(key, timeout) {
    if (!this.#lock.leader) return fail("bad-command: this lock has no leader");
    try {
      const named = (await this.#called("leader", key, timeout)) ?? null;
      const number = typeof named === "string" && /^\d+$/.test(named) ? Number(named) : named;
      if (number !== null && !(Number.isSafeInteger(number) && number >= 0)) {
        throw new TypeError(`leader returned ${named}: expected the number of a process, or null`);
      }
      return ok(number);
    } catch (error) {
      return fail(failed(error).error);
    }
  }

  /** A careless process believes until it releases or loses its lock; a careful one also looks at its clock, and asks the lock. */
  async #believes(key) {
    const held = this.#held.get(key);
    if (!held || held.lost || this.over) return false;
    if (!this.#client.careful) return true;
    if (held.validUntil !== null && now() >= held.validUntil) return false;
    try {
      return this.#lock.holds ? Boolean(await this.#lock.holds(key)) : true;
    } catch (error) {
      console.error(`holds of process ${this.number}:`, error);
      return true;
    }
  }

  /** Before a write: the answer of a careful process that does not believe, or null. */
  async #hesitates(key) {
    if (!this.#client.careful) return null;
    if (!(await this.#believes(key))) return fail("gave-up: the lock is no longer valid by this client's own clock");
    const pause = pauseAt(this.#client.hello, CHECKED);
    if (pause !== null) {
      this.#notice({ event: "at", process: this.number, key, point: CHECKED });
      await sleep(pause);
    }
    return null;
  }
}

/** The time, in milliseconds, for which to pause at a point, or null: the hello has it as `POINT=300ms`. */
function pauseAt(hello, point) {
  const found = (hello.pause_at ?? []).find((text) => text.startsWith(`${point}=`));
  const [, number, unit] = found?.match(/=([\d.]+)(ms|s)$/) ?? [];
  return number === undefined ? null : Number(number) * (unit === "s" ? 1000 : 1);
}

/** One process's way to the storage, or to its replicas, of which a majority decides. */
class Storage {
  #client;
  #process;
  #replicas;

  constructor(client, process) {
    const { storage, storage_replicas: replicas = [] } = client.hello;
    this.#client = client;
    this.#process = process;
    this.#replicas = (replicas.length > 1 ? replicas : [storage].filter(Boolean)).map((address) => new Replica(address));
  }

  goOn(process) {
    this.#process = process;
  }

  close() {
    for (const replica of this.#replicas) replica.close();
  }

  async read(key, held, timeout) {
    // A process without credentials cannot mark, and only looks.
    const marks = held?.token !== undefined || held?.unique !== undefined;
    const refused = marks ? await this.#mark(key, held, timeout) : null;
    if (refused) return refused;
    const poll = await this.#poll({ f: "read", key }, held, timeout);
    // A read changes nothing, so a missing answer is a fail.
    if (!poll.majority) return fail(poll.error);
    return ok(poll.agreed.reduce((newest, next) => (isNewer(next.version, newest.version) ? next : newest)).ok);
  }

  async write(key, value, held, timeout) {
    if (!(Number.isInteger(value) || Array.isArray(value))) {
      return fail("bad-command: a write needs a value, a whole number or a list");
    }
    const refused = await this.#mark(key, held, timeout);
    if (refused) return refused;
    const replicated = this.#replicas.length > 1;
    const number = replicated ? ++this.#client.writes : undefined;
    const poll = await this.#poll({ f: "write", key, value, number }, held, timeout);
    if (poll.majority) return ok(poll.agreed[0].ok);
    if (poll.agreed.length + poll.unanswered.length === 0) return fail(poll.error);
    return info(replicated ? `no-majority: ${poll.error}` : poll.error);
  }

  async #mark(key, held, timeout) {
    if (!this.#client.hello.marks_first || held?.marked) return null;
    const poll = await this.#poll({ f: "mark", key }, held, timeout);
    if (!poll.majority) return fail(poll.error);
    if (held) held.marked = true;
    return null;
  }

  /** Asks all replicas at the same time, until a majority has agreed or all have answered. */
  #poll(request, held, timeout) {
    const poll = { majority: false, agreed: [], rejected: [], unanswered: [], unsent: [] };
    if (this.#replicas.length === 0) return { ...poll, error: "no-storage: the hello named none" };
    const body = { ...request, process: this.#process, token: held?.token, unique: held?.unique };
    let open = this.#replicas.length;
    return new Promise((resolve) => {
      const note = (list, entry) => {
        list.push(entry);
        open -= 1;
        poll.majority = poll.agreed.length > this.#replicas.length / 2;
        poll.error = [...poll.rejected, ...poll.unanswered, ...poll.unsent][0] ?? "no-majority: too few replicas agreed";
        if (poll.majority || open === 0) resolve(poll);
      };
      for (const replica of this.#replicas) {
        replica.request(body, timeout).then(
          (answer) => (answer.fail === undefined ? note(poll.agreed, answer) : note(poll.rejected, answer.fail)),
          (error) => note(error.sent ? poll.unanswered : poll.unsent, error.message),
        );
      }
    });
  }
}

function isNewer([token, number] = [-1, -1], [otherToken, otherNumber] = [-1, -1]) {
  return token > otherToken || (token === otherToken && number > otherNumber);
}

/** A request to the storage that has no answer: whether it was sent decides between fail and info. */
class Unanswered extends Error {
  constructor(message, sent) {
    super(message);
    this.sent = sent;
  }
}

/** A storage server, with a connection of one process. */
class Replica {
  #address;
  #opening = null;
  #closed = false;

  constructor(address) {
    this.#address = address;
  }

  close() {
    this.#closed = true;
    this.#opening?.then((connection) => connection.close(), () => {});
  }

  async request(body, timeout) {
    const deadline = now() + timeout;
    const connection = await this.#connected(deadline);
    return connection.ask(body, deadline - now());
  }

  async #connected(deadline) {
    const late = new Unanswered("unreachable: no connection to the storage", false);
    await new Promise(setImmediate); // the end of an old connection is noticed now
    while (now() < deadline && !this.#closed) {
      const opening = (this.#opening ??= dial(this.#address));
      const connection = await within(opening, deadline - now(), late).catch(() => null);
      if (connection?.isOpen()) return connection;
      if (now() < deadline) this.#opening = null;
      if (connection === null) await sleep(DIAL_PAUSE_MS);
    }
    throw late;
  }
}

/** Opens a connection on which the server has answered: the kernel of a stopped one accepts connections, too. */
async function dial(address) {
  const socket = net.connect({ ...hostAndPort(address), noDelay: true });
  const pending = new Map();
  let last = 0;
  const connection = {
    isOpen: () => !socket.destroyed,
    close: () => socket.destroy(),
    ask(body, timeout) {
      const id = ++last;
      const answer = new Promise((resolve, reject) => pending.set(id, { resolve, reject }));
      socket.write(JSON.stringify({ id, ...body }) + "\n");
      const late = new Unanswered("timeout: the storage did not answer in time", true);
      return within(answer, timeout, late).finally(() => pending.delete(id)).catch((error) => {
        socket.destroy();
        throw error;
      });
    },
  };
  socket.on("error", () => {}); // "close" follows
  socket.on("close", () => {
    const broken = new Unanswered("disconnected: the connection to the storage broke before it answered", true);
    for (const { reject } of pending.values()) reject(broken);
  });
  eachLine(socket, (line) => {
    const answer = JSON.parse(line);
    pending.get(answer.id)?.resolve(answer);
  });
  await connection.ask({ f: "ping", key: "" }, DIAL_TIMEOUT_MS);
  return connection;
}

/** The promise's outcome, or the error if that takes longer. */
function within(promise, ms, error) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(error), Math.max(0, ms))));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function eachLine(stream, onLine) {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    lines.filter((line) => line.trim() !== "").forEach(onLine);
  });
}

/** Ends the client with one sentence on standard error. */
function refuse(sentence) {
  fs.writeSync(2, sentence + "\n");
  process.exit(254);
}

function parse(line) {
  try {
    return JSON.parse(line);
  } catch {
    return refuse(`the controller sent a line that is no command: ${line.slice(0, 80)}`);
  }
}

/**
 * Serves the controller on standard input and output until the input ends.
 *
 * @param {function(Env): object} make gives the lock of one process: an object with `acquire(key, ttl, timeout)`,
 *   `release(key)` and, where they make sense, `holds(key)` and `close()`; each may be async, and so may `make`
 * @param {string[] | function(object): string[]} can what the lock can do: `lost`, `extend`, `prolong`, `leader`, …;
 *   where that depends on the options of the lock, a function of them
 */
function run(make, can = []) {
  const write = process.stdout.write.bind(process.stdout);
  // Standard output belongs to the protocol. What a library prints goes to standard error.
  process.stdout.write = process.stderr.write.bind(process.stderr);
  process.stdout.on("error", () => process.exit(0)); // the controller is gone
  const client = { make, hello: null, writes: 0, send: (line) => write(JSON.stringify(line) + "\n") };
  const processes = new Map();

  const greet = (hello) => {
    if (hello?.hello !== VERSION) refuse(`this kit speaks version ${VERSION} of the client protocol, and got ${JSON.stringify(hello)}`);
    const expires = (hello.lease ?? "ttl") === "ttl";
    Object.assign(client, { hello, expires, careful: hello.careful === true });
    const own = typeof can === "function" ? can(hello.options ?? {}) : can;
    const all = new Set([...(hello.claims ?? []), ...(expires ? ["validity"] : []), ...own]);
    client.send({ hello: VERSION, can: [...all], pid: process.pid });
  };
  const obey = (command) => {
    if (command.event === "over") {
      processes.get(command.process)?.end();
      processes.delete(command.process);
    } else if (command.event === "cancel") {
      processes.get(command.process)?.cancel(command.id);
    } else if (command.event === "goes-on" && processes.has(command.process)) {
      processes.get(command.process).goOn(command.next);
      processes.set(command.next, processes.get(command.process));
      processes.delete(command.process);
    }
    if (command.f === undefined) return; // an event, or a line of a later version
    let process = processes.get(command.process);
    if (!process || process.over) processes.set(command.process, (process = new Process(client, command.process)));
    process.enqueue(command);
  };
  eachLine(process.stdin, (line) => (client.hello === null ? greet : obey)(parse(line)));
  process.stdin.on("end", () => (client.hello === null ? refuse("the input ended before the hello") : process.exit(0)));
}

module.exports = { run, Grant, NotAcquired, NotHeld, Certain };
