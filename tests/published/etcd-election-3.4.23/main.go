// The Election of etcd's own Go package clientv3/concurrency, as its examples use it: a session for each campaign, and no look at
// the end of the session while the candidate waits. --guarded: the campaign is given up when its session is over, as the report advises.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"fencepost"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.etcd.io/etcd/version"
)

type election struct {
	env    *fencepost.Env
	client *clientv3.Client
	mutex  sync.Mutex // of `led`, which the watcher of a session reads
	led    map[string]leadership
}

type leadership struct {
	election *concurrency.Election
	session  *concurrency.Session
}

func (l *election) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	deadline, _ := ctx.Deadline()
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/10))
	defer cancel()
	// NewSession alone would wait for its lease without a time-out.
	lease, err := l.client.Grant(waiting, int64(ttl/time.Second))
	if err != nil {
		return nil, fencepost.Certain("unreachable: no session: " + err.Error()) // no key can be without a lease
	}
	session, err := concurrency.NewSession(l.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(ttl/time.Second)))
	if err != nil {
		return nil, err
	}
	if isGuarded() {
		go func() {
			select {
			case <-session.Done():
				cancel()
			case <-waiting.Done():
			}
		}()
	}
	candidate := concurrency.NewElection(session, "/fencepost/"+key)
	if err := candidate.Campaign(waiting, l.env.Client); err != nil {
		closed := session.Close() // revokes the lease, and with it the key
		if closed == nil && errors.Is(err, context.DeadlineExceeded) {
			return nil, fencepost.NotAcquired("a candidate until the time was up")
		}
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.led[key] = leadership{candidate, session}
	return &fencepost.Grant{}, nil
}

func (l *election) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	l.mutex.Lock()
	led := l.led[key]
	delete(l.led, key)
	l.mutex.Unlock()
	err := led.election.Resign(ctx)
	led.session.Close()
	return fencepost.Unknown, err
}

// Close lets the leases run out, as those of a program that crashed.
func (l *election) Close() error {
	for _, led := range l.led {
		led.session.Orphan()
	}
	return l.client.Close()
}

func isGuarded() bool { return os.Args[len(os.Args)-1] == "--guarded" }

func newElection(env *fencepost.Env) (fencepost.Lock, error) {
	endpoints := []string{}
	for _, server := range env.Servers {
		endpoints = append(endpoints, server.Address)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second})
	return &election{env: env, client: client, led: map[string]leadership{}}, err
}

func main() {
	if os.Args[len(os.Args)-1] == "--version" {
		fmt.Println("etcd clientv3/concurrency", version.Version)
		return
	}
	fencepost.Main(newElection)
}
