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
