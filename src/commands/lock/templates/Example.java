import java.time.Duration;

/** A lock of my own. Write acquire and release: everything else is done by the kit, Fencepost.java. */
final class Example implements Fencepost.Lock {
    private final Fencepost.Env env;

    /** Connects: one object for each process. env.servers has the servers (name, host, port), env.options the options. */
    private Example(Fencepost.Env env) {
        this.env = env;
    }

    /** Gives a grant, or null if the library said no; an exception where that is unknown. */
    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) {
        throw new Fencepost.Certain("unreachable: acquire in Example.java is not written yet");
    }

%read-write
    /** The same for a reader. */
    @Override
    public Fencepost.Grant acquireShared(String key, Duration ttl, Duration timeout) {
        throw new Fencepost.Certain("unreachable: acquireShared in Example.java is not written yet");
    }

%semaphore
    /** The same for one of the permits; acquire is not called. */
    @Override
    public Fencepost.Grant acquirePermit(String key, long permits, Duration ttl, Duration timeout) {
        throw new Fencepost.Certain("unreachable: acquirePermit in Example.java is not written yet");
    }

%reentrant
    /** Acquires it once more for its holder. Gives a grant, or null where it was no longer held. */
    @Override
    public Fencepost.Grant reenter(String key, Duration ttl, Duration timeout) {
        throw new Fencepost.Certain("unreachable: reenter in Example.java is not written yet");
    }

    /** Releases once what was acquired more than once. */
    @Override
    public Boolean leave(String key) {
        throw new Fencepost.Certain("unreachable: leave in Example.java is not written yet");
    }

%several
    /** The same for all of these names, or none of them. */
    @Override
    public Fencepost.Grant acquireAll(java.util.List<String> keys, Duration ttl, Duration timeout) {
        throw new Fencepost.Certain("unreachable: acquireAll in Example.java is not written yet");
    }

    /** Gives all of them back, as release does. */
    @Override
    public Boolean releaseAll(java.util.List<String> keys) {
        throw new Fencepost.Certain("unreachable: releaseAll in Example.java is not written yet");
    }

%
    /** Gives true or false where the library says whether it removed a lock, else null. */
    @Override
    public Boolean release(String key) {
        throw new Fencepost.Certain("unreachable: release in Example.java is not written yet");
    }

    /** Ends connections and renewals: the process is over. */
    @Override
    public void close() {}

    public static void main(String[] args) {
        Fencepost.run(Example::new);
    }
}
