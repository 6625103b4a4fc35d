import java.time.Duration;
import java.util.List;

/** The fake lock of kits/tests/fake-lock.md. */
class FakeLock implements Fencepost.Lock {
    private final Fencepost.Env env;
    private long token = 32;
    private int attempts;

    public static void main(String[] args) {
        Fencepost.run(env -> env.options.containsKey("kinds") ? new OfKinds(env) : new FakeLock(env));
    }

    /** With the option `kinds`. */
    private static final class OfKinds extends FakeLock {
        private OfKinds(Fencepost.Env env) {
            super(env);
        }

        @Override
        public boolean prolong(String key, Duration ttl, Duration timeout) {
            switch (key) {
                case "unsure-prolong":
                    throw new IllegalStateException("no answer");
                case "not-held":
                    throw new Fencepost.NotHeld("of another");
                case "certain-prolong":
                    throw new Fencepost.Certain("unreachable: refused");
                case "lose":
                    env().lost(key, "session expired");
                    return true;
                default:
                    return !key.equals("gone");
            }
        }

        @Override
        public Long leader(String key, Duration timeout) {
            switch (key) {
                case "unsure-leader":
                    throw new IllegalStateException("no answer");
                case "certain-leader":
                    throw new Fencepost.Certain("unreachable: refused");
                case "vacant":
                    return null;
                case "first":
                    return 0L;
                case "digits":
                    return Long.valueOf("12");
                case "stranger":
                    return Long.valueOf("someone");
                default:
                    return env().number;
            }
        }

        @Override
        public Fencepost.Grant acquireShared(String key, Duration ttl, Duration timeout) {
            return new Fencepost.Grant().unique("shared");
        }

        @Override
        public Fencepost.Grant acquirePermit(String key, long permits, Duration ttl, Duration timeout) {
            return new Fencepost.Grant().unique("one of " + permits);
        }

        @Override
        public Fencepost.Grant reenter(String key, Duration ttl, Duration timeout) {
            if (key.equals("shut-out")) throw new Fencepost.NotAcquired("by another");
            if (key.equals("short")) return new Fencepost.Grant().validity(Duration.ofSeconds(60));
            return prolong(key, ttl, timeout) ? new Fencepost.Grant() : null;
        }

        @Override
        public Boolean leave(String key) {
            return release(key);
        }

        @Override
        public Fencepost.Grant acquireAll(List<String> keys, Duration ttl, Duration timeout) throws Exception {
            var grant = acquire(keys.get(keys.size() - 1), ttl, timeout);
            return grant == null ? null : grant.unique("all of " + String.join(" ", keys));
        }

        @Override
        public Boolean releaseAll(List<String> keys) {
            return release(keys.get(keys.size() - 1));
        }
    }

    private FakeLock(Fencepost.Env env) {
        this.env = env;
        if (env.options.containsKey("broken")) throw new IllegalStateException("broken");
    }

    Fencepost.Env env() {
        return env;
    }

    private Fencepost.Grant grant() {
        token += 1;
        return new Fencepost.Grant().token(token).unique("u-" + env.number);
    }

    @Override
    public Fencepost.Grant acquire(String key, Duration ttl, Duration timeout) throws Exception {
        if (key.startsWith("lose:")) {
            env.lost(key.substring(5), "session expired");
            return null;
        }
        if (key.startsWith("renew:")) {
            env.renewed(key.substring(6), Duration.ofMillis(5));
            return null;
        }
        switch (key) {
            case "taken":
                throw new Fencepost.NotAcquired("by another");
            case "nothing":
                return null;
            case "unsure":
                throw new IllegalStateException("no answer");
            case "certain":
                throw new Fencepost.Certain("unreachable: refused");
            case "slow":
                Thread.sleep(500);
                return grant();
            case "polled":
                attempts = 0;
                return env.poll(timeout, left -> attempt());
            case "never":
                return env.poll(timeout, left -> null);
            case "short":
            case "short-still":
                return new Fencepost.Grant().validity(Duration.ofMillis(150));
            case "long":
                return new Fencepost.Grant().validity(Duration.ofSeconds(60));
            case "print":
                System.out.println("printed by the library");
                return grant();
            case "access":
                var access = env.access;
                String[] parts = {access.user, access.password, access.ca, access.certificate, access.key, env.servers.get(0).tlsName};
                for (int at = 0; at < parts.length; at++) if (parts[at] == null) parts[at] = "-";
                return new Fencepost.Grant().token(1).unique(String.join(" ", parts));
            case "lost":
                env.lost(key, "session expired");
                return grant();
            case "lost-taken":
                env.lost(key, "session expired");
                throw new Fencepost.NotAcquired("by another");
            default:
                return grant();
        }
    }

    private Fencepost.Grant attempt() throws Exception {
        Thread.sleep(100);
        attempts += 1;
        return attempts == 3 ? grant() : null;
    }

    @Override
    public Boolean release(String key) {
        switch (key) {
            case "slow":
                System.err.println("released slow");
                return null;
            case "gone":
                return false;
            case "removed":
                return true;
            case "not-held":
                throw new Fencepost.NotHeld("of another");
            case "certain-release":
                throw new Fencepost.Certain("unreachable: refused");
            case "unsure-release":
                throw new IllegalStateException("no answer");
            default:
                return null;
        }
    }

    @Override
    public boolean holds(String key) {
        if (key.equals("confused")) throw new IllegalStateException("confused");
        return !key.equals("doubted");
    }

    @Override
    public void close() {
        System.err.println("closed " + env.number);
    }
}
