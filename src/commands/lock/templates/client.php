<?php
// A lock of my own. Write acquire and release: everything else is done by the kit, fencepost.php.

require 'fencepost.php';

use Fencepost\{Certain, Env, Grant, Lock};

final class MyLock implements Lock
{
    // Connect here: one object for each process. $env->servers has the servers (name, host, port), $env->options the options.
    public function __construct(private Env $env)
    {
    }

    /** A grant or true, null or false if the library said no; an exception where that is unknown. In seconds. */
    public function acquire(string $key, float $ttl, float $timeout): Grant|bool|null
    {
        throw new Certain('unreachable: acquire in client.php is not written yet');
    }

%read-write
    /** The same for a reader. */
    public function acquireShared(string $key, float $ttl, float $timeout): Grant|bool|null
    {
        throw new Certain('unreachable: acquireShared in client.php is not written yet');
    }

%semaphore
    /** The same for one of the permits; acquire is not called. */
    public function acquirePermit(string $key, int $permits, float $ttl, float $timeout): Grant|bool|null
    {
        throw new Certain('unreachable: acquirePermit in client.php is not written yet');
    }

%reentrant
    /** Acquires it once more for its holder; false where it was no longer held. */
    public function reenter(string $key, float $ttl, float $timeout): Grant|bool|null
    {
        throw new Certain('unreachable: reenter in client.php is not written yet');
    }

    /** Releases once what was acquired more than once. */
    public function leave(string $key): ?bool
    {
        throw new Certain('unreachable: leave in client.php is not written yet');
    }

%several
    /** The same for all of these names, or none of them. */
    public function acquireAll(array $keys, float $ttl, float $timeout): Grant|bool|null
    {
        throw new Certain('unreachable: acquireAll in client.php is not written yet');
    }

    /** Gives all of them back, as release does. */
    public function releaseAll(array $keys): ?bool
    {
        throw new Certain('unreachable: releaseAll in client.php is not written yet');
    }

%
    /** True or false where the library says whether it removed a lock, else null. */
    public function release(string $key): ?bool
    {
        throw new Certain('unreachable: release in client.php is not written yet');
    }
}

Fencepost\run(fn (Env $env) => new MyLock($env));
