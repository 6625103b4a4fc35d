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

/** A lock on one Redis server, without any library: SET NX PX to acquire, a script that compares to release. */
final class Example implements Fencepost.Lock {
    private static final String DELETE =
            "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
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
