import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;

/**
 * A lock of any kind on one Redis server, without any library: the holders are members of a sorted set. Each member says how many
 * may hold the lock beside it, and its score until when it holds it, by the server's clock.
 */
final class Example implements Fencepost.Lock {
    /** Removes holders whose time is over. */
    private static final String CLEAN = String.join("\n",
            "local now = redis.call('time')",
            "now = now[1] * 1000 + math.floor(now[2] / 1000)",
            "for _, key in ipairs(KEYS) do redis.call('zremrangebyscore', key, '-inf', now) end",
            "");
    /** Adds a holder to each key if none of those there, nor it, is then one too many. */
    private static final String TAKE = CLEAN + String.join("\n",
            "for _, key in ipairs(KEYS) do",
            "  local most = tonumber(ARGV[2])",
            "  for _, holder in ipairs(redis.call('zrange', key, 0, -1)) do",
            "    most = math.min(most, tonumber(string.match(holder, '%d+')))",
            "  end",
            "  if redis.call('zcard', key) >= most then return 0 end",
            "end",
            "for _, key in ipairs(KEYS) do redis.call('zadd', key, now + ARGV[3], ARGV[1]) end",
            "return 1");
    /** Adds what a holder acquires again, for as long as it has the lock. */
    private static final String TAKE_AGAIN = CLEAN + String.join("\n",
            "local score = redis.call('zscore', KEYS[1], ARGV[1])",
            "return score and redis.call('zadd', KEYS[1], score, ARGV[2]) or 0");
    private static final String GIVE_BACK = String.join("\n",
            "local removed = 0",
            "for _, key in ipairs(KEYS) do removed = removed + redis.call('zrem', key, ARGV[1]) end",
            "return removed");
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

    /** Runs a script, which gives a number: the answer is {@code :1}. */
    private long script(Duration timeout, String script, List<String> keys, String... arguments) throws IOException {
        var words = new ArrayList<>(List.of("EVAL", script, "" + keys.size()));
        words.addAll(keys);
        words.addAll(List.of(arguments));
        return Long.parseLong(redis(timeout, words.toArray(new String[0])).substring(1));
    }

    /** Gives a grant where fewer than `most` hold each of them, each of whom bears one more. */
    private Fencepost.Grant take(List<String> keys, long most, Duration ttl, Duration timeout) throws Exception {
        value = most + ":" + UUID.randomUUID();
        var grant = env.poll(timeout, left -> {
            var taken = script(left, TAKE, keys, value, "" + most, "" + ttl.toMillis());
            return taken == 1 ? new Fencepost.Grant() : null;
        });
        if (grant == null) throw new Fencepost.NotAcquired("others hold the lock"); // each attempt was answered with no
        return grant;
    }

    /** For a writer, or the only holder. */
    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        return take(List.of(key), 1, ttl, timeout);
    }

    /** For a reader, of a lock with kind = "read-write". */
    @Override
    public Fencepost.Grant acquireShared(String key, Duration ttl, Duration timeout) throws Exception {
        return take(List.of(key), ANY_NUMBER, ttl, timeout);
    }

    /** For one of the permits, of a lock with kind = "semaphore". */
    @Override
    public Fencepost.Grant acquirePermit(String key, long permits, Duration ttl, Duration timeout) throws Exception {
        return take(List.of(key), permits, ttl, timeout);
    }

    /** For all of these names, or none, of a lock with kind = "several". */
    @Override
    public Fencepost.Grant acquireAll(List<String> keys, Duration ttl, Duration timeout) throws Exception {
        return take(keys, 1, ttl, timeout);
    }

    /** For the holder once more, of a lock with kind = "reentrant". */
    @Override
    public Fencepost.Grant reenter(String key, Duration ttl, Duration timeout) throws IOException {
        if (script(timeout, TAKE_AGAIN, List.of(key), value, value + "+") == 0) return null;
        value += "+";
        return new Fencepost.Grant();
    }

    /** Gives back what was acquired last, of a lock that is held more than once. */
    @Override
    public Boolean leave(String key) throws IOException {
        if (!release(key)) throw new Fencepost.NotHeld("its time was over");
        value = value.substring(0, value.length() - 1);
        return null;
    }

    @Override
    public Boolean release(String key) throws IOException {
        return releaseAll(List.of(key));
    }

    @Override
    public Boolean releaseAll(List<String> keys) throws IOException {
        return script(Duration.ofSeconds(1), GIVE_BACK, keys, value) == keys.size();
    }

    public static void main(String[] args) {
        Fencepost.run(Example::new);
    }
}
