<?php
// A read-write lock and a semaphore on one Redis server, without any library: the holders are members of a sorted set. Each member
// says how many may hold the lock beside it, and its score until when it holds it, by the server's clock.

require 'fencepost.php';

use Fencepost\{Certain, Env, Grant, Lock, NotAcquired};

// Removes holders whose time is over, and adds one if none of them, nor it, is then one too many.
const TAKE = <<<'LUA'
local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local most = tonumber(ARGV[2])
for _, holder in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  most = math.min(most, tonumber(string.match(holder, '%d+')))
end
if redis.call('zcard', KEYS[1]) >= most then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
return 1
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

    /** Gives a grant where fewer than `$most` hold it, each of whom bears one more. Times are in seconds. */
    private function take(string $key, int $most, float $ttl, float $timeout): Grant
    {
        $this->value = "$most:" . bin2hex(random_bytes(16));
        $words = ['EVAL', TAKE, 1, $key, $this->value, $most, (int) ($ttl * 1000)];
        if (!$this->env->poll(fn (float $left) => $this->redis($left, ...$words) === ':1', $timeout)) {
            throw new NotAcquired('others hold the lock'); // each attempt was answered with no
        }
        return new Grant();
    }

    /** For a writer. */
    public function acquire(string $key, float $ttl, float $timeout): Grant
    {
        return $this->take($key, 1, $ttl, $timeout);
    }

    /** For a reader, of a lock with kind = "read-write". */
    public function acquireShared(string $key, float $ttl, float $timeout): Grant
    {
        return $this->take($key, ANY_NUMBER, $ttl, $timeout);
    }

    /** For one of the permits, of a lock with kind = "semaphore". */
    public function acquirePermit(string $key, int $permits, float $ttl, float $timeout): Grant
    {
        return $this->take($key, $permits, $ttl, $timeout);
    }

    public function release(string $key): bool
    {
        return $this->redis(1.0, 'ZREM', $key, $this->value) === ':1';
    }
}

Fencepost\run(fn (Env $env) => new Example($env));
