// A lock on one Redis: a key with a TTL, deleted only by the process that set it. Without any library.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"example/fencepost"
)

const compareAndDelete = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"

type redisLock struct {
	env    *fencepost.Env
	grants int
	value  string // of the latest grant: no other has it
}

func (l *redisLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	grant, err := l.env.Poll(ctx, func(ctx context.Context) (*fencepost.Grant, error) {
		l.grants++
		l.value = fmt.Sprintf("%s-%d-%d", l.env.Client, l.env.Process, l.grants)
		reply, err := l.redis(ctx, "SET", key, l.value, "NX", "PX", fmt.Sprint(ttl.Milliseconds()))
		if err != nil || reply != "+OK" {
			return nil, err
		}
		return &fencepost.Grant{Unique: l.value}, nil
	})
	if grant == nil && err == nil {
		err = fencepost.NotAcquired("each SET was answered with no")
	}
	return grant, err
}

func (l *redisLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	reply, err := l.redis(ctx, "EVAL", compareAndDelete, "1", key, l.value)
	if reply == ":1" {
		return fencepost.Removed, err
	}
	return fencepost.NothingRemoved, err
}

// redis sends one command on a connection of its own, and returns the first line of the reply.
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
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return "", err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if strings.HasPrefix(reply, "-") {
		return "", fencepost.Certain("refused: " + strings.TrimSpace(reply))
	}
	return strings.TrimSpace(reply), err
}

func main() {
	fencepost.Main(func(env *fencepost.Env) (fencepost.Lock, error) { return &redisLock{env: env}, nil })
}
