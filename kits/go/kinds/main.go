// A read-write lock and a semaphore on one Redis, without any library: the holders are members of a sorted set. Each member says
// how many may hold the lock beside it, and its score until when it holds it, by the server's clock.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"example/fencepost"
)

// take removes holders whose time is over, and adds one if none of them, nor it, is then one too many.
const take = `local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local most = tonumber(ARGV[2])
for _, holder in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  most = math.min(most, tonumber(string.match(holder, '%d+')))
end
if redis.call('zcard', KEYS[1]) >= most then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
return 1`

const anyNumber = 1_000_000_000

type redisLock struct {
	env    *fencepost.Env
	tls    *tls.Config // nil: the server speaks no TLS
	grants int
	value  string // the member of the latest grant
}

// take gets a grant where fewer than most hold it, each of whom bears one more.
func (l *redisLock) take(ctx context.Context, key string, most int, ttl time.Duration) (*fencepost.Grant, error) {
	grant, err := l.env.Poll(ctx, func(ctx context.Context) (*fencepost.Grant, error) {
		l.grants++
		l.value = fmt.Sprintf("%d:%s-%d-%d", most, l.env.Client, l.env.Process, l.grants)
		reply, err := l.redis(ctx, "EVAL", take, "1", key, l.value, fmt.Sprint(most), fmt.Sprint(ttl.Milliseconds()))
		if err != nil || reply != ":1" {
			return nil, err
		}
		return &fencepost.Grant{}, nil
	})
	if grant == nil && err == nil {
		err = fencepost.NotAcquired("each attempt was answered with no")
	}
	return grant, err
}

// Acquire is for a writer.
func (l *redisLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, key, 1, ttl)
}

// AcquireShared is for a reader, of a lock with kind = "read-write".
func (l *redisLock) AcquireShared(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, key, anyNumber, ttl)
}

// AcquirePermit is for one of the permits, of a lock with kind = "semaphore".
func (l *redisLock) AcquirePermit(ctx context.Context, key string, permits int, ttl time.Duration) (*fencepost.Grant, error) {
	return l.take(ctx, key, permits, ttl)
}

func (l *redisLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	reply, err := l.redis(ctx, "ZREM", key, l.value)
	if reply == ":1" {
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
