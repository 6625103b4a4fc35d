// The Mutex of etcd's own Go package clientv3/concurrency: a session for each process, as its documentation has it;
// --session-per-lock: a session for each acquire, closed by the release. --election: its Election, whose campaign is given up when the
// session is over.
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
	"go.etcd.io/etcd/etcdserver/api/v3rpc/rpctypes"
	"go.etcd.io/etcd/version"
)

type etcdLock struct {
	env     *fencepost.Env
	client  *clientv3.Client
	session *concurrency.Session
	mutex   sync.Mutex // of `held`, which the watcher of the session reads
	held    map[string]hold
}

type hold struct {
	unlock  func(context.Context) error
	session *concurrency.Session
}

func (l *etcdLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	// The library takes its place in the queue back after the time is up: a tenth is left for that.
	deadline, _ := ctx.Deadline()
	waiting, cancel := context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/10))
	defer cancel()
	if err := l.enter(waiting, ttl); err != nil {
		return nil, fencepost.Certain("unreachable: no session: " + err.Error()) // no key can be without a lease
	}
	if has("--election") {
		return l.campaign(ctx, waiting, key)
	}
	mutex := concurrency.NewMutex(l.session, "/fencepost/"+key)
	if err := mutex.Lock(waiting); err != nil {
		// After it has removed its key from the queue, the library forgets the name. Otherwise the key may be there, unless
		// its lease was revoked.
		removed := mutex.Key() == "\x00"
		if perLock() {
			removed = l.session.Close() == nil || removed
		}
		if removed && errors.Is(err, context.DeadlineExceeded) {
			return nil, fencepost.NotAcquired("in the queue until the time was up")
		}
		return nil, err
	}
	if !perLock() {
		// The session may be old, and its lease nearly over. From here on it runs for a whole TTL. A lease that is gone by
		// now is the library's affair: it says that the lock is acquired.
		if _, err := l.client.KeepAliveOnce(waiting, l.session.Lease()); err != nil && err != rpctypes.ErrLeaseNotFound {
			return nil, err
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.held[key] = hold{mutex.Unlock, l.session}
	return &fencepost.Grant{Token: uint64(mutex.Header().Revision)}, nil
}

// campaign returns when this process leads. A campaign does not look at its session itself, which a program has to do.
func (l *etcdLock) campaign(ctx, waiting context.Context, key string) (*fencepost.Grant, error) {
	campaigning, cancel := context.WithCancel(waiting)
	defer cancel()
	session := l.session
	go func() {
		select {
		case <-session.Done():
			cancel()
		case <-campaigning.Done():
		}
	}()
	election := concurrency.NewElection(session, "/fencepost/"+key)
	if err := election.Campaign(campaigning, l.env.Client); err != nil {
		// The library takes its candidacy back where it can, and does not say whether it could.
		candidacy := fmt.Sprintf("/fencepost/%s/%x", key, session.Lease())
		left, failed := l.client.Get(ctx, candidacy, clientv3.WithCountOnly())
		if failed == nil && left.Count == 0 && errors.Is(err, context.DeadlineExceeded) {
			return nil, fencepost.NotAcquired("a candidate until the time was up")
		}
		return nil, err
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.held[key] = hold{election.Resign, session}
	return &fencepost.Grant{Token: uint64(election.Rev())}, nil
}

// enter sees to it that there is a session.
func (l *etcdLock) enter(ctx context.Context, ttl time.Duration) error {
	if l.session != nil && isOpen(l.session) && !perLock() {
		return nil
	}
	// NewSession alone would wait for its lease without a time-out.
	lease, err := l.client.Grant(ctx, int64(ttl/time.Second))
	if err != nil {
		return err
	}
	l.session, err = concurrency.NewSession(l.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(ttl/time.Second)))
	if err == nil {
		go l.watch(l.session)
	}
	return err
}

// watch reports the locks of a session as lost when that is over.
func (l *etcdLock) watch(session *concurrency.Session) {
	<-session.Done()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for key, hold := range l.held {
		if hold.session == session {
			l.env.Lost(key, "the session is over")
		}
	}
}

func (l *etcdLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	l.mutex.Lock()
	hold := l.held[key]
	delete(l.held, key)
	l.mutex.Unlock()
	err := hold.unlock(ctx)
	if perLock() {
		err = hold.session.Close() // revokes the lease, and with it the key
	}
	return fencepost.Unknown, err
}

func (l *etcdLock) Holds(key string) bool { return isOpen(l.session) }

// Close lets the lease run out, as that of a program that crashed.
func (l *etcdLock) Close() error {
	if l.session != nil {
		l.session.Orphan()
	}
	return l.client.Close()
}

func isOpen(session *concurrency.Session) bool {
	select {
	case <-session.Done():
		return false
	default:
		return true
	}
}

func perLock() bool { return has("--session-per-lock") }

func has(word string) bool { return os.Args[len(os.Args)-1] == word }

func newLock(env *fencepost.Env) (fencepost.Lock, error) {
	endpoints := []string{}
	for _, server := range env.Servers {
		endpoints = append(endpoints, server.Address)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second})
	return &etcdLock{env: env, client: client, held: map[string]hold{}}, err
}

func main() {
	if has("--version") {
		fmt.Println("etcd clientv3/concurrency", version.Version)
		return
	}
	fencepost.Main(newLock, fencepost.Lost)
}
