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
	stop := make(chan struct{})
	var lost <-chan struct{}
	wait := func() (err error) { lost, err = lock.Lock(stop); return err }
	// Its store for ZooKeeper does not look at stop.
	if granted, err := fencepost.Wait(ctx, wait, func() { lock.Unlock() }); !granted {
		close(stop)
		return nil, err
	}
	l.lock = lock
	go func() {
		<-lost
		l.env.Lost(key, "the channel of Lock was closed")
	}()
	return &fencepost.Grant{}, nil
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
		kv, err := zookeeper.New(env.Addresses(), &store.Config{ConnectionTimeout: env.TTL})
		return &libkvLock{env: env, kv: kv}, err
	})
}
