import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's InterProcessMutex. Each process has a session of its own, and reports its locks as lost when the connection is
 * suspended, as the documentation of Curator asks; with `lost-only` when the session is.
 */
final class CuratorLock implements Fencepost.Lock {
    private final CuratorFramework curator;
    /** Those that are held. */
    private final Map<String, InterProcessMutex> mutexes = new ConcurrentHashMap<>();

    private CuratorLock(Fencepost.Env env, boolean lostOnly) {
        String servers = env.servers.stream().map(server -> server.address).collect(Collectors.joining(","));
        int session = (int) env.ttl.toMillis();
        curator = CuratorFrameworkFactory.newClient(servers, session, session, new ExponentialBackoffRetry(100, 3));
        curator.getConnectionStateListenable().addListener((client, state) -> {
            if (state == ConnectionState.LOST || (state == ConnectionState.SUSPENDED && !lostOnly)) {
                mutexes.keySet().forEach(key -> env.lost(key, "the connection is " + state));
            }
        });
        curator.start();
    }

    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        long begun = System.nanoTime();
        if (!curator.blockUntilConnected((int) timeout.toMillis(), TimeUnit.MILLISECONDS)) {
            throw new Fencepost.Certain("unreachable: no connection to ZooKeeper");
        }
        var mutex = new InterProcessMutex(curator, "/locks/" + key);
        mutexes.put(key, mutex); // from now on a loss is reported; the kit drops it if nothing is granted
        long left = timeout.toNanos() - (System.nanoTime() - begun);
        if (mutex.acquire(left * 19 / 20, TimeUnit.NANOSECONDS)) return new Fencepost.Grant();
        mutexes.remove(key);
        return null;
    }

    @Override
    public Boolean release(String key) throws Exception {
        mutexes.remove(key).release();
        return null;
    }

    @Override
    public void close() {
        curator.close();
    }

    public static void main(String[] args) {
        boolean lostOnly = args.length > 0 && args[0].equals("lost-only");
        Fencepost.run(env -> new CuratorLock(env, lostOnly), "lost");
    }
}
