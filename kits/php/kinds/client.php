<?php
// A lock of any kind on one Redis server, without any library: the holders are members of a sorted set. Each member says how many
// may hold the lock beside it, and its score until when it holds it, by the server's clock.

require 'fencepost.php';

use Fencepost\{Certain, Env, Grant, Lock, NotAcquired, NotHeld};

// Removes holders whose time is over.
const CLEAN = <<<'LUA'
local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
for _, key in ipairs(KEYS) do redis.call('zremrangebyscore', key, '-inf', now) end

LUA;
// Adds a holder to each key if none of those there, nor it, is then one too many.
const TAKE = CLEAN . <<<'LUA'
for _, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2])
  for _, holder in ipairs(redis.call('zrange', key, 0, -1)) do
    most = math.min(most, tonumber(string.match(holder, '%d+')))
  end
  if redis.call('zcard', key) >= most then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('zadd', key, now + ARGV[3], ARGV[1]) end
return 1
LUA;
// Adds what a holder acquires again, for as long as it has the lock.
const TAKE_AGAIN = CLEAN . <<<'LUA'
local score = redis.call('zscore', KEYS[1], ARGV[1])
return score and redis.call('zadd', KEYS[1], score, ARGV[2]) or 0
LUA;
const GIVE_BACK = <<<'LUA'
local removed = 0
for _, key in ipairs(KEYS) do removed = removed + redis.call('zrem', key, ARGV[1]) end
return removed
LUA;
const ANY_NUMBER = 1000000000;

final class Example implements Lock
{
    private string $value;

    public function __construct(private Env $env)
    {
    }

    /** One command on a connection of its own; the first line of the answer. */
    private function redis(float $timeout, string|int ...$words): string
    {
        [$server, $access] = [$this->env->servers[0], $this->env->access];
        $tls = ['peer_name' => $server->tls_name, 'cafile' => $access->tls?->ca];
        $tls += ['local_cert' => $access->tls?->certificate, 'local_pk' => $access->tls?->key];
        $context = stream_context_create(['ssl' => array_filter($tls)]);
        $scheme = $access->tls ? 'tls' : 'tcp';
        $stream = @stream_socket_client("$scheme://$server->address", $code, $text, $timeout, context: $context);
        if (!$stream) {
            throw new Certain("unreachable: $text"); // nothing was sent
        }
        stream_set_timeout($stream, (int) $timeout, (int) (fmod($timeout, 1) * 1e6));
        $commands = $access->password === null ? [$words] : [['AUTH', $access->user, $access->password], $words];
        foreach ($commands as $command) {
            $request = array_map(fn (string|int $word) => '$' . strlen((string) $word) . "\r\n$word\r\n", $command);
            fwrite($stream, '*' . count($command) . "\r\n" . implode($request));
        }
        if ($access->password !== null && trim((string) fgets($stream)) !== '+OK') {
            throw new Certain('unreachable: the server does not take the password');
        }
        return trim(fgets($stream) ?: throw new RuntimeException('no answer'));
    }

    /** Runs a script, which gives a number: the answer is `:1`. */
    private function script(float $timeout, string $script, array $keys, string|int ...$words): int
    {
        return (int) substr($this->redis($timeout, 'EVAL', $script, count($keys), ...$keys, ...$words), 1);
    }

    /** Gives a grant where fewer than `$most` hold each of them, each of whom bears one more. Times are in seconds. */
    private function take(array $keys, int $most, float $ttl, float $timeout): Grant
    {
        $this->value = "$most:" . bin2hex(random_bytes(16));
        $words = [TAKE, $keys, $this->value, $most, (int) ($ttl * 1000)];
        if (!$this->env->poll(fn (float $left) => $this->script($left, ...$words) === 1, $timeout)) {
            throw new NotAcquired('others hold the lock'); // each attempt was answered with no
        }
        return new Grant();
    }

    /** For a writer, or the only holder. */
    public function acquire(string $key, float $ttl, float $timeout): Grant
    {
        return $this->take([$key], 1, $ttl, $timeout);
    }

    /** For a reader, of a lock with kind = "read-write". */
    public function acquireShared(string $key, float $ttl, float $timeout): Grant
    {
        return $this->take([$key], ANY_NUMBER, $ttl, $timeout);
    }

    /** For one of the permits, of a lock with kind = "semaphore". */
    public function acquirePermit(string $key, int $permits, float $ttl, float $timeout): Grant
    {
        return $this->take([$key], $permits, $ttl, $timeout);
    }

    /** For all of these names, or none, of a lock with kind = "several". */
    public function acquireAll(array $keys, float $ttl, float $timeout): Grant
    {
        return $this->take($keys, 1, $ttl, $timeout);
    }

    /** For the holder once more, of a lock with kind = "reentrant". */
    public function reenter(string $key, float $ttl, float $timeout): bool
    {
        if ($this->script($timeout, TAKE_AGAIN, [$key], $this->value, "$this->value+") === 0) {
            return false;
        }
        $this->value .= '+';
        return true;
    }

    /** Gives back what was acquired last, of a lock that is held more than once. */
    public function leave(string $key): void
    {
        if (!$this->release($key)) {
            throw new NotHeld('its time was over');
        }
        $this->value = substr($this->value, 0, -1);
    }

    public function release(string $key): bool
    {
        return $this->releaseAll([$key]);
    }

    public function releaseAll(array $keys): bool
    {
        return $this->script(1.0, GIVE_BACK, $keys, $this->value) === count($keys);
    }
}

Fencepost\run(fn (Env $env) => new Example($env));
