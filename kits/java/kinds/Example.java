import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.UUID;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;

/**
 * A read-write lock and a semaphore on one Redis server, without any library: the holders are members of a sorted set. Each member
 * says how many may hold the lock beside it, and its score until when it holds it, by the server's clock.
 */
final class Example implements Fencepost.Lock {
    /** Removes holders whose time is over, and adds one if none of them, nor it, is then one too many. */
    private static final String TAKE = String.join("\n",
            "local now = redis.call('time')",
            "now = now[1] * 1000 + math.floor(now[2] / 1000)",
            "redis.call('zremrangebyscore', KEYS[1], '-inf', now)",
            "local most = tonumber(ARGV[2])",
            "for _, holder in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do",
            "  most = math.min(most, tonumber(string.match(holder, '%d+')))",
            "end",
            "if redis.call('zcard', KEYS[1]) >= most then return 0 end",
            "redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])",
            "return 1");
    private static final long ANY_NUMBER = 1_000_000_000;
    private final Fencepost.Env env;
    private final SSLContext tls;
    private String value;

    private Example(Fencepost.Env env) throws IOException, GeneralSecurityException {
        this.env = env;
        tls = env.access.tls ? Tls.context(env.access) : null;
    }

    /** A command, as it is sent. */
    private static String request(String... words) {
        var request = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) request.append("$" + word.getBytes(StandardCharsets.UTF_8).length + "\r\n" + word + "\r\n");
        return request.toString();
    }

    /** The connection by TLS, where the server speaks that. */
    private Socket secured(Socket socket) throws IOException {
        if (tls == null) return socket;
        var server = env.servers.get(0);
        var secured = (SSLSocket) tls.getSocketFactory().createSocket(socket, server.tlsName, server.port, true);
        var parameters = secured.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS"); // holds the certificate against the name
        secured.setSSLParameters(parameters);
        return secured;
    }

    /** One command on a connection of its own, after a login where there is a password; the first line of its answer. */
    private String redis(Duration timeout, String... words) throws IOException {
        try (var socket = new Socket()) {
            socket.setSoTimeout((int) timeout.toMillis());
            socket.connect(new InetSocketAddress(env.servers.get(0).host, env.servers.get(0).port), socket.getSoTimeout());
            var secured = secured(socket);
            var lines = new BufferedReader(new InputStreamReader(secured.getInputStream()));
            var login = env.access.password == null ? "" : request("AUTH", env.access.user, env.access.password);
            secured.getOutputStream().write((login + request(words)).getBytes(StandardCharsets.UTF_8));
            if (!login.isEmpty() && !"+OK".equals(lines.readLine())) {
                throw new Fencepost.Certain("unreachable: the server does not take the password");
            }
            return lines.readLine();
        } catch (ConnectException refused) {
            throw new Fencepost.Certain("unreachable: nothing was sent");
        }
    }

    /** Gives a grant where fewer than `most` hold it, each of whom bears one more. */
    private Fencepost.Grant take(String key, long most, Duration ttl, Duration timeout) throws Exception {
        value = most + ":" + UUID.randomUUID();
        var grant = env.poll(timeout, left -> {
            var reply = redis(left, "EVAL", TAKE, "1", key, value, "" + most, "" + ttl.toMillis());
            return ":1".equals(reply) ? new Fencepost.Grant() : null;
        });
        if (grant == null) throw new Fencepost.NotAcquired("others hold the lock"); // each attempt was answered with no
        return grant;
    }

    /** For a writer. */
    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        return take(key, 1, ttl, timeout);
    }

    /** For a reader, of a lock with kind = "read-write". */
    @Override
    public Fencepost.Grant acquireShared(String key, Duration ttl, Duration timeout) throws Exception {
        return take(key, ANY_NUMBER, ttl, timeout);
    }

    /** For one of the permits, of a lock with kind = "semaphore". */
    @Override
    public Fencepost.Grant acquirePermit(String key, long permits, Duration ttl, Duration timeout) throws Exception {
        return take(key, permits, ttl, timeout);
    }

    @Override
    public Boolean release(String key) throws IOException {
        return redis(Duration.ofSeconds(1), "ZREM", key, value).equals(":1");
    }

    public static void main(String[] args) {
        Fencepost.run(Example::new);
    }
}
