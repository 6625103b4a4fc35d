// A lock of any kind on one Redis server, without any library: the holders are members of a sorted set. Each member says how many
// may hold the lock beside it, and its score until when it holds it, by the server's clock.
const net = require("node:net");
const tls = require("node:tls");
const { readFileSync } = require("node:fs");
const { randomUUID } = require("node:crypto");
const { run, Grant, NotAcquired, NotHeld, Certain } = require("./fencepost");

/** Removes holders whose time is over. */
const CLEAN = `local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
for _, key in ipairs(KEYS) do redis.call('zremrangebyscore', key, '-inf', now) end
`;
/** Adds a holder to each key if none of those there, nor it, is then one too many. */
const TAKE = `${CLEAN}for _, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2])
  for _, holder in ipairs(redis.call('zrange', key, 0, -1)) do
    most = math.min(most, tonumber(string.match(holder, '%d+')))
  end
  if redis.call('zcard', key) >= most then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('zadd', key, now + ARGV[3], ARGV[1]) end
return 1`;
/** Adds what a holder acquires again, for as long as it has the lock. */
const TAKE_AGAIN = `${CLEAN}local score = redis.call('zscore', KEYS[1], ARGV[1])
return score and redis.call('zadd', KEYS[1], score, ARGV[2]) or 0`;
const GIVE_BACK = `local removed = 0
for _, key in ipairs(KEYS) do removed = removed + redis.call('zrem', key, ARGV[1]) end
return removed`;
const ANY_NUMBER = 1e9;

/** A command, as it is sent. */
const request = (words) => {
  const parts = words.map((word) => `$${Buffer.byteLength(`${word}`)}\r\n${word}\r\n`);
  return `*${words.length}\r\n${parts.join("")}`;
};

/** A connection by TLS, or without where the server speaks none. */
function connect({ host, port, tlsName }, access, timeout) {
  if (!access.tls) return net.connect({ host, port, timeout });
  const { ca, certificate, key } = access.tls;
  const [caText, cert, keyText] = [ca, certificate, key].map((file) => file && readFileSync(file));
  // An address is no name that is sent; the certificate is held against it all the same.
  const name = net.isIP(tlsName) ? {} : { servername: tlsName };
  return tls.connect({ host, port, timeout, ca: caText, cert, key: keyText, ...name });
}

/** One command on a connection of its own, after a login where there is a password; the first line of its answer. */
function redis(env, timeout, ...words) {
  const { user, password } = env.access;
  const commands = password ? [["AUTH", user, password], words] : [words];
  return new Promise((resolve, reject) => {
    const socket = connect(env.servers[0], env.access, timeout);
    let answer = "";
    socket.on(env.access.tls ? "secureConnect" : "connect", () => socket.write(commands.map(request).join("")));
    socket.on("data", (data) => {
      const lines = (answer += data).split("\r\n");
      if (lines.length > commands.length) resolve(lines[commands.length - 1]) ?? socket.destroy();
    });
    socket.on("timeout", () => socket.destroy(new Error("no answer in time")));
    socket.on("error", (error) => reject(error.code === "ECONNREFUSED" ? new Certain() : error));
    socket.on("close", () => reject(new Error("the connection broke")));
  });
}

run((env) => {
  let value;
  /** Runs a script, which gives a number: the answer is `:1`. */
  async function script(left, text, keys, ...words) {
    return Number((await redis(env, left, "EVAL", text, keys.length, ...keys, ...words)).slice(1));
  }
  /** Gives a Grant where fewer than `most` hold each of them, each of whom bears one more. Times are in milliseconds. */
  async function take(keys, most, ttl, timeout) {
    value = `${most}:${randomUUID()}`;
    if (await env.poll((left) => script(left, TAKE, keys, value, most, ttl), timeout)) return new Grant();
    throw new NotAcquired(); // each attempt was answered with no
  }
  const giveBack = async (keys) => (await script(1000, GIVE_BACK, keys, value)) === keys.length;
  return {
    /** For a writer, or the only holder. */
    acquire: (key, ttl, timeout) => take([key], 1, ttl, timeout),
    /** For a reader, of a lock with kind = "read-write". */
    acquireShared: (key, ttl, timeout) => take([key], ANY_NUMBER, ttl, timeout),
    /** For one of the permits, of a lock with kind = "semaphore". */
    acquirePermit: (key, permits, ttl, timeout) => take([key], permits, ttl, timeout),
    /** For all of these names, or none, of a lock with kind = "several". */
    acquireAll: (keys, ttl, timeout) => take(keys, 1, ttl, timeout),
    /** For the holder once more, of a lock with kind = "reentrant". */
    async reenter(key, ttl, timeout) {
      if (!(await script(timeout, TAKE_AGAIN, [key], value, `${value}+`))) return false;
      value += "+";
    },
    /** Gives back what was acquired last, of a lock that is held more than once. */
    async leave(key) {
      if (!(await giveBack([key]))) throw new NotHeld();
      value = value.slice(0, -1);
    },
    release: (key) => giveBack([key]),
    releaseAll: giveBack,
  };
});
