import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's InterProcessMutex; with `read-write` its InterProcessReadWriteLock, as a semaphore its InterProcessSemaphoreV2; with `latch`
 * its LeaderLatch, with `selector` its LeaderSelector, of which each campaign has a new one. Each process has a session of its own, and
 * reports its locks as lost when the connection is suspended, as the documentation of Curator asks; with `lost-only` when the session is.
 */
final class CuratorLock implements Fencepost.Lock {
    private final Fencepost.Env env;
    private final CuratorFramework curator;
    private final List<String> words;
    /** How to release those that are held. */
    private final Map<String, Release> held = new ConcurrentHashMap<>();

    private interface Release {
        void run() throws Exception;
    }

    /** Tries for so long. Gives how to release what it got, or null. */
    private interface Attempt {
        Release take(long nanos) throws Exception;
    }

    private CuratorLock(Fencepost.Env env, List<String> words) {
        this.env = env;
        this.words = words;
        boolean lostOnly = words.contains("lost-only");
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

    private Attempt latch(String key) {
        return nanos -> {
            var latch = new LeaderLatch(curator, "/locks/" + key);
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {}

                @Override
                public void notLeader() {
                    env.lost(key, "notLeader was called");
                }
            });
            latch.start();
            if (latch.await(nanos, TimeUnit.NANOSECONDS)) {
                return latch::close;
            }
            latch.close();
            return null;
        };
    }

    private Attempt selector(String key) {
        return nanos -> {
            var elected = new CountDownLatch(1);
            var over = new CountDownLatch(1);
            var selector = new LeaderSelector(curator, "/locks/" + key, new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {
                    elected.countDown();
                    try {
                        over.await();
                    } catch (InterruptedException interrupted) {
                        env.lost(key, "takeLeadership was interrupted");
                    }
                }
            });
            selector.start();
            if (elected.await(nanos, TimeUnit.NANOSECONDS)) {
                return () -> {
                    over.countDown();
                    selector.close();
                };
            }
            selector.close();
            return null;
        };
    }

    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        var path = "/locks/" + key;
        if (words.contains("latch")) {
            return take(key, timeout, latch(key));
        }
        if (words.contains("selector")) {
            return take(key, timeout, selector(key));
        }
        return take(key, timeout, of(words.contains("read-write")
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
        Fencepost.run(env -> new CuratorLock(env, words), "lost");
    }
}
