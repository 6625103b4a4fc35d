// A lock on one Redis server, without any library: SET NX PX to acquire, a script that compares to release.
const net = require("node:net");
const tls = require("node:tls");
const { readFileSync } = require("node:fs");
const { randomUUID } = require("node:crypto");
const { run, Grant, NotAcquired, Certain } = require("./fencepost");

const DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

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
  return {
    async acquire(key, ttl, timeout) {
      value = randomUUID();
      const attempt = async (left) => (await redis(env, left, "SET", key, value, "NX", "PX", ttl)) === "+OK";
      if (await env.poll(attempt, timeout)) return new Grant({ unique: value });
      throw new NotAcquired(); // each SET was answered with no
    },
    async release(key) {
      return (await redis(env, 1000, "EVAL", DELETE, 1, key, value)) === ":1";
    },
  };
});
