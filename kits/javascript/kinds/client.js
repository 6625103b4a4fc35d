// A read-write lock and a semaphore on one Redis server, without any library: the holders are members of a sorted set. Each member
// says how many may hold the lock beside it, and its score until when it holds it, by the server's clock.
const net = require("node:net");
const tls = require("node:tls");
const { readFileSync } = require("node:fs");
const { randomUUID } = require("node:crypto");
const { run, Grant, NotAcquired, Certain } = require("./fencepost");

/** Removes holders whose time is over, and adds one if none of them, nor it, is then one too many. */
const TAKE = `local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local most = tonumber(ARGV[2])
for _, holder in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  most = math.min(most, tonumber(string.match(holder, '%d+')))
end
if redis.call('zcard', KEYS[1]) >= most then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
return 1`;
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
  /** Gives a Grant where fewer than `most` hold it, each of whom bears one more. Times are in milliseconds. */
  async function take(key, most, ttl, timeout) {
    value = `${most}:${randomUUID()}`;
    const attempt = async (left) => (await redis(env, left, "EVAL", TAKE, 1, key, value, most, ttl)) === ":1";
    if (await env.poll(attempt, timeout)) return new Grant();
    throw new NotAcquired(); // each attempt was answered with no
  }
  return {
    /** For a writer. */
    acquire: (key, ttl, timeout) => take(key, 1, ttl, timeout),
    /** For a reader, of a lock with kind = "read-write". */
    acquireShared: (key, ttl, timeout) => take(key, ANY_NUMBER, ttl, timeout),
    /** For one of the permits, of a lock with kind = "semaphore". */
    acquirePermit: (key, permits, ttl, timeout) => take(key, permits, ttl, timeout),
    async release(key) {
      return (await redis(env, 1000, "ZREM", key, value)) === ":1";
    },
  };
});
