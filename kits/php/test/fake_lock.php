<?php
// The fake lock of kits/tests/fake-lock.md.

require __DIR__ . '/../fencepost.php';

use Fencepost\{Certain, Env, Grant, Lock, NotAcquired, NotHeld};

class FakeLock implements Lock
{
    private int $token = 32;
    private int $attempts = 0;

    public function __construct(protected Env $env)
    {
        if (isset($env->options['broken'])) {
            throw new RuntimeException('broken');
        }
    }

    private function grant(): Grant
    {
        return new Grant(token: ++$this->token, unique: "u-{$this->env->process}");
    }

    public function acquire(string $key, float $ttl, float $timeout): Grant|bool|null
    {
        [$verb, $other] = [...explode(':', $key), ''];
        return match ($verb) {
            'taken' => throw new NotAcquired('by another'),
            'nothing' => null,
            'unsure' => throw new RuntimeException('no answer'),
            'certain' => throw new Certain('unreachable: refused'),
            'slow' => $this->slow(),
            'polled' => $this->env->poll($this->third(...), $timeout),
            'never' => $this->env->poll(fn () => false, $timeout),
            'short', 'short-still' => new Grant(validity: 0.15),
            'long' => new Grant(validity: 60.0),
            'print' => $this->printing(),
            'access' => $this->access(),
            'lost' => $this->env->lost($key, 'session expired') ?? $this->grant(),
            'lost-taken' => $this->env->lost($key, 'session expired') ?? throw new NotAcquired('by another'),
            'lose' => $this->env->lost($other, 'session expired'),
            'renew' => $this->env->renewed($other, 0.005),
            default => $this->grant(),
        };
    }

    private function access(): Grant
    {
        $access = $this->env->access;
        $parts = [$access->user, $access->password, $access->tls?->ca, $access->tls?->certificate, $access->tls?->key];
        $parts[] = $this->env->servers[0]->tls_name;
        return new Grant(token: 1, unique: implode(' ', array_map(fn (?string $part) => $part ?? '-', $parts)));
    }

    private function slow(): Grant
    {
        usleep(500000);
        return $this->grant();
    }

    private function printing(): Grant
    {
        echo "printed by the library\n";
        return $this->grant();
    }

    private function third(): ?Grant
    {
        usleep(100000);
        return ++$this->attempts === 3 ? $this->grant() : null;
    }

    public function release(string $key): ?bool
    {
        return match ($key) {
            'slow' => $this->report('released slow'),
            'gone' => false,
            'removed' => true,
            'not-held' => throw new NotHeld('of another'),
            'certain-release' => throw new Certain('unreachable: refused'),
            'unsure-release' => throw new RuntimeException('no answer'),
            default => null,
        };
    }

    public function holds(string $key): ?bool
    {
        return $key === 'confused' ? throw new RuntimeException('confused') : ($key === 'doubted' ? null : true);
    }

    public function close(): void
    {
        $this->report("closed {$this->env->process}");
    }

    private function report(string $text): null
    {
        fwrite(STDERR, "$text\n");
        return null;
    }
}

/** With the option `kinds`. */
final class FakeLockOfKinds extends FakeLock
{
    public function prolong(string $key, float $ttl, float $timeout): ?bool
    {
        return match ($key) {
            'unsure-prolong' => throw new RuntimeException('no answer'),
            'not-held' => throw new NotHeld('of another'),
            'certain-prolong' => throw new Certain('unreachable: refused'),
            'lose' => $this->env->lost($key, 'session expired'),
            'gone' => false,
            'removed' => true,
            default => null,
        };
    }

    public function leader(string $key, float $timeout): int|string|null
    {
        return match ($key) {
            'unsure-leader' => throw new RuntimeException('no answer'),
            'certain-leader' => throw new Certain('unreachable: refused'),
            'vacant' => null,
            'first' => 0,
            'digits' => '12',
            'stranger' => 'someone',
            default => $this->env->process,
        };
    }

    public function acquireShared(string $key, float $ttl, float $timeout): Grant
    {
        return new Grant(unique: 'shared');
    }

    public function acquirePermit(string $key, int $permits, float $ttl, float $timeout): Grant
    {
        return new Grant(unique: "one of $permits");
    }

    public function reenter(string $key, float $ttl, float $timeout): Grant|bool|null
    {
        return match ($key) {
            'shut-out' => throw new NotAcquired('by another'),
            'short' => new Grant(validity: 60.0),
            default => $this->prolong($key, $ttl, $timeout),
        };
    }

    public function leave(string $key): ?bool
    {
        return $this->release($key);
    }

    public function acquireAll(array $keys, float $ttl, float $timeout): ?Grant
    {
        return $this->acquire(end($keys), $ttl, $timeout) ? new Grant(unique: 'all of ' . implode(' ', $keys)) : null;
    }

    public function releaseAll(array $keys): ?bool
    {
        return $this->release(end($keys));
    }
}

Fencepost\run(fn (Env $env) => isset($env->options['kinds']) ? new FakeLockOfKinds($env) : new FakeLock($env), fn (array $options) => []);
