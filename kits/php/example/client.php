<?php
// A lock on one Redis server, without any library: SET NX PX to acquire, a script that compares to release.

require 'fencepost.php';

use Fencepost\{Certain, Env, Grant, Lock, NotAcquired};

const DELETE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

final class Example implements Lock
{
    private string $value;

    public function __construct(private Env $env)
    {
    }

    /** One command on a connection of its own; the first line of the answer. */
    private function redis(float $timeout, string|int ...$words): string
    {
        $stream = @stream_socket_client("tcp://{$this->env->servers[0]->address}", $code, $text, $timeout);
        if (!$stream) {
            throw new Certain("unreachable: $text"); // nothing was sent
        }
        stream_set_timeout($stream, (int) $timeout, (int) (fmod($timeout, 1) * 1e6));
        $request = array_map(fn (string|int $word) => '$' . strlen((string) $word) . "\r\n$word\r\n", $words);
        fwrite($stream, '*' . count($words) . "\r\n" . implode($request));
        return trim(fgets($stream) ?: throw new RuntimeException('no answer'));
    }

    public function acquire(string $key, float $ttl, float $timeout): Grant
    {
        $this->value = bin2hex(random_bytes(16));
        $set = fn (float $left) => $this->redis($left, 'SET', $key, $this->value, 'NX', 'PX', (int) ($ttl * 1000)) === '+OK';
        if (!$this->env->poll($set, $timeout)) {
            throw new NotAcquired('another holds the lock'); // each SET was answered with no
        }
        return new Grant(unique: $this->value);
    }

    public function release(string $key): bool
    {
        return $this->redis(1.0, 'EVAL', DELETE, 1, $key, $this->value) === ':1';
    }
}

Fencepost\run(fn (Env $env) => new Example($env));
