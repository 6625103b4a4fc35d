import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.UUID;

/** A lock on one Redis server, without any library: SET NX PX to acquire, a script that compares to release. */
final class Example implements Fencepost.Lock {
    private static final String DELETE =
            "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
    private final Fencepost.Env env;
    private String value;

    private Example(Fencepost.Env env) {
        this.env = env;
    }

    /** One command on a connection of its own; the first line of the answer. */
    private String redis(Duration timeout, String... words) throws IOException {
        var request = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) request.append("$" + word.getBytes(StandardCharsets.UTF_8).length + "\r\n" + word + "\r\n");
        try (var socket = new Socket()) {
            socket.setSoTimeout((int) timeout.toMillis());
            socket.connect(new InetSocketAddress(env.servers.get(0).host, env.servers.get(0).port), socket.getSoTimeout());
            socket.getOutputStream().write(request.toString().getBytes(StandardCharsets.UTF_8));
            return new BufferedReader(new InputStreamReader(socket.getInputStream())).readLine();
        } catch (ConnectException refused) {
            throw new Fencepost.Certain("unreachable: nothing was sent");
        }
    }

    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        value = UUID.randomUUID().toString();
        var grant = env.poll(timeout, left ->
            "+OK".equals(redis(left, "SET", key, value, "NX", "PX", "" + ttl.toMillis())) ? new Fencepost.Grant() : null);
        if (grant == null) throw new Fencepost.NotAcquired("another holds the lock"); // each SET was answered with no
        return grant.unique(value);
    }

    @Override
    public Boolean release(String key) throws IOException {
        return redis(Duration.ofSeconds(1), "EVAL", DELETE, "1", key, value).equals(":1");
    }

    public static void main(String[] args) {
        Fencepost.run(Example::new);
    }
}
