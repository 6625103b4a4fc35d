// The fake lock of kits/tests/fake-lock.md.
const { run, Grant, NotAcquired, NotHeld, Certain } = require("../fencepost");

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function make(env) {
  if (env.options.broken) throw new Error("broken");
  let token = 32;
  const grant = () => new Grant({ token: (token += 1), unique: `u-${env.process}` });
  const acquires = {
    taken: () => { throw new NotAcquired("by another"); },
    nothing: () => null,
    unsure: () => { throw new Error("no answer"); },
    certain: () => { throw new Certain("unreachable: refused"); },
    slow: () => sleep(500).then(grant),
    polled: (timeout) => {
      let attempts = 0;
      return env.poll(() => sleep(100).then(() => (attempts += 1) === 3 && grant()), timeout);
    },
    never: (timeout) => env.poll(() => false, timeout),
    short: () => new Grant({ validity: 150 }),
    "short-still": () => new Grant({ validity: 150 }),
    long: () => new Grant({ validity: 60000 }),
    print: () => (console.log("printed by the library"), true),
    access: () => {
      const { user, password, tls } = env.access;
      const parts = [user, password, tls?.ca, tls?.certificate, tls?.key, env.servers[0].tlsName];
      return new Grant({ token: 1, unique: parts.map((part) => part ?? "-").join(" ") });
    },
    lost: () => (env.lost("lost", "session expired"), true),
    "lost-taken": () => {
      env.lost("lost-taken", "session expired");
      throw new NotAcquired("by another");
    },
  };
  const releases = {
    slow: () => console.error("released slow"),
    gone: () => false,
    removed: () => true,
    "not-held": () => { throw new NotHeld("of another"); },
    "certain-release": () => { throw new Certain("unreachable: refused"); },
    "unsure-release": () => { throw new Error("no answer"); },
  };
  const prolongs = {
    "unsure-prolong": () => { throw new Error("no answer"); },
    "not-held": () => { throw new NotHeld("of another"); },
    "certain-prolong": () => { throw new Certain("unreachable: refused"); },
    lose: () => env.lost("lose", "session expired"),
    gone: () => false,
    removed: () => true,
  };
  const reenters = {
    "shut-out": () => { throw new NotAcquired("by another"); },
    short: () => new Grant({ validity: 60000 }),
  };
  const leaders = {
    "unsure-leader": () => { throw new Error("no answer"); },
    "certain-leader": () => { throw new Certain("unreachable: refused"); },
    vacant: () => undefined,
    first: () => 0,
    digits: () => "12",
    stranger: () => "someone",
  };
  const ofKinds = {
    leader: async (key) => (leaders[key] ?? (() => env.process))(),
    prolong: async (key) => prolongs[key]?.(),
    acquireShared: async () => new Grant({ unique: "shared" }),
    acquirePermit: async (key, permits) => new Grant({ unique: `one of ${permits}` }),
    reenter: async (key) => (reenters[key] ?? prolongs[key])?.(),
    leave: async (key) => releases[key]?.(),
    acquireAll: async (keys, ttl, timeout) => {
      const granted = await (acquires[keys.at(-1)] ?? grant)(timeout);
      return granted && new Grant({ ...granted, unique: `all of ${keys.join(" ")}` });
    },
    releaseAll: async (keys) => releases[keys.at(-1)]?.(),
  };
  return {
    ...(env.options.kinds ? ofKinds : {}),
    async acquire(key, ttl, timeout) {
      const [verb, other] = key.split(":");
      if (verb === "lose") return void env.lost(other, "session expired");
      if (verb === "renew") return void env.renewed(other, 5);
      return (acquires[key] ?? grant)(timeout);
    },
    async release(key) {
      return releases[key]?.();
    },
    holds(key) {
      if (key === "confused") throw new Error("confused");
      return key === "doubted" ? undefined : true;
    },
    close() {
      console.error(`closed ${env.process}`);
    },
  };
}

run(make, () => []);
