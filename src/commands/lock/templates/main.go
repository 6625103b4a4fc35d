// A lock of my own. Write Acquire and Release: everything else is done by the kit, the package fencepost.
package main

import (
	"context"
	"time"

	"example/fencepost"
)

// One for each process. env.Servers has the servers (Name, Host, Port, Address), env.Options the options.
type myLock struct{ env *fencepost.Env }

// Acquire returns a grant, or nil if the library said no; an error where that is unknown.
func (l *myLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return nil, fencepost.Certain("unreachable: Acquire in main.go is not written yet")
}

%read-write
// AcquireShared is the same for a reader.
func (l *myLock) AcquireShared(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return nil, fencepost.Certain("unreachable: AcquireShared in main.go is not written yet")
}

%semaphore
// AcquirePermit is the same for one of the permits; Acquire is not called.
func (l *myLock) AcquirePermit(ctx context.Context, key string, permits int, ttl time.Duration) (*fencepost.Grant, error) {
	return nil, fencepost.Certain("unreachable: AcquirePermit in main.go is not written yet")
}

%reentrant
// Reenter acquires it once more for its holder; NotHeld where it was no longer held.
func (l *myLock) Reenter(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return nil, fencepost.Certain("unreachable: Reenter in main.go is not written yet")
}

// Leave releases once what was acquired more than once.
func (l *myLock) Leave(ctx context.Context, key string) (fencepost.Removal, error) {
	return fencepost.Unknown, fencepost.Certain("unreachable: Leave in main.go is not written yet")
}

%several
// AcquireAll is the same for all of these names, or none of them.
func (l *myLock) AcquireAll(ctx context.Context, keys []string, ttl time.Duration) (*fencepost.Grant, error) {
	return nil, fencepost.Certain("unreachable: AcquireAll in main.go is not written yet")
}

// ReleaseAll gives all of them back, as Release does.
func (l *myLock) ReleaseAll(ctx context.Context, keys []string) (fencepost.Removal, error) {
	return fencepost.Unknown, fencepost.Certain("unreachable: ReleaseAll in main.go is not written yet")
}

%
// Release says whether it removed a lock, where the library does.
func (l *myLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	return fencepost.Unknown, fencepost.Certain("unreachable: Release in main.go is not written yet")
}

// Close ends connections and renewals: the process is over.
func (l *myLock) Close() error { return nil }

func main() {
	fencepost.Main(func(env *fencepost.Env) (fencepost.Lock, error) { return &myLock{env}, nil })
}
