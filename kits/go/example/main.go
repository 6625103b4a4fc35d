// A lock on one Redis: a key with a TTL, deleted only by the process that set it. Without any library.
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

const compareAndDelete = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"

type redisLock struct {
	env    *fencepost.Env
	tls    *tls.Config // nil: the server speaks no TLS
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
