import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Fencepost's kit for Java: makes a client of Fencepost from a lock. One file without dependencies, for Java 11 or later.
 * Copy it beside your program; README.md says how to use it.
 *
 * <pre>
 * public static void main(String[] args) { Fencepost.run(MyLock::new); }   // MyLock(Fencepost.Env env)
 * </pre>
 */
public final class Fencepost {
    /** The lock of one process. Its functions are called by the process's own thread. */
    public interface Lock {
        /** Tries to get the lock. Returns what was granted, or null. */
        Grant acquire(String key, Duration ttl, Duration timeout) throws Exception;

        /** The same for a reader: with {@code kind = "read-write"} in lock.toml. */
        default Grant acquireShared(String key, Duration ttl, Duration timeout) throws Exception {
            throw new Certain("bad-command: this lock has no acquireShared");
        }

        /**
         * The same for one of so many permits: with {@code kind = "semaphore"} in lock.toml; {@code acquire} is then not
         * called.
         */
        default Grant acquirePermit(String key, long permits, Duration ttl, Duration timeout) throws Exception {
            throw new Certain("bad-command: this lock has no acquirePermit");
        }

        /** The same for all of these names, or none of them: with {@code kind = "several"} in lock.toml. */
        default Grant acquireAll(List<String> keys, Duration ttl, Duration timeout) throws Exception {
            throw new Certain("bad-command: this lock has no acquireAll");
        }

        /** Gives the lock back. Returns whether that removed a lock, or null where the library does not say. */
        Boolean release(String key) throws Exception;

        /** The same of all these names. */
        default Boolean releaseAll(List<String> keys) throws Exception {
            throw new Certain("bad-command: this lock has no releaseAll");
        }

        /**
         * Acquires the lock once more for its holder: with {@code kind = "reentrant"} in lock.toml. Returns a grant, or null where
         * it was no longer held; a grant with a validity says that the library prolonged the lock.
         */
        default Grant reenter(String key, Duration ttl, Duration timeout) throws Exception {
            throw new Certain("bad-command: this lock has no reenter");
        }

        /**
         * Releases once what was acquired more than once. Returns whether that removed the lock, which it should not, or null where
         * the library does not say.
         */
        default Boolean leave(String key) throws Exception {
            throw new Certain("bad-command: this lock has no leave");
        }

        /**
         * Lets the lock last for so long from now on; returns whether it does, false where it was no longer held. A lock with this
         * function announces {@code prolong}.
         */
        default boolean prolong(String key, Duration ttl, Duration timeout) throws Exception {
            throw new Certain("bad-command: this lock has no prolong");
        }

        /**
         * For an election: the number of the process that leads ({@code env.number}), or null where the library
         * knows of no leader. An election with this function announces {@code leader}.
         */
        default Long leader(String key, Duration timeout) throws Exception {
            throw new Certain("bad-command: this lock has no leader");
        }

        /** What the library believes by itself, without a request. */
        default boolean holds(String key) throws Exception {
            return true;
        }

        /** Ends connections and renewals. */
        default void close() throws Exception {}
    }

    /** Makes the lock of one process, in the process's own thread. */
    public interface Factory {
        Lock make(Env env) throws Exception;
    }

    /**
     * One attempt, for {@link Env#poll}. Returns what was granted, or null; {@code left} is the time that remains, and at
     * least 300 ms.
     */
    public interface Attempt {
        Grant make(Duration left) throws Exception;
    }

    /** What an acquire got: {@code new Grant()}, and more where there is more to say. */
    public static final class Grant {
        private final Map<String, Object> value = new LinkedHashMap<>();
        private String unique;
        private Duration validity;

        /** A fencing token, greater with each grant. */
        public Grant token(long token) {
            value.put("token", token);
            return this;
        }

        /** A value that no other grant has. */
        public Grant unique(String unique) {
            this.unique = unique;
            return this;
        }

        /** For how long from now the lock is valid, as the library says. */
        public Grant validity(Duration validity) {
            this.validity = validity;
            return this;
        }

        /** Names of the servers that granted it. */
        public Grant grantedBy(List<String> servers) {
            value.put("granted_by", servers);
            return this;
        }
    }

    /** Thrown by an acquire: every request was answered, and another holds the lock. */
    public static class NotAcquired extends RuntimeException {
        public NotAcquired(String message) {
            super(message);
        }
    }

    /** Thrown by a release: there was nothing to release. */
    public static class NotHeld extends RuntimeException {
        public NotHeld(String message) {
            super(message);
        }
    }

    /** It certainly did not happen. The text begins with a code of the protocol, such as {@code unreachable: …}. */
    public static class Certain extends RuntimeException {
        public Certain(String message) {
            super(message);
        }
    }

    /** A server of the lock. */
    public static final class Server {
        public final String name;
        public final String address;
        public final String host;
        public final int port;
        public final String tlsName; // the name that its certificate must have

        private Server(Map<?, ?> server) {
            name = (String) server.get("name");
            address = (String) server.get("address");
            var socket = socketAddress(address);
            host = socket.getHostString();
            port = socket.getPort();
            tlsName = server.get("tls_name") instanceof String ? (String) server.get("tls_name") : host;
        }
    }

    /** What the servers ask of a client, or null; `tls`: whether they speak it. Files are in PEM, a key is PKCS #8. */
    public static final class Access {
        public final String user, password;
        public final boolean tls;
        public final String ca, certificate, key;

        private Access(Map<?, ?> access) {
            user = (String) access.get("user");
            password = (String) access.get("password");
            tls = access.get("tls") instanceof Map;
            Map<?, ?> files = tls ? (Map<?, ?>) access.get("tls") : Map.of();
            ca = (String) files.get("ca");
            certificate = (String) files.get("certificate");
            key = (String) files.get("key");
        }
    }

    /** What a lock may know and report. Each process has its own. */
    public static final class Env {
        private final Process process;
        public final String client;
        public final long number;
        public final String lock;
        public final List<Server> servers = new ArrayList<>();
        public final Access access;
        public final Map<String, String> options = new LinkedHashMap<>();
        /** The TTL of the run; null where the hello names none. */
        public final Duration ttl;
        public final String lease;
        public final long seed;
        /** Drawn from the seed and the number of the process. */
        public final Random random;

        private Env(Map<String, Object> hello, Process process) {
            this.process = process;
            client = (String) hello.get("client");
            number = process.number;
            lock = (String) hello.get("lock");
            for (Object server : list(hello.get("servers"))) servers.add(new Server((Map<?, ?>) server));
            access = new Access(hello.get("access") instanceof Map ? (Map<?, ?>) hello.get("access") : Map.of());
            if (hello.get("options") instanceof Map) {
                ((Map<?, ?>) hello.get("options")).forEach((name, value) -> options.put("" + name, "" + value));
            }
            ttl = hello.get("ttl_ms") instanceof Long ? Duration.ofMillis((Long) hello.get("ttl_ms")) : null;
            lease = (String) hello.getOrDefault("lease", "ttl");
            seed = hello.get("seed") instanceof Long ? (Long) hello.get("seed") : 0;
            random = new Random(seed * 31 + number);
        }

        /**
         * Repeats an attempt that does not block until it gives a grant or the time is up; then returns null. The TTL
         * counts from the begin of the attempt that was granted.
         */
        public Grant poll(Duration timeout, Attempt attempt) throws Exception {
            long begun = System.nanoTime();
            do {
                process.attemptBegins();
                long left = timeout.toNanos() - (System.nanoTime() - begun);
                Grant grant = attempt.make(Duration.ofNanos(Math.max(ATTEMPT_NANOS, left)));
                if (grant != null) return grant;
                Thread.sleep(1 + random.nextInt(10));
                // None begins in the last twentieth of the time.
            } while (System.nanoTime() - begun < timeout.toNanos() / 20 * 19);
            return null;
        }

        /** Reports that, as the library says, the lock is lost. Any thread may call it. */
        public void lost(String key, String reason) {
            process.lost(key, reason);
        }

        /** Reports that the library prolonged the lease by a request that was sent so long ago. Any thread may call it. */
        public void renewed(String key, Duration age) {
            process.renewed(key, Math.max(0, age.toNanos()));
        }
    }

    private static final long VERSION = 1;
    private static final long TIMEOUT_DEFAULT_MS = 1000;
    /** The least time that an attempt gets: one that is cut off is indeterminate. */
    private static final long ATTEMPT_NANOS = 300_000_000;
    private static final int DIAL_TIMEOUT_MS = 1000;
    private static final int DIAL_PAUSE_MS = 50;
    /** The point between a careful process's look at its clock and its write. */
    private static final String CHECKED = "between-check-and-write";

    private final Factory factory;
    private final OutputStream output;
    private final Map<String, Object> hello;
    private final boolean careful;
    private final boolean expires;
    private final AtomicLong writes = new AtomicLong();
    private final ExecutorService threads = Executors.newCachedThreadPool(Fencepost::daemon);

    private Fencepost(Factory factory, OutputStream output, Map<String, Object> hello) {
        this.factory = factory;
        this.output = output;
        this.hello = hello;
        careful = Boolean.TRUE.equals(hello.get("careful"));
        expires = "ttl".equals(hello.getOrDefault("lease", "ttl"));
    }

    /**
     * Serves the controller on standard input and output until the input ends, and then ends the program.
     *
     * @param can what the lock can do: {@code lost}, {@code extend}, {@code prolong}, {@code leader}, …
     */
    public static void run(Factory factory, String... can) {
        var input = new BufferedReader(new InputStreamReader(new FileInputStream(FileDescriptor.in), StandardCharsets.UTF_8));
        var output = new FileOutputStream(FileDescriptor.out);
        // Standard output belongs to the protocol. What a library prints goes to standard error.
        System.setOut(System.err);
        System.setIn(InputStream.nullInputStream());
        try {
            String line = input.readLine();
            if (line == null) refuse("the input ended before the hello");
            var client = new Fencepost(factory, output, greeting(line));
            client.answerHello(can);
            client.serve(input);
        } catch (IOException gone) {
            // The controller is gone, as at the end of the input.
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> greeting(String line) {
        var hello = parse(line);
        if (!(Long.valueOf(VERSION).equals(hello.get("hello")))) {
            refuse("this kit speaks version " + VERSION + " of the client protocol, and the first line is " + shown(line));
        }
        return hello;
    }

    private void answerHello(String... can) {
        Set<Object> all = new LinkedHashSet<>(list(hello.get("claims")));
        if (expires) all.add("validity");
        all.addAll(List.of(can));
        send(map("hello", VERSION, "can", new ArrayList<>(all), "pid", ProcessHandle.current().pid()));
    }

    private void serve(BufferedReader input) throws IOException {
        var processes = new HashMap<Long, Process>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            var command = parse(line);
            if (!(command.get("process") instanceof Long)) continue; // a line of a later version
            Long number = (Long) command.get("process");
            if ("over".equals(command.get("event"))) {
                Process over = processes.remove(number);
                if (over != null) over.end();
            } else if ("cancel".equals(command.get("event")) && processes.get(number) != null) {
                processes.get(number).cancel((Long) command.get("id"));
            } else if ("goes-on".equals(command.get("event")) && processes.get(number) != null) {
                Process process = processes.remove(number);
                processes.put((Long) command.get("next"), process);
                process.goOn((Long) command.get("next"));
            }
            if (!(command.get("f") instanceof String)) continue;
            Process process = processes.get(number);
            if (process == null || !process.enqueue(command)) {
                process = new Process(number);
                processes.put(number, process);
                process.enqueue(command);
            }
        }
    }

    /** Writes one line at once. */
    private void send(Map<String, Object> line) {
        byte[] bytes = (Json.write(line) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (output) {
            try {
                output.write(bytes);
            } catch (IOException gone) {
                Runtime.getRuntime().halt(0); // the controller is gone
            }
        }
    }

    /** Ends the client with one sentence. */
    private static void refuse(String sentence) {
        System.err.println(sentence);
        Runtime.getRuntime().halt(254);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> parse(String line) {
        try {
            return (Map<String, Object>) Json.parse(line);
        } catch (RuntimeException error) {
            refuse("the controller sent a line that is no command: " + shown(line));
            return null;
        }
    }

    private static String shown(String line) {
        return line.substring(0, Math.min(80, line.length()));
    }

    private static Thread daemon(Runnable work) {
        var thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }

    private static InetSocketAddress socketAddress(String address) {
        int colon = address.lastIndexOf(':');
        return new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
    }

    private static Map<String, Object> map(Object... entries) {
        var map = new LinkedHashMap<String, Object>();
        for (int i = 0; i < entries.length; i += 2) {
            if (entries[i + 1] != null) map.put((String) entries[i], entries[i + 1]);
        }
        return map;
    }

    private static List<?> list(Object value) {
        return value instanceof List ? (List<?>) value : List.of();
    }

    private static Map<String, Object> ok(Object value) {
        return map("type", "ok", "value", value);
    }

    private static Map<String, Object> fail(String error) {
        return map("type", "fail", "error", error);
    }

    private static Map<String, Object> info(String error) {
        return map("type", "info", "error", error);
    }

    /** How an operation ended that threw: indeterminate, unless the lock says that it is certain. */
    private static Map<String, Object> failed(Throwable error) {
        if (error instanceof NotAcquired) return fail("taken: " + error.getMessage());
        if (error instanceof NotHeld) return fail("not-held: " + error.getMessage());
        if (error instanceof Certain) return fail(error.getMessage());
        return info("raised: " + error.getClass().getName() + ": " + error.getMessage());
    }

    /** What a process holds, or held until it was lost. */
    private static final class Held {
        Grant grant;
        long ttlNanos;
        /** None where the lock has no validity. */
        Long validUntil;
        boolean lost;
        boolean marked;

        /** For another name of the same set. */
        Held copy() {
            Held copy = new Held();
            copy.grant = grant;
            copy.ttlNanos = ttlNanos;
            copy.validUntil = validUntil;
            return copy;
        }
    }

    /** The acquire that is under way. */
    private static final class Acquiring {
        final List<String> names;
        final long asked; // before the lock was made, if it was
        long begun = System.nanoTime();
        Long renewedAt;
        final Map<String, String> lost = new LinkedHashMap<>(); // of these names, with the reasons

        Acquiring(List<String> names, long asked) { this.names = names; this.asked = asked; }
    }

    /** One process: an independent user of the lock, with a thread of its own. Its mutex orders its state and its lines. */
    private final class Process {
        private volatile long number;
        private final BlockingQueue<Map<String, Object>> queue = new LinkedBlockingQueue<>();
        private final Map<String, Held> held = new HashMap<>();
        private final Storage storage;
        private Lock lock;
        private Acquiring acquiring;
        private boolean over;
        private final Thread thread;
        /** The operation that is carried out, and the latest that its caller gave up. */
        private Object operation, cancelled;

        Process(long number) {
            this.number = number;
            storage = new Storage(number);
            thread = daemon(this::work);
            thread.start();
        }

        /** The caller gives up the call that runs (rule 28): its thread is interrupted. */
        synchronized void cancel(Long id) {
            if (!id.equals(operation)) return;
            cancelled = id;
            thread.interrupt();
        }

        /** The program goes on under another number, with the lock that it has. */
        synchronized void goOn(long next) {
            number = storage.process = next;
        }

        /** Gives false where the process is over. */
        synchronized boolean enqueue(Map<String, Object> command) {
            return !over && queue.add(command);
        }

        /** Ends the process as if it had crashed. */
        synchronized void end() {
            if (!over) queue.add(map()); // the last one
            over = true;
        }

        private void work() {
            try {
                for (var command = queue.take(); !command.isEmpty(); command = queue.take()) answer(command);
                storage.close();
                if (lock != null) lock.close();
            } catch (Throwable error) {
                System.err.println("process " + number + " ended: " + error);
            }
        }

        private void answer(Map<String, Object> command) {
            Map<String, Object> answer;
            synchronized (this) {
                operation = command.get("id");
            }
            if (isOver()) {
                answer = fail("process-over: an operation before it was indeterminate");
            } else {
                try {
                    answer = perform(command);
                } catch (Throwable error) {
                    answer = failed(error);
                }
            }
            answer.put("id", command.get("id"));
            synchronized (this) {
                boolean isCancelled = operation.equals(cancelled);
                operation = null;
                if (isCancelled) Thread.interrupted(); // what comes next is not interrupted
                if (isCancelled && "info".equals(answer.get("type"))) answer.put("error", ((String) answer.get("error")).replaceFirst("^(raised: )?", "cancelled: "));
                else if ("info".equals(answer.get("type"))) end();
                if (acquiring != null && "ok".equals(answer.get("type"))) begin(answer);
                send(answer);
                Acquiring ended = acquiring;
                acquiring = null;
                if (ended != null) ended.lost.forEach(this::lost);
            }
        }

        private synchronized boolean isOver() {
            return over;
        }

        synchronized void attemptBegins() {
            if (acquiring != null) acquiring.begun = System.nanoTime();
        }

        synchronized void lost(String key, String reason) {
            if (acquiring != null && acquiring.names.contains(key)) {
                acquiring.lost.put(key, reason);
                return;
            }
            Held held = this.held.get(key);
            if (over || held == null || held.lost) return;
            held.lost = true;
            send(map("event", "lost", "process", number, "key", key, "reason", reason));
        }

        synchronized void renewed(String key, long ageNanos) {
            long at = System.nanoTime() - ageNanos;
            if (acquiring != null && acquiring.names.contains(key)) {
                acquiring.renewedAt = at;
                return;
            }
            Held held = this.held.get(key);
            if (over || held == null || held.lost) return;
            if (held.validUntil != null) held.validUntil = at + held.ttlNanos;
            long ageMs = (ageNanos + 999_999) / 1_000_000;
            send(map("event", "renewed", "process", number, "key", key, "age_ms", ageMs));
        }

        private Map<String, Object> perform(Map<String, Object> command) throws Throwable {
            String key = (String) command.get("key");
            long timeoutMs = (Long) command.getOrDefault("timeout_ms", TIMEOUT_DEFAULT_MS);
            String f = (String) command.get("f");
            long asked = System.nanoTime();
            try {
                if (lock == null) lock = factory.make(new Env(hello, this));
            } catch (Throwable error) {
                // Nothing of the operation was begun.
                return f.equals("holds") ? ok(false) : fail("unreachable: the lock could not be made: " + error);
            }
            switch (f) {
                case "acquire":
                    return acquire(command, key, Duration.ofMillis(timeoutMs), asked);
                case "release":
                    return release(command);
                case "leave":
                    return leave(key);
                case "leader":
                    return leader(key, Duration.ofMillis(timeoutMs));
                case "holds":
                    return ok(believes(key));
                case "prolong":
                case "reenter":
                    return prolong(f, key, command.get("ttl_ms"), Duration.ofMillis(timeoutMs));
                case "read":
                    return storage.read(key, heldOf(key), timeoutMs);
                case "write":
                    if (careful) {
                        if (!believes(key)) return fail("gave-up: the lock is no longer valid by this client's own clock");
                        pauseAt(CHECKED, key);
                    }
                    return storage.write(key, command.get("value"), heldOf(key), timeoutMs);
                default:
                    return fail("bad-command: this client does not know " + f);
            }
        }

        private synchronized Held heldOf(String key) {
            return held.get(key);
        }

        private Map<String, Object> acquire(Map<String, Object> command, String key, Duration timeout, long asked) throws Throwable {
            Object ttl = command.get("ttl_ms");
            if (!(ttl instanceof Long) || (Long) ttl <= 0) return fail("bad-command: an acquire needs a ttl_ms greater than 0");
            Map<?, ?> wish = command.get("value") instanceof Map ? (Map<?, ?>) command.get("value") : Map.of();
            Object mode = wish.containsKey("mode") ? wish.get("mode") : "exclusive", permits = wish.get("capacity");
            boolean shared = "shared".equals(mode);
            if (!shared && !"exclusive".equals(mode)) {
                return fail("bad-command: unknown mode " + mode + ": expected shared or exclusive");
            }
            if (wish.containsKey("capacity") && !(permits instanceof Long && (Long) permits > 0)) {
                return fail("bad-command: a semaphore needs a capacity greater than 0");
            }
            boolean isSet = wish.get("also") != null;
            if (isSet && !(wish.get("also") instanceof List && list(wish.get("also")).stream().allMatch(String.class::isInstance))) {
                return fail("bad-command: the names of a set are a list of texts");
            }
            var names = names(command);
            synchronized (this) {
                acquiring = new Acquiring(names, asked);
            }
            Duration lasting = Duration.ofMillis((Long) ttl);
            Grant grant = isSet ? lock.acquireAll(names, lasting, timeout)
                    : permits != null ? lock.acquirePermit(key, (Long) permits, lasting, timeout)
                    : shared ? lock.acquireShared(key, lasting, timeout) : lock.acquire(key, lasting, timeout);
            if (grant == null) return fail("refused-by-library: acquire returned null");
            // Granted so late, it is given back, as by a program that no longer needs it.
            if (isOver()) released(command);
            Held granted = new Held();
            granted.grant = grant;
            granted.ttlNanos = (Long) ttl * 1_000_000;
            return map("type", "ok", "value", grant.value, "granted", granted);
        }

        /** Begins the belief in what was granted, and completes the answer. */
        private void begin(Map<String, Object> answer) {
            Held granted = (Held) answer.remove("granted");
            if (expires) {
                long now = System.nanoTime();
                Duration stated = granted.grant.validity;
                granted.validUntil = stated != null ? now + stated.toNanos() : acquiring.begun + granted.ttlNanos;
                long left = stated != null ? stated.toMillis() : Math.max(0, granted.validUntil - now) / 1_000_000;
                granted.grant.value.put("validity_ms", left);
                long waited = (now - acquiring.asked) / 1_000_000;
                if (waited > 0) granted.grant.value.put("waited_ms", waited);
                if (acquiring.renewedAt != null) granted.validUntil = acquiring.renewedAt + granted.ttlNanos;
            }
            for (String name : over ? List.<String>of() : acquiring.names) held.put(name, granted.copy());
        }

        /** All names that an acquire or a release is of, each once (rule 27). */
        private List<String> names(Map<String, Object> command) {
            Set<String> names = new LinkedHashSet<>(List.of((String) command.get("key")));
            for (Object name : also(command) instanceof List ? list(also(command)) : List.of()) names.add((String) name);
            return new ArrayList<>(names);
        }

        private Object also(Map<String, Object> command) {
            return command.get("value") instanceof Map ? ((Map<?, ?>) command.get("value")).get("also") : null;
        }

        /** Calls the user's function for this release. */
        private Boolean released(Map<String, Object> command) throws Exception {
            return also(command) != null ? lock.releaseAll(names(command)) : lock.release((String) command.get("key"));
        }

        private Map<String, Object> release(Map<String, Object> command) {
            boolean believed = true, wasGranted = true;
            for (String name : names(command)) believed &= believes(name);
            var value = map("believed", believed);
            Map<String, Object> answer;
            var before = new HashMap<String, Held>();
            synchronized (this) {
                // Whatever becomes of it: a process that began to release no longer works under the lock.
                for (String name : names(command)) {
                    before.put(name, held.remove(name));
                    wasGranted &= before.get(name) != null;
                }
            }
            if (!wasGranted) {
                answer = fail("not-held: this process has not acquired it");
                answer.put("value", value);
                return answer;
            }
            try {
                Boolean removed = released(command);
                if (Boolean.FALSE.equals(removed)) throw new NotHeld("the release removed nothing");
                if (removed != null) value.put("removed", true);
                answer = ok(value);
            } catch (Throwable error) {
                answer = failed(error);
                if (error instanceof NotHeld) value.put("removed", false);
                synchronized (this) { // the program may release it once more
                    if ("info".equals(answer.get("type")) && operation.equals(cancelled)) held.putAll(before);
                }
            }
            answer.put("value", value);
            return answer;
        }

        /** Releases once what the process acquired more than once (rule 26). */
        private Map<String, Object> leave(String key) {
            var value = map("believed", believes(key));
            Held held = heldOf(key);
            Map<String, Object> answer;
            try {
                if (held == null) throw new Certain("not-held: this process has not acquired it");
                Boolean removed = lock.leave(key);
                if (removed != null) value.put("removed", removed);
                answer = ok(value);
            } catch (Throwable error) {
                answer = failed(error);
                if (error instanceof NotHeld) {
                    value.put("removed", false);
                    synchronized (this) {
                        held.lost = true;
                    }
                }
            }
            answer.put("value", value);
            return answer;
        }

        /** Prolongs what the process holds, or acquires it once more (rules 25 and 26). */
        private Map<String, Object> prolong(String f, String key, Object ttl, Duration timeout) throws Throwable {
            if (!(ttl instanceof Long) || (Long) ttl <= 0) return fail("bad-command: a " + f + " needs a ttl_ms greater than 0");
            Held held = heldOf(key);
            if (held == null) return fail("not-held: this process has not acquired it");
            long begun = System.nanoTime();
            boolean prolongs = f.equals("prolong"), isHeld = false;
            Duration lasting = Duration.ofMillis((Long) ttl);
            Grant grant = null;
            String why = f + " returned " + (prolongs ? "false" : "null");
            try {
                if (!prolongs) grant = lock.reenter(key, lasting, timeout);
                isHeld = prolongs ? lock.prolong(key, lasting, timeout) : grant != null;
            } catch (NotHeld error) {
                why = error.getMessage();
            }
            Duration stated = grant == null ? null : grant.validity;
            synchronized (this) {
                held.lost |= !isHeld;
                if (!isHeld) return fail("not-held: " + why);
                if (held.validUntil == null || !prolongs && stated == null) return map("type", "ok");
                held.ttlNanos = lasting.toNanos();
                held.validUntil = prolongs ? begun + held.ttlNanos : System.nanoTime() + stated.toNanos();
            }
            return prolongs ? map("type", "ok") : ok(map("validity_ms", stated.toMillis()));
        }

        /** Asks who leads (rule 29). That changes nothing, so no answer is an {@code info}. */
        private Map<String, Object> leader(String key, Duration timeout) {
            try {
                Long number = lock.leader(key, timeout);
                if (number != null && number < 0) throw new IllegalArgumentException("leader returned " + number + ": expected the number of a process, or null");
                var answer = ok(number);
                answer.put("value", number); // null, too
                return answer;
            } catch (Throwable error) {
                return fail((String) failed(error).get("error"));
            }
        }

        /** A careless process believes until it releases or loses its lock; a careful one also looks at its clock, and asks the lock. */
        private boolean believes(String key) {
            synchronized (this) {
                Held held = this.held.get(key);
                if (over || held == null || held.lost) return false;
                if (!careful) return true;
                if (held.validUntil != null && System.nanoTime() - held.validUntil >= 0) return false;
            }
            try {
                return lock.holds(key);
            } catch (Throwable error) {
                System.err.println("process " + number + ", holds: " + error);
                return true;
            }
        }

        private void pauseAt(String point, String key) throws InterruptedException {
            for (Object entry : list(hello.get("pause_at"))) {
                String text = (String) entry;
                if (!text.startsWith(point + "=")) continue;
                send(map("event", "at", "process", number, "key", key, "point", point));
                String time = text.substring(point.length() + 1);
                Thread.sleep((long) (Double.parseDouble(time.replaceAll("m?s$", "")) * (time.endsWith("ms") ? 1 : 1000)));
            }
        }
    }

    /** One process's way to the storage, or to its replicas, of which a majority decides. */
    private final class Storage {
        private volatile long process;
        private final List<Replica> replicas = new ArrayList<>();

        Storage(long process) {
            this.process = process;
            List<?> addresses = list(hello.get("storage_replicas"));
            if (addresses.size() < 2) addresses = hello.get("storage") instanceof String ? List.of(hello.get("storage")) : List.of();
            for (Object address : addresses) replicas.add(new Replica((String) address));
        }

        void close() {
            replicas.forEach(Replica::close);
        }

        Map<String, Object> read(String key, Held held, long timeoutMs) throws InterruptedException {
            // A process without credentials cannot mark, and only looks.
            boolean marks = held != null && (held.grant.unique != null || held.grant.value.containsKey("token"));
            var refused = marks ? mark(key, held, timeoutMs) : null;
            if (refused != null) return refused;
            return poll(map("f", "read", "key", key, "process", process), held, timeoutMs).read();
        }

        Map<String, Object> write(String key, Object value, Held held, long timeoutMs) throws InterruptedException {
            if (!(value instanceof Long || value instanceof List)) {
                return fail("bad-command: a write needs a value, a whole number or a list");
            }
            var refused = mark(key, held, timeoutMs);
            if (refused != null) return refused;
            Long number = replicas.size() > 1 ? writes.incrementAndGet() : null;
            return poll(map("f", "write", "key", key, "process", process, "value", value, "number", number), held, timeoutMs).written();
        }

        private Map<String, Object> mark(String key, Held held, long timeoutMs) throws InterruptedException {
            if (!Boolean.TRUE.equals(hello.get("marks_first")) || (held != null && held.marked)) return null;
            var refused = poll(map("f", "mark", "key", key, "process", process), held, timeoutMs).refused();
            if (refused == null && held != null) held.marked = true;
            return refused;
        }

        /** Asks all replicas at the same time, until a majority has agreed or all have answered. */
        private Poll poll(Map<String, Object> request, Held held, long timeoutMs) throws InterruptedException {
            if (held != null) {
                request.putAll(map("token", held.grant.value.get("token"), "unique", held.grant.unique));
            }
            long deadline = System.nanoTime() + timeoutMs * 1_000_000;
            var poll = new Poll(replicas.size());
            if (replicas.size() == 1) {
                poll.ask(replicas.get(0), request, deadline);
            } else {
                for (Replica replica : replicas) threads.execute(() -> poll.ask(replica, request, deadline));
            }
            poll.await();
            return poll;
        }
    }

    /** The answers of the replicas. */
    private static final class Poll {
        private final int replicas;
        private int open;
        private final List<Map<String, Object>> agreed = new ArrayList<>();
        private final List<String> rejected = new ArrayList<>();
        private final List<String> unanswered = new ArrayList<>();
        private final List<String> unsent = new ArrayList<>();

        Poll(int replicas) {
            this.replicas = replicas;
            open = replicas;
            if (replicas == 0) unsent.add("no-storage: the hello named none");
        }

        void ask(Replica replica, Map<String, Object> request, long deadline) {
            try {
                var answer = replica.request(request, deadline);
                if (answer.get("fail") == null) note(agreed, answer);
                else note(rejected, (String) answer.get("fail"));
            } catch (Unanswered error) {
                note(error.sent ? unanswered : unsent, error.getMessage());
            }
        }

        private synchronized <T> void note(List<T> list, T entry) {
            list.add(entry);
            open -= 1;
            notifyAll();
        }

        private boolean majority() {
            return agreed.size() > replicas / 2;
        }

        synchronized void await() throws InterruptedException {
            while (open > 0 && !majority()) wait();
        }

        /** None where a majority agreed. */
        synchronized Map<String, Object> refused() {
            return majority() ? null : fail(error());
        }

        synchronized Map<String, Object> read() {
            // A read changes nothing, so a missing answer is a fail.
            if (!majority()) return refused();
            var newest = agreed.get(0);
            for (var next : agreed) {
                if (compare(list(next.get("version")), list(newest.get("version"))) > 0) newest = next;
            }
            return ok(newest.get("ok"));
        }

        synchronized Map<String, Object> written() {
            if (majority()) return ok(agreed.get(0).get("ok"));
            if (agreed.isEmpty() && unanswered.isEmpty()) return refused();
            return info(replicas > 1 ? "no-majority: " + error() : error());
        }

        private String error() {
            for (var errors : List.of(rejected, unanswered, unsent)) {
                if (!errors.isEmpty()) return errors.get(0);
            }
            return "too few replicas agreed";
        }

        /** Compares versions, which are pairs; none is the least. */
        private static int compare(List<?> one, List<?> other) {
            for (int i = 0; i < Math.min(one.size(), other.size()); i++) {
                int order = Long.compare((Long) one.get(i), (Long) other.get(i));
                if (order != 0) return order;
            }
            return one.size() - other.size();
        }
    }

    /** A request to the storage that has no answer: whether it was sent decides between fail and info. */
    private static final class Unanswered extends Exception {
        final boolean sent;

        Unanswered(String message, boolean sent) {
            super(message);
            this.sent = sent;
        }
    }

    /** A storage server, with a connection of one process. */
    private static final class Replica {
        private final InetSocketAddress address;
        private volatile SocketChannel channel;
        private volatile boolean closed;
        private BufferedReader answers;
        private long last;

        Replica(String address) {
            this.address = socketAddress(address);
        }

        void close() {
            closed = true;
            disconnect();
        }

        private void disconnect() {
            SocketChannel channel = this.channel;
            this.channel = null;
            try {
                if (channel != null) channel.close();
            } catch (IOException ignored) {
                // It is of no more use either way.
            }
        }

        synchronized Map<String, Object> request(Map<String, Object> request, long deadline) throws Unanswered {
            connect(deadline);
            try {
                return exchange(request, deadline);
            } catch (SocketTimeoutException late) {
                disconnect();
                throw new Unanswered("timeout: the storage did not answer in time", true);
            } catch (IOException broken) {
                disconnect();
                throw new Unanswered("disconnected: the connection to the storage broke before it answered", true);
            }
        }

        private void connect(long deadline) throws Unanswered {
            if (channel != null && isStale()) disconnect();
            while (channel == null) {
                int left = (int) ((deadline - System.nanoTime()) / 1_000_000);
                if (left <= 0 || closed) throw new Unanswered("unreachable: no connection to the storage", false);
                try {
                    dial(Math.min(left, DIAL_TIMEOUT_MS));
                } catch (IOException refused) {
                    disconnect();
                    pause(Math.min(left, DIAL_PAUSE_MS));
                }
            }
            if (System.nanoTime() >= deadline) throw new Unanswered("unreachable: no connection to the storage", false);
        }

        private void dial(int timeoutMs) throws IOException {
            long deadline = System.nanoTime() + timeoutMs * 1_000_000L;
            channel = SocketChannel.open();
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.socket().connect(address, timeoutMs);
            answers = new BufferedReader(new InputStreamReader(channel.socket().getInputStream(), StandardCharsets.UTF_8));
            // The kernel of a stopped storage accepts connections, too: only an answer shows that it serves.
            exchange(map("f", "ping", "key", ""), deadline);
        }

        /** Whether the other end has closed the connection: nothing else can come without a request. */
        private boolean isStale() {
            try {
                channel.configureBlocking(false);
                int read = channel.read(ByteBuffer.allocate(1));
                channel.configureBlocking(true);
                return read != 0;
            } catch (IOException broken) {
                return true;
            }
        }

        private Map<String, Object> exchange(Map<String, Object> request, long deadline) throws IOException {
            SocketChannel channel = this.channel;
            if (channel == null) throw new IOException("closed");
            var numbered = map("id", ++last);
            numbered.putAll(request);
            channel.socket().getOutputStream().write((Json.write(numbered) + "\n").getBytes(StandardCharsets.UTF_8));
            while (true) {
                channel.socket().setSoTimeout((int) Math.max(1, (deadline - System.nanoTime()) / 1_000_000));
                String line = answers.readLine();
                if (line == null) throw new IOException("closed");
                var answer = parse(line);
                if (Long.valueOf(last).equals(answer.get("id"))) return answer;
            }
        }

        private static void pause(int ms) {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** As much of JSON as the protocol needs: whole numbers are Long, others Double. */
    private static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        static Object parse(String text) {
            var json = new Json(text);
            Object value = json.value();
            if (json.peek() != 0) throw new IllegalArgumentException("more than one value");
            return value;
        }

        /** The next character that is no space; 0 at the end. */
        private char peek() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) at++;
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean next(char wanted) {
            boolean there = peek() == wanted;
            if (there) at++;
            return there;
        }

        private void expect(char wanted) {
            if (!next(wanted)) throw new IllegalArgumentException("expected " + wanted);
        }

        private Object value() {
            switch (peek()) {
                case '{':
                    return object();
                case '[':
                    return array();
                case '"':
                    return string();
                default:
                    return literal();
            }
        }

        private Map<String, Object> object() {
            var object = new LinkedHashMap<String, Object>();
            expect('{');
            if (next('}')) return object;
            do {
                peek();
                String name = string();
                expect(':');
                object.put(name, value());
            } while (next(','));
            expect('}');
            return object;
        }

        private List<Object> array() {
            var array = new ArrayList<Object>();
            expect('[');
            if (next(']')) return array;
            do array.add(value());
            while (next(','));
            expect(']');
            return array;
        }

        private String string() {
            var string = new StringBuilder();
            expect('"');
            while (text.charAt(at) != '"') {
                char next = text.charAt(at++);
                string.append(next == '\\' ? escaped() : next);
            }
            at++;
            return string.toString();
        }

        private char escaped() {
            char escape = text.charAt(at++);
            if (escape == 'u') return (char) Integer.parseInt(text.substring(at, at += 4), 16);
            int special = "bfnrt".indexOf(escape);
            return special < 0 ? escape : "\b\f\n\r\t".charAt(special);
        }

        private Object literal() {
            int begin = at;
            while (at < text.length() && ",:]} \t\r\n".indexOf(text.charAt(at)) < 0) at++;
            String word = text.substring(begin, at);
            switch (word) {
                case "true":
                    return true;
                case "false":
                    return false;
                case "null":
                    return null;
                default:
                    // A seed may be greater than the greatest long: it keeps its bits.
                    if (word.matches("\\d{19,20}")) return Long.parseUnsignedLong(word);
                    return word.matches("-?\\d{1,18}") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
            }
        }

        static String write(Object value) {
            var out = new StringBuilder();
            write(value, out);
            return out.toString();
        }

        private static void write(Object value, StringBuilder out) {
            if (value instanceof Map) {
                String comma = "{";
                for (var entry : ((Map<?, ?>) value).entrySet()) {
                    write(entry.getKey(), out.append(comma));
                    write(entry.getValue(), out.append(':'));
                    comma = ",";
                }
                out.append(comma.equals("{") ? "{}" : "}");
            } else if (value instanceof List) {
                String comma = "[";
                for (Object entry : (List<?>) value) {
                    write(entry, out.append(comma));
                    comma = ",";
                }
                out.append(comma.equals("[") ? "[]" : "]");
            } else if (value instanceof String) {
                quote((String) value, out);
            } else {
                out.append(value);
            }
        }

        private static void quote(String text, StringBuilder out) {
            out.append('"');
            for (char next : text.toCharArray()) {
                if (next == '"' || next == '\\') out.append('\\').append(next);
                else if (next < ' ') out.append(String.format("\\u%04x", (int) next));
                else out.append(next);
            }
            out.append('"');
        }
    }
}
