// A lock on one Redis by node-redis: SET NX PX with a value of its own each time, and a script that compares before it deletes.
const { randomUUID } = require("node:crypto");
const { createClient, ClientClosedError, ClientOfflineError } = require("redis");
const { run, Grant, NotAcquired, Certain } = require("./fencepost");

const DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/** The command's answer. node-redis itself waits for ever; a command that it refuses while it is offline was not sent. */
async function answered(command, timeout) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(reject, timeout, new Error("no answer in time"))));
  try {
    return await Promise.race([command, late]);
  } catch (error) {
    const unsent = error instanceof ClientOfflineError || error instanceof ClientClosedError;
    throw unsent ? new Certain(`unreachable: ${error.message}`) : error;
  } finally {
    clearTimeout(timer);
  }
}

run((env) => {
  const client = createClient({ url: `redis://${env.servers[0].address}`, disableOfflineQueue: true });
  client.on("error", (error) => console.error(`process ${env.process}: ${error.message}`));
  const connecting = client.connect(); // keeps trying
  connecting.catch(() => {}); // closed before it was connected
  let value;
  return {
    async acquire(key, ttl, timeout) {
      value = randomUUID();
      await Promise.race([connecting, new Promise((resolve) => setTimeout(resolve, timeout / 2))]);
      const set = async (left) => (await answered(client.set(key, value, { NX: true, PX: ttl }), left)) === "OK";
      if (await env.poll(set, timeout)) return new Grant({ unique: value });
      throw new NotAcquired(); // each SET was answered with no
    },
    release: async (key) => (await answered(client.eval(DELETE, { keys: [key], arguments: [value] }), 1000)) === 1,
    close: () => client.disconnect(),
  };
});
