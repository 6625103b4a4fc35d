// go-zookeeper's Lock: a session for each process, and the events by which the library reports that the session has expired.
package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"fencepost"

	"github.com/samuel/go-zookeeper/zk"
)

type zkLock struct {
	conn    *zk.Conn
	lock    *zk.Lock
	key     atomic.Value // of the latest acquire
	session int64        // in which the lock was granted
}

func (l *zkLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	l.key.Store(key)
	lock := zk.NewLock(l.conn, "/fencepost/"+key, zk.WorldACL(zk.PermAll))
	granted, err := fencepost.Wait(ctx, lock.Lock, func() { lock.Unlock() })
	if !granted {
		return nil, err
	}
	l.lock, l.session = lock, l.conn.SessionID()
	return &fencepost.Grant{}, nil
}

func (l *zkLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	err := l.lock.Unlock()
	if err == zk.ErrNoNode {
		err = fencepost.NotHeld("its node is gone")
	}
	return fencepost.Unknown, err
}

func (l *zkLock) Holds(key string) bool {
	return l.conn.State() == zk.StateHasSession && l.conn.SessionID() == l.session
}

func (l *zkLock) Close() error {
	l.conn.Close()
	return nil
}

func connect(env *fencepost.Env) (fencepost.Lock, error) {
	conn, events, err := zk.Connect(env.Addresses(), env.TTL)
	if err != nil {
		return nil, err
	}
	lock, connected := &zkLock{conn: conn}, make(chan bool, 1)
	go func() {
		for event := range events {
			if event.State == zk.StateHasSession {
				select {
				case connected <- true:
				default:
				}
			}
			if key, used := lock.key.Load().(string); used && event.State == zk.StateExpired {
				env.Lost(key, "the session has expired")
			}
		}
	}()
	select {
	case <-connected:
		return lock, nil
	case <-time.After(2 * time.Second):
		conn.Close()
		return nil, errors.New("no session after 2 s")
	}
}

func main() { fencepost.Main(connect, fencepost.Lost) }
