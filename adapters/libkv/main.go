// docker/libkv's lock on ZooKeeper: a session for each process, and the channel by which the library reports a lost lock.
package main

import (
	"context"
	"time"

	"fencepost"

	"github.com/docker/libkv/store"
	"github.com/docker/libkv/store/zookeeper"
)

type libkvLock struct {
	env  *fencepost.Env
	kv   store.Store
	lock store.Locker
}

func (l *libkvLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	lock, err := l.kv.NewLock(key, &store.LockOptions{TTL: ttl})
	if err != nil {
		return nil, err
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	var lost <-chan struct{}
	go func() {
		var err error
		lost, err = lock.Lock(stop)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		l.lock = lock
		go func() {
			<-lost
			l.env.Lost(key, "the channel of Lock was closed")
		}()
		return &fencepost.Grant{}, nil
	case <-ctx.Done():
		close(stop)
		go func() { // its store for ZooKeeper does not look at stop: the lock is given back when it comes
			if <-done == nil {
				lock.Unlock()
			}
		}()
		return nil, nil
	}
}

func (l *libkvLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	return fencepost.Unknown, l.lock.Unlock()
}

func (l *libkvLock) Close() error {
	l.kv.Close()
	return nil
}

func main() {
	fencepost.Main(func(env *fencepost.Env) (fencepost.Lock, error) {
		servers := []string{}
		for _, server := range env.Servers {
			servers = append(servers, server.Address)
		}
		kv, err := zookeeper.New(servers, &store.Config{ConnectionTimeout: env.TTL})
		return &libkvLock{env: env, kv: kv}, err
	})
}
