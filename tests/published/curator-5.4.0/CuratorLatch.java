import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator's LeaderLatch as programs keep one: started once, it stays in the race after a loss, and its process leads whenever it says
 * so. An acquire waits for that; a release closes the latch of one that leads.
 */
final class CuratorLatch implements Fencepost.Lock {
    private final Fencepost.Env env;
    private final CuratorFramework curator;
    private final Map<String, LeaderLatch> latches = new ConcurrentHashMap<>();

    private CuratorLatch(Fencepost.Env env) {
        this.env = env;
        String servers = env.servers.stream().map(server -> server.address).collect(Collectors.joining(","));
        int session = (int) env.ttl.toMillis();
        curator = CuratorFrameworkFactory.newClient(servers, session, session, new ExponentialBackoffRetry(100, 3));
        curator.start();
    }

    private LeaderLatch start(String key) throws Exception {
        var latch = new LeaderLatch(curator, "/fencepost/" + key);
        latch.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {}

            @Override
            public void notLeader() {
                env.lost(key, "notLeader was called");
            }
        });
        latch.start();
        return latch;
    }

    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        long end = System.nanoTime() + timeout.toNanos() * 19 / 20;
        if (!latches.containsKey(key)) {
            if (!curator.blockUntilConnected((int) timeout.toMillis(), TimeUnit.MILLISECONDS)) {
                throw new Fencepost.Certain("unreachable: no connection to ZooKeeper");
            }
            latches.put(key, start(key));
        }
        while (System.nanoTime() < end) {
            if (latches.get(key).hasLeadership()) {
                return new Fencepost.Grant();
            }
            Thread.sleep(5);
        }
        return null;
    }

    @Override
    public boolean holds(String key) {
        return latches.get(key).hasLeadership();
    }

    @Override
    public Boolean release(String key) throws Exception {
        if (latches.get(key).hasLeadership()) {
            latches.remove(key).close();
        }
        return null;
    }

    @Override
    public void close() {
        curator.close();
    }

    public static void main(String[] args) {
        Fencepost.run(CuratorLatch::new, "lost");
    }
}
