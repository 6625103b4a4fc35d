<?php
/**
 * Fencepost's kit for PHP: makes a client of Fencepost from a lock. One file without dependencies, for PHP 8.2 or later
 * on the command line, with pcntl (Debian's php8.4-cli has it). Copy it beside your program; README.md says how to use it.
 *
 *     require 'fencepost.php';
 *     Fencepost\run(fn (Fencepost\Env $env) => new MyLock($env));   // acquire($key, $ttl, $timeout) and release($key)
 *
 * PHP does one thing at a time, so each process is an operating-system process of its own. Their parent routes lines, and
 * its number stands for all of them: a fault that stops it stops its children, too.
 */

declare(strict_types=1);

namespace Fencepost;

const VERSION = 1;
const TIMEOUT_DEFAULT_MS = 1000;
/** The least time that an attempt gets, in seconds: one that is cut off is indeterminate. */
const ATTEMPT = 0.3;
const DIAL_TIMEOUT = 1.0;
const DIAL_PAUSE = 0.05;
/** How often a lock that has a function `idle` is called while no operation waits, in seconds. */
const IDLE = 0.05;
/** The point between a careful process's look at its clock and its write. */
const CHECKED = 'between-check-and-write';

/**
 * The lock of one process. It may also have `holds($key): bool`, `close(): void` and `idle(): void`. A read-write lock also has
 * `acquireShared($key, $ttl, $timeout)`, for readers; a semaphore `acquirePermit($key, $permits, $ttl, $timeout)`, and its
 * `acquire` is not called. A reentrant lock has `reenter($key, $ttl, $timeout)` and `leave($key)`, a lock on several names
 * `acquireAll($keys, $ttl, $timeout)` and `releaseAll($keys)`. A lock whose user can prolong it has
 * `prolong($key, $ttl, $timeout)`. An election that can say who leads has `leader($key, $timeout)`: the number of
 * the process, or null where it knows of no leader. Times are in seconds.
 */
interface Lock
{
    /** Tries to get the lock. Returns a grant or true; false or null where it was refused. */
    public function acquire(string $key, float $ttl, float $timeout): Grant|bool|null;

    /** Gives the lock back. Returns whether that removed a lock, or null where the library does not say. */
    public function release(string $key): ?bool;
}

/** What `acquire` may return instead of true, when there is more to say. */
final class Grant
{
    /**
     * @param int|null $token fencing token, greater with each grant
     * @param string|null $unique value that no other grant has
     * @param float|null $validity for how long from now the lock is valid, as the library says
     * @param string[]|null $grantedBy names of the servers that granted it
     */
    public function __construct(
        public readonly ?int $token = null,
        public readonly ?string $unique = null,
        public readonly ?float $validity = null,
        public readonly ?array $grantedBy = null,
    ) {
    }
}

/** Thrown by `acquire`: every request was answered, and another holds the lock. */
final class NotAcquired extends \RuntimeException
{
}

/** Thrown by `release`: there was nothing to release. */
final class NotHeld extends \RuntimeException
{
}

/** It certainly did not happen. The text begins with a code of the protocol, such as `unreachable: …`. */
final class Certain extends \RuntimeException
{
}

/** What a lock may know and report. Each process has its own. */
final class Env
{
    public readonly string $client;
    public readonly string $lock;
    /** @var object[] the servers of the lock: name, address, host, port, tls_name (which its certificate must have) */
    public readonly array $servers;
    /**
     * What the servers ask of a client: user, password, and tls with the paths of files in PEM (ca, certificate, key). What they
     * do not ask for is null.
     */
    public readonly object $access;
    /** @var array<string, string> the options of lock.toml and the command line */
    public readonly array $options;
    /** The TTL of the run in seconds; null where the hello names none. */
    public readonly ?float $ttl;
    public readonly string $lease;
    /** A text where it is greater than PHP's greatest whole number. */
    public readonly int|string $seed;
    /** Drawn from the seed and the number of the process. */
    public readonly \Random\Randomizer $random;

    public function __construct(array $hello, public readonly int $process, private readonly Process $own)
    {
        $this->client = $hello['client'] ?? '';
        $this->lock = $hello['lock'] ?? '';
        $this->servers = array_map(function (array $server): object {
            $colon = strrpos($server['address'], ':');
            $place = ['host' => substr($server['address'], 0, $colon), 'port' => (int) substr($server['address'], $colon + 1)];
            return (object) ['tls_name' => trim($place['host'], '[]'), ...$server, ...$place];
        }, $hello['servers'] ?? []);
        $nothing = ['user' => null, 'password' => null, 'tls' => null];
        $access = [...$nothing, ...($hello['access'] ?? [])];
        if ($access['tls'] !== null) {
            $access['tls'] = (object) ['ca' => null, 'certificate' => null, 'key' => null, ...$access['tls']];
        }
        $this->access = (object) $access;
        $this->options = $hello['options'] ?? [];
        $this->ttl = isset($hello['ttl_ms']) ? $hello['ttl_ms'] / 1000 : null;
        $this->lease = $hello['lease'] ?? 'ttl';
        $this->seed = $hello['seed'] ?? 0;
        $this->random = new \Random\Randomizer(new \Random\Engine\Mt19937(crc32("$this->seed $process")));
    }

    /**
     * Repeats `$attempt($left)`, which must not block, until it gives a grant or the time is up; then returns null. The
     * TTL counts from the begin of the attempt that was granted; `$left` is the time that remains, and at least 0.3.
     */
    public function poll(callable $attempt, float $timeout): Grant|bool|null
    {
        $begun = now();
        do {
            $this->own->attemptBegins();
            $granted = $attempt(max(ATTEMPT, $begun + $timeout - now()));
            if ($granted) {
                return $granted;
            }
            usleep($this->random->getInt(1000, 10000));
            // None begins in the last twentieth of the time.
        } while (now() < $begun + 0.95 * $timeout);
        return null;
    }

    /** Reports that, as the library says, the lock is lost. */
    public function lost(string $key, string $reason): void
    {
        $this->own->lost($key, $reason);
    }

    /** Reports that the library prolonged the lease by a request that was sent `$age` seconds ago. */
    public function renewed(string $key, float $age = 0.0): void
    {
        $this->own->renewed($key, max(0.0, $age));
    }
}

/** Seconds of the monotonic clock. */
function now(): float
{
    return hrtime(true) / 1e9;
}

function encode(mixed $value): string
{
    return json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
}

function note(string $text): void
{
    fwrite(STDERR, $text . "\n");
}

function fail(string $error): array
{
    return ['type' => 'fail', 'error' => $error];
}

function described(\Throwable $error): string
{
    $cause = $error->getPrevious();
    return $error::class . ": {$error->getMessage()}" . ($cause ? ', because of ' . described($cause) : '');
}

/** How an operation ended that threw: indeterminate, unless the lock says that it is certain. */
function failed(\Throwable $error): array
{
    return match (true) {
        $error instanceof NotAcquired => fail("taken: {$error->getMessage()}"),
        $error instanceof NotHeld => fail("not-held: {$error->getMessage()}"),
        $error instanceof Certain => fail($error->getMessage()),
        default => ['type' => 'info', 'error' => 'raised: ' . described($error)],
    };
}

/** All names that an acquire or a release is of, each once (rule 27). */
function names(array $command): array
{
    return array_values(array_unique([$command['key'], ...($command['value']['also'] ?? [])]));
}

/** A stream that is read line by line. */
final class Lines
{
    public bool $ended = false;
    private string $rest = '';

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream)
    {
    }

    /** The lines that came since; to be called when there is something to read. */
    public function read(): array
    {
        $chunk = fread($this->stream, 1 << 16);
        $this->ended = $chunk === false || ($chunk === '' && feof($this->stream));
        $lines = explode("\n", $this->rest . $chunk);
        $this->rest = array_pop($lines);
        return $lines;
    }
}

/** Which of the streams can be read within so many seconds. */
function readable(array $streams, float $seconds): array
{
    $none = null;
    $found = @stream_select($streams, $none, $none, (int) $seconds, (int) (fmod($seconds, 1) * 1e6));
    return $found ? $streams : [];
}

/** One process, an independent user of the lock, in an operating-system process of its own. */
final class Process
{
    private ?Lock $lock = null;
    private Storage $storage;
    /** By key: the grant, until when it is valid, whether it is lost. */
    private array $held = [];
    /** The acquire that is under way: its names, when its latest attempt began, and what was reported meanwhile. */
    private ?array $acquiring = null;
    private array $queue = [];
    private bool $over = false;

    public function __construct(private readonly int $number, private readonly array $hello, private readonly Lines $parent, private readonly \Closure $make)
    {
        $this->storage = new Storage($hello, $number);
    }

    /** Carries out operations until the process is over and its parent has no more of them. */
    public function serve(): void
    {
        $idle = now() + IDLE;
        while ($this->queue || !$this->parent->ended) {
            $this->receive($this->queue ? 0 : IDLE);
            if ($this->queue) {
                $this->answer(...array_shift($this->queue));
            } elseif ($this->lock && !$this->over && now() >= $idle && method_exists($this->lock, 'idle')) {
                $this->lock->idle();
                $idle = now() + IDLE;
            }
        }
        $this->storage->close();
        if ($this->lock && method_exists($this->lock, 'close')) {
            $this->lock->close();
        }
    }

    /** Notes what the parent wrote: operations, or that the process is over. */
    private function receive(float $seconds): void
    {
        if ($this->parent->ended || !readable([$this->parent->stream], $seconds)) {
            return;
        }
        foreach ($this->parent->read() as $line) {
            [$write, $command] = explode("\t", $line, 2);
            $this->queue[] = [json_decode($command, true), (int) $write];
        }
        // The parent closes its end when the process is over.
        $this->over = $this->over || $this->parent->ended;
    }

    private function answer(array $command, int $write): void
    {
        try {
            $answer = $this->over ? fail('process-over: an operation before it was indeterminate') : $this->perform($command, $write);
        } catch (\Throwable $error) {
            $answer = failed($error);
        }
        $this->over = $this->over || $answer['type'] === 'info';
        $this->send(['id' => $command['id']] + $answer, $command['id'], $answer['type']);
        $ended = $this->acquiring;
        $this->acquiring = null;
        foreach ($ended['lost'] ?? [] as $key => $reason) {
            $this->lost((string) $key, $reason);
        }
    }

    /** Writes a line to the parent, with the id and the type of an answer. */
    private function send(array $line, int|string $id = '-', string $type = '-'): void
    {
        send($this->parent->stream, "$id\t$type\t" . encode($line) . "\n");
    }

    public function attemptBegins(): void
    {
        if ($this->acquiring) {
            $this->acquiring['begun'] = now();
        }
    }

    public function lost(string $key, string $reason): void
    {
        if (in_array($key, $this->acquiring['names'] ?? [], true)) {
            $this->acquiring['lost'][$key] = $reason;
        } elseif (!$this->over && isset($this->held[$key]) && !$this->held[$key]->lost) {
            $this->held[$key]->lost = true;
            $this->send(['event' => 'lost', 'process' => $this->number, 'key' => $key, 'reason' => $reason]);
        }
    }

    public function renewed(string $key, float $age): void
    {
        if (in_array($key, $this->acquiring['names'] ?? [], true)) {
            $this->acquiring['renewed'] = now() - $age;
        } elseif (!$this->over && isset($this->held[$key]) && !$this->held[$key]->lost) {
            $held = $this->held[$key];
            $held->validUntil = $held->validUntil === null ? null : now() - $age + $held->ttl;
            $this->send(['event' => 'renewed', 'process' => $this->number, 'key' => $key, 'age_ms' => (int) ceil($age * 1000)]);
        }
    }

    private function perform(array $command, int $write): array
    {
        ['f' => $f, 'key' => $key] = $command;
        $timeout = ($command['timeout_ms'] ?? TIMEOUT_DEFAULT_MS) / 1000;
        $asked = now();
        try {
            $this->lock ??= ($this->make)(new Env($this->hello, $this->number, $this));
        } catch (\Throwable $error) {
            // Nothing of the operation was begun.
            return $f === 'holds' ? ['type' => 'ok', 'value' => false] : fail("unreachable: the lock could not be made: {$error->getMessage()}");
        }
        $held = $this->held[$key] ?? null;
        return match ($f) {
            'acquire' => $this->acquire($key, $command, $timeout, $asked),
            'release' => $this->release($command),
            'leave' => $this->leave($key),
            'prolong', 'reenter' => $this->prolong($f, $key, ($command['ttl_ms'] ?? 0) / 1000, $timeout),
            'leader' => $this->leader($key, $timeout),
            'holds' => ['type' => 'ok', 'value' => $this->believes($key)],
            'read' => $this->storage->read($key, $held, $timeout),
            'write' => $this->hesitates($key) ?? $this->storage->write($key, $command['value'] ?? null, $held, $timeout, $write),
            default => fail("bad-command: this client does not know $f"),
        };
    }

    private function acquire(string $key, array $command, float $timeout, float $asked): array
    {
        $ttl = ($command['ttl_ms'] ?? 0) / 1000;
        if ($ttl <= 0) {
            return fail('bad-command: an acquire needs a ttl_ms greater than 0');
        }
        $wish = $command['value'] ?? [];
        $mode = $wish['mode'] ?? 'exclusive';
        if (!in_array($mode, ['exclusive', 'shared'], true)) {
            return fail("bad-command: unknown mode $mode: expected shared or exclusive");
        }
        [$function, $share] = [$mode === 'shared' ? 'acquireShared' : 'acquire', [$key]];
        if (array_key_exists('capacity', $wish)) {
            [$function, $share] = ['acquirePermit', [$key, $wish['capacity']]];
            if (!is_int($wish['capacity']) || $wish['capacity'] < 1) {
                return fail('bad-command: a semaphore needs a capacity greater than 0');
            }
        }
        if (isset($wish['also'])) {
            $also = $wish['also'];
            if (!is_array($also) || !array_is_list($also) || array_filter($also, fn ($name) => !is_string($name))) {
                return fail('bad-command: the names of a set are a list of texts');
            }
            [$function, $share] = ['acquireAll', [names($command)]];
        }
        if (!method_exists($this->lock, $function)) {
            return fail("bad-command: this lock has no $function");
        }
        $this->acquiring = ['names' => names($command), 'asked' => $asked, 'begun' => now()];
        $granted = $this->lock->$function(...$share, ...[$ttl, $timeout]);
        if (!$granted) {
            return fail("refused-by-library: $function returned " . encode($granted));
        }
        $value = $this->granted($granted === true ? new Grant() : $granted, $ttl);
        $this->receive(0);
        if ($this->over) {
            // Granted so late, it is given back, as by a program that no longer needs it.
            $this->release($command);
        }
        return ['type' => 'ok', 'value' => (object) $value];
    }

    /** Begins the belief in a grant. Returns the value of the answer. */
    private function granted(Grant $grant, float $ttl): array
    {
        $value = array_filter(['token' => $grant->token, 'granted_by' => $grant->grantedBy], fn ($it) => $it !== null);
        $validUntil = null;
        if (($this->hello['lease'] ?? 'ttl') === 'ttl') {
            $validUntil = $grant->validity === null ? $this->acquiring['begun'] + $ttl : now() + $grant->validity;
            $value['validity_ms'] = (int) floor(1000 * ($grant->validity ?? max(0, $validUntil - now())));
            $waited = (int) floor(1000 * (now() - $this->acquiring['asked']));
            if ($waited > 0) {
                $value['waited_ms'] = $waited;
            }
            $validUntil = isset($this->acquiring['renewed']) ? $this->acquiring['renewed'] + $ttl : $validUntil;
        }
        $credentials = array_filter(['token' => $grant->token, 'unique' => $grant->unique], fn ($it) => $it !== null);
        foreach ($this->acquiring['names'] as $name) {
            $this->held[$name] = (object) [...compact('credentials', 'ttl', 'validUntil'), 'lost' => false, 'marked' => false];
        }
        return $value;
    }

    private function release(array $command): array
    {
        $names = names($command);
        // Whatever becomes of it: a process that began to release no longer works under the lock.
        $value = ['believed' => !in_array(false, array_map($this->believes(...), $names), true)];
        $held = array_intersect_key($this->held, array_flip($names));
        $this->held = array_diff_key($this->held, $held);
        if (count($held) < count($names)) {
            return fail('not-held: this process has not acquired it') + ['value' => $value];
        }
        try {
            $isSet = isset($command['value']['also']);
            $removed = $isSet ? $this->lock->releaseAll($names) : $this->lock->release($command['key']);
            if ($removed === false) {
                throw new NotHeld('the release removed nothing');
            }
            return ['type' => 'ok', 'value' => $value + ($removed ? ['removed' => true] : [])];
        } catch (\Throwable $error) {
            return failed($error) + ['value' => $value + ($error instanceof NotHeld ? ['removed' => false] : [])];
        }
    }

    /** Releases once what the process acquired more than once (rule 26). */
    private function leave(string $key): array
    {
        $value = ['believed' => $this->believes($key)];
        $held = $this->held[$key] ?? null;
        if (!$held || !method_exists($this->lock, 'leave')) {
            $has = method_exists($this->lock, 'leave');
            return fail($has ? 'not-held: this process has not acquired it' : 'bad-command: this lock has no leave') + ['value' => $value];
        }
        try {
            $removed = $this->lock->leave($key);
            return ['type' => 'ok', 'value' => $value + (is_bool($removed) ? ['removed' => $removed] : [])];
        } catch (\Throwable $error) {
            $held->lost = $held->lost || $error instanceof NotHeld;
            return failed($error) + ['value' => $value + ($error instanceof NotHeld ? ['removed' => false] : [])];
        }
    }

    /** Prolongs what the process holds, or acquires it once more (rules 25 and 26). */
    private function prolong(string $f, string $key, float $ttl, float $timeout): array
    {
        if ($ttl <= 0 || !method_exists($this->lock, $f)) {
            return fail('bad-command: ' . ($ttl > 0 ? "this lock has no $f" : "a $f needs a ttl_ms greater than 0"));
        }
        $held = $this->held[$key] ?? null;
        if (!$held) {
            return fail('not-held: this process has not acquired it');
        }
        $begun = now();
        try {
            $granted = $this->lock->$f($key, $ttl, $timeout);
            if ($granted === false) {
                throw new NotHeld("$f returned false");
            }
        } catch (NotHeld $error) {
            $held->lost = true;
            return failed($error);
        }
        $validity = $granted instanceof Grant ? $granted->validity : null;
        if ($held->validUntil === null || $f === 'reenter' && $validity === null) {
            return ['type' => 'ok'];
        }
        $held->ttl = $ttl;
        $held->validUntil = $f === 'reenter' ? now() + $validity : $begun + $ttl;
        return ['type' => 'ok'] + ($f === 'reenter' ? ['value' => ['validity_ms' => (int) floor(1000 * $validity)]] : []);
    }

    /** Asks who leads (rule 29). That changes nothing, so no answer is an info. */
    private function leader(string $key, float $timeout): array
    {
        if (!method_exists($this->lock, 'leader')) {
            return fail('bad-command: this lock has no leader');
        }
        try {
            $named = $this->lock->leader($key, $timeout);
            // 18 digits: more of them may be no whole number of PHP.
            $number = is_string($named) && preg_match('/^\d{1,18}$/D', $named) ? (int) $named : $named;
            if ($number !== null && (!is_int($number) || $number < 0)) {
                $shown = is_scalar($named) ? encode($named) : get_debug_type($named);
                throw new \UnexpectedValueException("leader returned $shown: expected the number of a process, or null");
            }
            return ['type' => 'ok', 'value' => $number];
        } catch (\Throwable $error) {
            return fail(failed($error)['error']);
        }
    }

    /** A careless process believes until it releases or loses its lock; a careful one also looks at its clock, and asks the lock. */
    private function believes(string $key): bool
    {
        $held = $this->held[$key] ?? null;
        if (!$held || $held->lost || $this->over) {
            return false;
        }
        if (!($this->hello['careful'] ?? false)) {
            return true;
        }
        if ($held->validUntil !== null && now() >= $held->validUntil) {
            return false;
        }
        try {
            return !method_exists($this->lock, 'holds') || $this->lock->holds($key);
        } catch (\Throwable $error) {
            note("process $this->number, holds: $error");
            return true;
        }
    }

    /** Before a write: the answer of a careful process that does not believe, or null. */
    private function hesitates(string $key): ?array
    {
        if (!($this->hello['careful'] ?? false)) {
            return null;
        }
        if (!$this->believes($key)) {
            return fail("gave-up: the lock is no longer valid by this client's own clock");
        }
        foreach ($this->hello['pause_at'] ?? [] as $text) {
            if (preg_match('/^' . CHECKED . '=([\d.]+)(m?)s$/', $text, $found)) {
                $this->send(['event' => 'at', 'process' => $this->number, 'key' => $key, 'point' => CHECKED]);
                usleep((int) ($found[1] * ($found[2] ? 1000 : 1000000)));
            }
        }
        return null;
    }
}

/** One process's way to the storage, or to its replicas, of which a majority decides. */
final class Storage
{
    /** @var Replica[] */
    private array $replicas;
    private bool $marks;

    public function __construct(array $hello, private readonly int $process)
    {
        $addresses = $hello['storage_replicas'] ?? [];
        $addresses = count($addresses) > 1 ? $addresses : array_filter([$hello['storage'] ?? null]);
        $this->replicas = array_map(fn (string $address) => new Replica($address), $addresses);
        $this->marks = $hello['marks_first'] ?? false;
    }

    public function close(): void
    {
        array_map(fn (Replica $replica) => $replica->disconnect(), $this->replicas);
    }

    public function read(string $key, ?object $held, float $timeout): array
    {
        // A process without credentials cannot mark, and only looks.
        $refused = $held?->credentials ? $this->mark($key, $held, $timeout) : null;
        if ($refused) {
            return $refused;
        }
        $poll = $this->poll(['f' => 'read', 'key' => $key], $held, $timeout);
        if (!$poll->majority) {
            // A read changes nothing, so a missing answer is a fail.
            return fail($poll->error);
        }
        usort($poll->agreed, fn (array $one, array $other) => ($other['version'] ?? [-1, -1]) <=> ($one['version'] ?? [-1, -1]));
        return ['type' => 'ok', 'value' => $poll->agreed[0]['ok'] ?? null];
    }

    /** @param int $number of the write, among those of the client */
    public function write(string $key, mixed $value, ?object $held, float $timeout, int $number): array
    {
        if (!is_int($value) && !(is_array($value) && array_is_list($value))) {
            return fail('bad-command: a write needs a value, a whole number or a list');
        }
        $refused = $this->mark($key, $held, $timeout);
        if ($refused) {
            return $refused;
        }
        $replicated = count($this->replicas) > 1;
        $request = ['f' => 'write', 'key' => $key, 'value' => $value] + ($replicated ? ['number' => $number] : []);
        $poll = $this->poll($request, $held, $timeout);
        if ($poll->majority) {
            return ['type' => 'ok', 'value' => $poll->agreed[0]['ok'] ?? null];
        }
        if (!$poll->agreed && !$poll->unanswered) {
            return fail($poll->error);
        }
        return ['type' => 'info', 'error' => $replicated ? "no-majority: $poll->error" : $poll->error];
    }

    private function mark(string $key, ?object $held, float $timeout): ?array
    {
        if (!$this->marks || $held?->marked) {
            return null;
        }
        $poll = $this->poll(['f' => 'mark', 'key' => $key], $held, $timeout);
        if ($poll->majority && $held) {
            $held->marked = true;
        }
        return $poll->majority ? null : fail($poll->error);
    }

    /** Asks all replicas at the same time, until a majority has agreed, all have answered, or the time is up. */
    private function poll(array $request, ?object $held, float $timeout): object
    {
        $deadline = now() + $timeout;
        foreach ($this->replicas as $replica) {
            $replica->begin($request + ['process' => $this->process] + ($held->credentials ?? []));
        }
        do {
            $agreed = array_filter(array_map(fn (Replica $it) => isset($it->answer['fail']) ? null : $it->answer, $this->replicas));
            $majority = count($agreed) > count($this->replicas) / 2;
            $open = array_filter($this->replicas, fn (Replica $it) => $it->isOpen());
        } while (!$majority && $open && $this->advance($open, $deadline));
        $errors = ['rejected' => [], 'unanswered' => [], 'unsent' => $this->replicas ? [] : ['no-storage: the hello named none']];
        foreach ($this->replicas as $replica) {
            [$kind, $error] = $replica->error($majority);
            $errors[$kind][] = $error;
        }
        $error = [...$errors['rejected'], ...$errors['unanswered'], ...$errors['unsent']][0] ?? 'too few replicas agreed';
        return (object) ['agreed' => array_values($agreed), 'unanswered' => $errors['unanswered'], 'majority' => $majority, 'error' => $error];
    }

    /** Waits for what the replicas have to say. Gives false when the time is up. */
    private function advance(array $replicas, float $deadline): bool
    {
        $left = $deadline - now();
        if ($left <= 0) {
            return false;
        }
        $reads = $writes = [];
        foreach ($replicas as $replica) {
            $replica->dial();
            if ($replica->stream && $replica->connecting) {
                $writes[] = $replica->stream;
            } elseif ($replica->stream) {
                $reads[] = $replica->stream;
            }
        }
        $wait = (int) (1e6 * min($left, DIAL_PAUSE));
        if ($reads || $writes) {
            $none = null;
            @stream_select($reads, $writes, $none, 0, $wait);
        } else {
            usleep($wait);
        }
        foreach ($replicas as $replica) {
            $replica->advance(in_array($replica->stream, $reads, true), in_array($replica->stream, $writes, true));
        }
        return true;
    }
}

/** A storage server, with a connection of one process, and the latest request to it. */
final class Replica
{
    /** @var resource|null */
    public mixed $stream = null;
    public bool $connecting = false;
    public ?array $answer = null;
    private ?Lines $lines = null;
    private bool $serves = false;
    private array $request = [];
    private bool $sent = false;
    private bool $broken = false;
    private int $last = 0;
    private float $dialled = 0.0;

    public function __construct(private readonly string $address)
    {
    }

    public function disconnect(): void
    {
        if ($this->stream) {
            fclose($this->stream);
        }
        $this->stream = null;
        $this->serves = false;
    }

    public function begin(array $request): void
    {
        $this->request = $request;
        $this->answer = null;
        $this->sent = $this->broken = false;
        if ($this->serves && readable([$this->stream], 0)) {
            // Answers that came too late, or the end of the connection.
            $this->lines->read();
            $this->lines->ended and $this->disconnect();
        }
        if ($this->serves) {
            $this->ask();
        }
    }

    /** Whether an answer can still come. */
    public function isOpen(): bool
    {
        return $this->answer === null && !$this->broken;
    }

    public function dial(): void
    {
        $tired = $this->stream && !$this->serves && now() > $this->dialled + DIAL_TIMEOUT;
        if ($tired) {
            $this->disconnect();
        }
        if ($this->stream || now() < $this->dialled + DIAL_PAUSE) {
            return;
        }
        $this->dialled = now();
        $context = stream_context_create(['socket' => ['tcp_nodelay' => true]]);
        $flags = STREAM_CLIENT_CONNECT | STREAM_CLIENT_ASYNC_CONNECT;
        $this->stream = @stream_socket_client("tcp://$this->address", $code, $text, DIAL_TIMEOUT, $flags, $context) ?: null;
        $this->connecting = true;
    }

    public function advance(bool $readable, bool $writable): void
    {
        if ($this->connecting && $writable) {
            $this->connecting = false;
            $this->lines = new Lines($this->stream);
            // The kernel of a stopped storage accepts connections, too: only an answer shows that it serves.
            stream_socket_get_name($this->stream, true) === false ? $this->disconnect() : $this->write(['f' => 'ping', 'key' => '']);
        } elseif ($readable) {
            $this->receive();
        }
    }

    private function receive(): void
    {
        foreach ($this->lines->read() as $line) {
            $answer = json_decode($line, true);
            if (($answer['id'] ?? null) !== $this->last) {
                continue;
            }
            if (!$this->serves) {
                $this->serves = true;
                $this->ask();
            } elseif ($this->sent) {
                $this->answer = $answer;
            }
        }
        if ($this->lines->ended) {
            $this->broken = $this->sent && $this->answer === null;
            $this->disconnect();
        }
    }

    private function ask(): void
    {
        $this->sent = true;
        $this->write($this->request);
    }

    private function write(array $request): void
    {
        send($this->stream, encode(['id' => ++$this->last] + $request) . "\n");
    }

    /** The end of the request: which kind of error it is, if it is one, and its text. A late one loses its connection. */
    public function error(bool $majority): array
    {
        if ($this->answer !== null) {
            return isset($this->answer['fail']) ? ['rejected', $this->answer['fail']] : ['none', ''];
        }
        if (!$this->sent) {
            return ['unsent', 'unreachable: no connection to the storage'];
        }
        if ($this->broken) {
            return ['unanswered', 'disconnected: the connection to the storage broke before it answered'];
        }
        if (!$majority) {
            $this->disconnect();
        }
        return ['unanswered', 'timeout: the storage did not answer in time'];
    }
}

/** The parent: starts an operating-system process for each process, and passes lines between them and the controller. */
final class Router
{
    /** @var object[] by operating-system process: its lines, the number of its process, the ids that it has not answered */
    private array $children = [];
    /** @var object[] by the number of the process: the child that serves it, until it is over */
    private array $current = [];
    private int $writes = 0;

    /**
     * @param array $hello the controller's
     * @param resource $output
     */
    public function __construct(private readonly array $hello, private readonly Lines $input, private readonly mixed $output, private readonly \Closure $make)
    {
    }

    /** Routes until the input ends. */
    public function run(array $first): void
    {
        array_map($this->obey(...), $first);
        while (!$this->input->ended) {
            $streams = array_map(fn (object $child) => $child->lines->stream, $this->children);
            foreach (readable(['input' => $this->input->stream] + $streams, 60) as $name => $_) {
                if ($name === 'input') {
                    array_map($this->obey(...), $this->input->read());
                } else {
                    $this->pass($name);
                }
            }
        }
        // Nothing is released: the children end as they are.
        $pids = array_keys($this->children);
        if (function_exists('posix_kill')) {
            array_map(fn (int $pid) => posix_kill($pid, SIGKILL), $pids);
        } elseif ($pids) {
            exec('kill -9 ' . implode(' ', $pids) . ' 2>/dev/null');
        }
    }

    private function obey(string $line): void
    {
        $command = parse($line);
        $number = $command['process'] ?? -1;
        if (($command['event'] ?? null) === 'over') {
            $this->end($number);
        }
        if (!isset($command['f'], $command['id'])) {
            return; // an event, or a line of a later version
        }
        $child = $this->current[$number] ??= $this->start($number);
        $child->open[$command['id']] = true;
        $write = $command['f'] === 'write' ? ++$this->writes : 0;
        send($child->lines->stream, "$write\t$line\n");
    }

    /** No more lines for this process: its child closes its lock and ends. */
    private function end(int $number): void
    {
        if (isset($this->current[$number])) {
            stream_socket_shutdown($this->current[$number]->lines->stream, STREAM_SHUT_WR);
            unset($this->current[$number]);
        }
    }

    private function start(int $number): object
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid === 0) {
            pcntl_signal(SIGCHLD, SIG_DFL);
            foreach ($this->children as $child) {
                fclose($child->lines->stream);
            }
            array_map(fclose(...), [$ours, $this->input->stream, $this->output]);
            (new Process($number, $this->hello, new Lines($theirs), $this->make))->serve();
            exit(0);
        }
        fclose($theirs);
        return $this->children[$pid] = (object) ['number' => $number, 'lines' => new Lines($ours), 'open' => []];
    }

    /** Passes on the lines of a child. */
    private function pass(int $pid): void
    {
        $child = $this->children[$pid];
        foreach ($child->lines->read() as $line) {
            [$id, $type, $json] = explode("\t", $line, 3);
            unset($child->open[$id]);
            send($this->output, "$json\n");
            if ($type === 'info' && ($this->current[$child->number] ?? null) === $child) {
                $this->end($child->number);
            }
        }
        if (!$child->lines->ended) {
            return;
        }
        unset($this->children[$pid]);
        if (($this->current[$child->number] ?? null) === $child) {
            unset($this->current[$child->number]);
        }
        foreach (array_keys($child->open) as $id) {
            send($this->output, encode(['id' => $id, 'type' => 'info', 'error' => 'raised: the operating-system process of this process ended']) . "\n");
        }
    }
}

/** @param resource $stream */
function send(mixed $stream, string $bytes): void
{
    while ($bytes !== '' && ($written = @fwrite($stream, $bytes)) > 0) {
        $bytes = substr($bytes, $written);
    }
}

/** Ends the client with one sentence. */
function refuse(string $sentence): never
{
    note($sentence);
    exit(254);
}

function parse(string $line): array
{
    $parsed = json_decode($line, true, flags: JSON_BIGINT_AS_STRING);
    return is_array($parsed) ? $parsed : refuse('the controller sent a line that is no command: ' . substr($line, 0, 80));
}

/**
 * Serves the controller on standard input and output until the input ends.
 *
 * @param \Closure $make gives the lock of one process, of its Env
 * @param string[]|\Closure $can what the lock gives and reports: `lost`, `extend`, `token`, `unique`; where that depends on the options of
 *     the lock, a function of them
 */
function run(\Closure $make, array|\Closure $can = []): never
{
    [$input, $output] = [new Lines(fopen('php://fd/0', 'r')), fopen('php://fd/1', 'w')];
    // The standard streams belong to the protocol. What a library prints goes to standard error: the lowest free
    // descriptor is taken, which is the one that was just closed.
    fclose(STDIN);
    $null = fopen('/dev/null', 'r');
    fclose(STDOUT);
    $log = fopen('php://fd/2', 'w');
    pcntl_signal(SIGCHLD, SIG_IGN); // no child is waited for
    $lines = [];
    while (!$lines && !$input->ended) {
        $lines = $input->read();
    }
    $hello = $lines ? parse(array_shift($lines)) : refuse('the input ended before the hello');
    if (($hello['hello'] ?? null) !== VERSION) {
        refuse('this kit speaks version ' . VERSION . ' of the client protocol, and the first line is no hello of it');
    }
    $validity = ($hello['lease'] ?? 'ttl') === 'ttl' ? ['validity'] : [];
    $own = $can instanceof \Closure ? $can($hello['options'] ?? []) : $can;
    $all = array_values(array_unique([...($hello['claims'] ?? []), ...$validity, ...$own]));
    send($output, encode(['hello' => VERSION, 'can' => $all, 'pid' => getmypid()]) . "\n");
    (new Router($hello, $input, $output, $make))->run($lines);
    exit(0);
}
