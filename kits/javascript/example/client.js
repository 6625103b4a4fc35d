// A lock on one Redis server, without any library: SET NX PX to acquire, a script that compares to release.
const net = require("node:net");
const { randomUUID } = require("node:crypto");
const { run, Grant, NotAcquired, Certain } = require("./fencepost");

const DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/** One command on a connection of its own; the first line of the answer. */
function redis({ host, port }, timeout, ...words) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port, timeout });
    const request = words.map((word) => `$${Buffer.byteLength(`${word}`)}\r\n${word}\r\n`);
    socket.on("connect", () => socket.write(`*${words.length}\r\n${request.join("")}`));
    socket.on("data", (data) => resolve(data.toString().split("\r\n")[0]) ?? socket.destroy());
    socket.on("timeout", () => socket.destroy(new Error("no answer in time")));
    socket.on("error", (error) => reject(error.code === "ECONNREFUSED" ? new Certain() : error));
    socket.on("close", () => reject(new Error("the connection broke")));
  });
}

run((env) => {
  const [server] = env.servers;
  let value;
  return {
    async acquire(key, ttl, timeout) {
      value = randomUUID();
      const attempt = async (left) => (await redis(server, left, "SET", key, value, "NX", "PX", ttl)) === "+OK";
      if (await env.poll(attempt, timeout)) return new Grant({ unique: value });
      throw new NotAcquired(); // each SET was answered with no
    },
    async release(key) {
      return (await redis(server, 1000, "EVAL", DELETE, 1, key, value)) === ":1";
    },
  };
});
