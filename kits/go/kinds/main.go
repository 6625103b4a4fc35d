// A lock of any kind on one Redis, without any library: the holders are members of a sorted set. Each member says how many may
// hold the lock beside it, and its score until when it holds it, by the server's clock.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example/fencepost"
)

// clean removes holders whose time is over.
const clean = `local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
for _, key in ipairs(KEYS) do redis.call('zremrangebyscore', key, '-inf', now) end
`

// take adds a holder to each key if none of those there, nor it, is then one too many.
const take = clean + `for _, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2])
  for _, holder in ipairs(redis.call('zrange', key, 0, -1)) do
    most = math.min(most, tonumber(string.match(holder, '%d+')))
  end
  if redis.call('zcard', key) >= most then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('zadd', key, now + ARGV[3], ARGV[1]) end
return 1`

// takeAgain adds what a holder acquires again, for as long as it has the lock.
const takeAgain = clean + `local score = redis.call('zscore', KEYS[1], ARGV[1])
return score and redis.call('zadd', KEYS[1], score, ARGV[2]) or 0`

const giveBack = `local removed = 0
for _, key in ipairs(KEYS) do removed = removed + redis.call('zrem', key, ARGV[1]) end
return removed`

const anyNumber = 1_000_000_000

type redisLock struct {
	env    *fencepost.Env
	tls    *tls.Config // nil: the server speaks no TLS
	grants int
	value  string // the member of the latest grant
}

// run runs a script, which gives a number.
func (l *redisLock) run(ctx context.Context, script string, keys []string, arguments ...string) (int, error) {
	words := append([]string{"EVAL", script, fmt.Sprint(len(keys))}, keys...)
	reply, err := l.redis(ctx, append(words, arguments...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimPrefix(reply, ":"))
}

// take gets a grant where fewer than most hold each of these names, each of whom bears one more.
func (l *redisLock) take(ctx context.Context, keys []string, most int, ttl time.Duration) (*fencepost.Grant, error) {
	grant, err := l.env.Poll(ctx, func(ctx context.Context) (*fencepost.Grant, error) {
		l.grants++
		l.value = fmt.Sprintf("%d:%s-%d-%d", most, l.env.Client, l.env.Process, l.grants)
		taken, err := l.run(ctx, take, keys, l.value, fmt.Sprint(most), fmt.Sprint(ttl.Milliseconds()))
		if err != nil || taken == 0 {
			return nil, err
		}
		return &fencepost.Grant{}, nil
	})
	if grant == nil && err == nil {
		err = fencepost.NotAcquired("each attempt was answered with no")
	}
	return grant, err
}

// Acquire is for a writer, or the only holder.
func (l *redisLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, []string{key}, 1, ttl)
}

// AcquireShared is for a reader, of a lock with kind = "read-write".
func (l *redisLock) AcquireShared(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, []string{key}, anyNumber, ttl)
}

// AcquirePermit is for one of the permits, of a lock with kind = "semaphore".
func (l *redisLock) AcquirePermit(ctx context.Context, key string, permits int, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, []string{key}, permits, ttl)
}

// AcquireAll is for all of these names, or none, of a lock with kind = "several".
func (l *redisLock) AcquireAll(ctx context.Context, keys []string, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, keys, 1, ttl)
}

// Reenter is for the holder once more, of a lock with kind = "reentrant".
func (l *redisLock) Reenter(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	again := l.value + "+"
	taken, err := l.run(ctx, takeAgain, []string{key}, l.value, again)
	if err == nil && taken == 0 {
		err = fencepost.NotHeld("its time was over")
	} else if err == nil {
		l.value = again
	}
	return nil, err
}

// Leave gives back what was acquired last, of a lock that is held more than once.
func (l *redisLock) Leave(ctx context.Context, key string) (fencepost.Removal, error) {
	removed, err := l.run(ctx, giveBack, []string{key}, l.value)
	if err == nil && removed == 0 {
		err = fencepost.NotHeld("its time was over")
	} else if err == nil {
		l.value = strings.TrimSuffix(l.value, "+")
	}
	return fencepost.Unknown, err
}

func (l *redisLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	return l.ReleaseAll(ctx, []string{key})
}

// ReleaseAll is Release for all of these names.
func (l *redisLock) ReleaseAll(ctx context.Context, keys []string) (fencepost.Removal, error) {
	removed, err := l.run(ctx, giveBack, keys, l.value)
	if removed == len(keys) {
		return fencepost.Removed, err
	}
	return fencepost.NothingRemoved, err
}

// redis sends one command on a connection of its own, after a login if there is a password, and returns the first line of
// the reply.
func (l *redisLock) redis(ctx context.Context, words ...string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.env.Servers[0].Address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "", fencepost.Certain("unreachable: nothing was sent: " + err.Error())
	} else if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	if l.tls != nil {
		conn = tls.Client(conn, l.tls)
	}
	access, login := l.env.Access, ""
	if access.Password != "" {
		login = request("AUTH", access.User, access.Password)
	}
	if _, err := conn.Write([]byte(login + request(words...))); err != nil {
		return "", err
	}
	replies := bufio.NewReader(conn)
	if login != "" {
		if reply, err := replies.ReadString('\n'); err != nil || reply != "+OK\r\n" {
			return "", fencepost.Certain("unreachable: the server does not take the password")
		}
	}
	reply, err := replies.ReadString('\n')
	if strings.HasPrefix(reply, "-") {
		return "", fencepost.Certain("refused: " + strings.TrimSpace(reply))
	}
	return strings.TrimSpace(reply), err
}

// request is a command, as it is sent.
func request(words ...string) string {
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return request
}

func main() {
	fencepost.Main(func(env *fencepost.Env) (fencepost.Lock, error) {
		config, err := env.Access.TLSConfig(env.Servers[0].TLSName)
		return &redisLock{env: env, tls: config}, err
	})
}
