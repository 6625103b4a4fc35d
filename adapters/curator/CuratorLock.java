import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's InterProcessMutex; with `read-write` its InterProcessReadWriteLock, as a semaphore its InterProcessSemaphoreV2. Each process has a session of its own, and reports its locks as lost when the connection is
 * suspended, as the documentation of Curator asks; with `lost-only` when the session is.
 */
final class CuratorLock implements Fencepost.Lock {
    private final CuratorFramework curator;
    private final boolean readWrite;
    /** How to release those that are held. */
    private final Map<String, Release> held = new ConcurrentHashMap<>();

    private interface Release {
        void run() throws Exception;
    }

    /** Tries for so long. Gives how to release what it got, or null. */
    private interface Attempt {
        Release take(long nanos) throws Exception;
    }

    private CuratorLock(Fencepost.Env env, boolean lostOnly, boolean readWrite) {
        this.readWrite = readWrite;
        String servers = env.servers.stream().map(server -> server.address).collect(Collectors.joining(","));
        int session = (int) env.ttl.toMillis();
        curator = CuratorFrameworkFactory.newClient(servers, session, session, new ExponentialBackoffRetry(100, 3));
        curator.getConnectionStateListenable().addListener((client, state) -> {
            if (state == ConnectionState.LOST || (state == ConnectionState.SUSPENDED && !lostOnly)) {
                held.keySet().forEach(key -> env.lost(key, "the connection is " + state));
            }
        });
        curator.start();
    }

    private static Attempt of(InterProcessMutex mutex) {
        return nanos -> mutex.acquire(nanos, TimeUnit.NANOSECONDS) ? mutex::release : null;
    }

    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        var path = "/locks/" + key;
        return take(key, timeout, of(readWrite
                ? new InterProcessReadWriteLock(curator, path).writeLock() : new InterProcessMutex(curator, path)));
    }

    @Override
    public Fencepost.Grant acquireShared(String key, Duration ttl, Duration timeout) throws Exception {
        return take(key, timeout, of(new InterProcessReadWriteLock(curator, "/locks/" + key).readLock()));
    }

    @Override
    public Fencepost.Grant acquirePermit(String key, long permits, Duration ttl, Duration timeout) throws Exception {
        var semaphore = new InterProcessSemaphoreV2(curator, "/locks/" + key, (int) permits);
        return take(key, timeout, nanos -> {
            var lease = semaphore.acquire(nanos, TimeUnit.NANOSECONDS);
            return lease == null ? null : () -> semaphore.returnLease(lease);
        });
    }

    private Fencepost.Grant take(String key, Duration timeout, Attempt attempt) throws Exception {
        long begun = System.nanoTime();
        if (!curator.blockUntilConnected((int) timeout.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new Fencepost.Certain("unreachable: no connection to ZooKeeper");
        }
        held.put(key, () -> {}); // from now on a loss is reported; the kit drops it if nothing is granted
        long left = timeout.toNanos() - (System.nanoTime() - begun);
        var release = attempt.take(left * 19 / 20);
        if (release == null) {
            held.remove(key);
            return null;
        }
        held.put(key, release);
        return new Fencepost.Grant();
    }

    @Override
    public Boolean release(String key) throws Exception {
        held.remove(key).run();
        return null;
    }

    @Override
    public void close() {
        curator.close();
    }

    public static void main(String[] args) {
        var words = List.of(args);
        Fencepost.run(env -> new CuratorLock(env, words.contains("lost-only"), words.contains("read-write")), "lost");
    }
}
