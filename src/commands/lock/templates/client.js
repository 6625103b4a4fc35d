// A lock of my own. Write acquire and release: everything else is done by the kit, fencepost.js.
const { run, Certain } = require("./fencepost");

// Once for each process. env.servers has the servers (name, host, port), env.options the options; times are in milliseconds.
run((env) => ({
  /** Gives true if the library granted the lock, false if it said no; throws where that is unknown. */
  async acquire(key, ttl, timeout) {
    throw new Certain("unreachable: acquire in client.js is not written yet");
  },

%read-write
  /** The same for a reader. */
  async acquireShared(key, ttl, timeout) {
    throw new Certain("unreachable: acquireShared in client.js is not written yet");
  },

%semaphore
  /** The same for one of the permits; acquire is not called. */
  async acquirePermit(key, permits, ttl, timeout) {
    throw new Certain("unreachable: acquirePermit in client.js is not written yet");
  },

%reentrant
  /** Acquires it once more for its holder. Gives false where it was no longer held. */
  async reenter(key, ttl, timeout) {
    throw new Certain("unreachable: reenter in client.js is not written yet");
  },

  /** Releases once what was acquired more than once. */
  async leave(key) {
    throw new Certain("unreachable: leave in client.js is not written yet");
  },

%several
  /** The same for all of these names, or none of them. */
  async acquireAll(keys, ttl, timeout) {
    throw new Certain("unreachable: acquireAll in client.js is not written yet");
  },

  /** Gives all of them back, as release does. */
  async releaseAll(keys) {
    throw new Certain("unreachable: releaseAll in client.js is not written yet");
  },

%
  /** Gives true or false where the library says whether it removed a lock. */
  async release(key) {
    throw new Certain("unreachable: release in client.js is not written yet");
  },

  /** Ends connections and renewals: the process is over. */
  async close() {},
}));
