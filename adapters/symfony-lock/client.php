<?php
// symfony/lock on one Redis, by phpredis, with attempts that do not block. `auto-release`: released by the lock's destructor;
// `initial-ttl`: the store is told the TTL, too; `refresh`: the lock is refreshed while it is held.

require 'fencepost.php';
require 'Symfony/Component/Lock/autoload.php';

use Fencepost\{Env, Grant, Lock};
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\{LockFactory, LockInterface, Store\RedisStore};

final class SymfonyLock implements Lock
{
    private Redis $redis;
    private LockFactory $factory;
    private ?LockInterface $lock = null;
    private string $key = '';
    private float $refreshed = 0.0;

    public function __construct(private Env $env, private string $variant)
    {
        $this->redis = new Redis();
        $this->redis->connect($env->servers[0]->host, $env->servers[0]->port, 1.0);
        $store = $variant === 'initial-ttl' ? new RedisStore($this->redis, $env->ttl) : new RedisStore($this->redis);
        $this->factory = new LockFactory($store);
    }

    public function acquire(string $key, float $ttl, float $timeout): ?Grant
    {
        $this->redis->setOption(Redis::OPT_READ_TIMEOUT, $timeout);
        $lock = $this->factory->createLock($key, $ttl);
        if (!$this->env->poll(fn () => $lock->acquire(), $timeout)) {
            return null;
        }
        [$this->lock, $this->key, $this->refreshed] = [$lock, $key, Fencepost\now()];
        return new Grant(validity: $lock->getRemainingLifetime());
    }

    public function release(string $key): ?bool
    {
        [$lock, $this->lock] = [$this->lock, null];
        $this->redis->setOption(Redis::OPT_READ_TIMEOUT, 1.0);
        if ($this->variant === 'auto-release') {
            unset($lock);
        } else {
            $lock->release();
        }
        return null; // the store ignores whether its script removed anything
    }

    public function holds(string $key): bool
    {
        return $this->lock !== null && !$this->lock->isExpired();
    }

    /** Refreshes the lock at a third of its TTL, as a job would between two steps. */
    public function idle(): void
    {
        $begun = Fencepost\now();
        if ($this->variant !== 'refresh' || !$this->lock || $begun < $this->refreshed + $this->env->ttl / 3) {
            return;
        }
        try {
            $this->lock->refresh();
            $this->refreshed = $begun;
            $this->env->renewed($this->key, Fencepost\now() - $begun);
        } catch (LockConflictedException) {
            $this->env->lost($this->key, 'a refresh found the lock gone');
        } catch (Exception $error) {
            fwrite(STDERR, "process {$this->env->process}, refresh: {$error->getMessage()}\n"); // the next one may succeed
        }
    }

    public function close(): void
    {
        $this->redis->close();
    }
}

$variant = $argv[1] ?? '';
Fencepost\run(fn (Env $env) => new SymfonyLock($env, $variant), $variant === 'refresh' ? ['lost', 'extend'] : []);
