// Package fencepost is the client kit of Fencepost for Go: it speaks the client protocol, so that a lock under test is
// two functions. See kits/README.md of Fencepost for the behaviour that all kits share.
package fencepost

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"syscall"
	"time"
)

// Lock is the lock under test as one process uses it. Its functions are called one at a time.
type Lock interface {
	// Acquire tries to get the lock until ctx is done. A nil Grant without an error means that the library said no.
	// Errors: NotAcquired and Certain if the lock was certainly not granted; any other leaves that unknown.
	Acquire(ctx context.Context, key string, ttl time.Duration) (*Grant, error)
	// Release gives the lock back, and says whether that removed a lock. Errors: NotHeld and Certain if certainly
	// nothing was removed; any other leaves that unknown.
	Release(ctx context.Context, key string) (Removal, error)
}

// ReadWriteLock is a Lock that several readers can hold together: with kind = "read-write" in lock.toml.
type ReadWriteLock interface {
	// AcquireShared is Acquire for a reader.
	AcquireShared(ctx context.Context, key string, ttl time.Duration) (*Grant, error)
}

// Semaphore is a Lock of which so many processes can have a permit: with kind = "semaphore" in lock.toml. Acquire is then
// not called.
type Semaphore interface {
	// AcquirePermit is Acquire for one of the permits.
	AcquirePermit(ctx context.Context, key string, permits int, ttl time.Duration) (*Grant, error)
}

// Reentrant is a Lock that its holder can acquire again: with kind = "reentrant" in lock.toml.
type Reentrant interface {
	// Reenter acquires the lock once more for its holder. The Grant may be nil; its Validity says that the library prolonged the
	// lock. Errors: NotHeld if the lock is no longer this process's, NotAcquired if it was refused to its holder, Certain; any
	// other leaves that unknown.
	Reenter(ctx context.Context, key string, ttl time.Duration) (*Grant, error)
	// Leave releases once what was acquired more than once, and says whether that removed the lock, which it should not.
	// Errors: those of Release.
	Leave(ctx context.Context, key string) (Removal, error)
}

// Several is a Lock on several names at once: with kind = "several" in lock.toml.
type Several interface {
	// AcquireAll is Acquire for all of these names, or none of them.
	AcquireAll(ctx context.Context, keys []string, ttl time.Duration) (*Grant, error)
	// ReleaseAll is Release for all of them.
	ReleaseAll(ctx context.Context, keys []string) (Removal, error)
}

// Prolonger is a Lock that its holder can prolong; it announces Prolong.
type Prolonger interface {
	// Prolong lets the lock last for ttl from now on. Errors: NotHeld if the lock is no longer this process's, Certain if
	// certainly nothing was prolonged for another reason; any other leaves that unknown.
	Prolong(ctx context.Context, key string, ttl time.Duration) error
}

// Election is a Lock whose library can say who leads; it announces Leader.
type Election interface {
	// Leader returns the number of the process that leads (Env.Process), and whether the library knows of a
	// leader. After an error the process goes on: the question changes nothing.
	Leader(ctx context.Context, key string) (process uint64, known bool, err error)
}

// Holder is a Lock that knows by itself, without a request, whether it is still held.
type Holder interface{ Holds(key string) bool }

// Closer is a Lock that has something to end when its process is over: connections, renewals. A lock that renews, or
// whose lease is a session or a connection, must have it.
type Closer interface{ Close() error }

// NewLock makes the lock of one process. It must not wait for servers.
type NewLock func(env *Env) (Lock, error)

// Words for what a lock can do, for Main.
const (
	Lost    = "lost"    // it calls Env.Lost
	Extend  = "extend"  // it renews its leases by itself, and calls Env.Renewed
	Prolong = "prolong" // its holder can prolong it: it is a Prolonger
	Leader  = "leader"  // its library can say who leads: it is an Election
	Cancel  = "cancel"  // its functions end soon after their ctx is cancelled
	Token   = "token"   // its grants have a fencing token (lock.toml can say so, too)
	Unique  = "unique"  // its grants have a unique value (lock.toml can say so, too)
)

// Grant is what an acquire brought. Every field is optional.
type Grant struct {
	Token     uint64        // fencing token, greater with each grant; 0 is none, unless the lock announces tokens
	Unique    string        // value that no other grant has
	Validity  time.Duration // time that the library states, from now on; without it the kit counts from the attempt's begin
	GrantedBy []string      // names of the servers that granted it
}

// Removal is what a release can say of itself.
type Removal int

const (
	Unknown        Removal = iota // it was released, and the library says no more
	Removed                       // the release removed a lock
	NothingRemoved                // there was nothing to remove
)

// NotAcquired is the error of an acquire whose requests were all answered: another holds the lock.
type NotAcquired string

// NotHeld is the error of a release that certainly removed nothing.
type NotHeld string

// Certain is an error after which the operation certainly did not happen and will not. The text begins with a code of the
// protocol: "unreachable: connection refused".
type Certain string

func (e NotAcquired) Error() string { return string(e) }
func (e NotHeld) Error() string     { return string(e) }
func (e Certain) Error() string     { return string(e) }

// Server is a server of the lock's service.
type Server struct {
	Name, Address, Host, Port string
	TLSName                   string `json:"tls_name"` // the name that its certificate must have
}

// Env is what a lock knows of the run, and where it reports what happens to it. Its methods can be called at any time.
type Env struct {
	Client  string
	Lock    string
	Process uint64
	Servers []Server
	Access  Access
	Options map[string]string
	TTL     time.Duration
	Lease   string // "ttl", "session", "connection" or "none"
	Seed    int64
	process *process
	random  *rand.Rand
}

// Poll repeats an attempt that does not block until it brings a grant or an error, or the time of ctx is nearly up: an
// attempt that the end of ctx cuts off would be of unknown outcome. The validity then counts from the granted attempt.
func (env *Env) Poll(ctx context.Context, attempt func(context.Context) (*Grant, error)) (*Grant, error) {
	last := time.Now().Add(time.Hour)
	if deadline, ok := ctx.Deadline(); ok {
		last = deadline.Add(-time.Until(deadline) / 20)
	}
	for {
		env.process.begin(time.Now())
		grant, err := attempt(ctx)
		if grant != nil || err != nil {
			return grant, err
		}
		rest := time.Millisecond + time.Duration(env.random.Int63n(int64(9*time.Millisecond)))
		if time.Now().Add(rest).After(last) {
			return nil, nil
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// Addresses returns host:port of each server.
func (env *Env) Addresses() []string {
	addresses := make([]string, len(env.Servers))
	for i, server := range env.Servers {
		addresses[i] = server.Address
	}
	return addresses
}

// Wait runs a call that waits for the lock and has no time-out, and says whether it was granted. If ctx is done first, it
// is not; a grant that comes later is given back by giveBack.
func Wait(ctx context.Context, call func() error, giveBack func()) (bool, error) {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err == nil, err
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				giveBack()
			}
		}()
		return false, nil
	}
}

// Lost reports that the library says that the lock is lost.
func (env *Env) Lost(key, reason string) { env.process.lost(key, reason) }

// Renewed reports that the lease was prolonged by a request that was sent so long ago.
func (env *Env) Renewed(key string, age time.Duration) { env.process.renewed(key, age) }

// Main serves the controller on standard input and output, and exits. `can` names what the lock can do: Lost, Extend, …
func Main(newLock NewLock, can ...string) {
	in, out, err := takeStreams()
	if err != nil {
		fmt.Fprintln(os.Stderr, "standard input and output cannot be taken over:", err)
		os.Exit(255)
	}
	if err := Serve(in, out, newLock, can...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(254)
	}
	os.Exit(0)
}

// takeStreams keeps the streams for the controller. What the library prints goes to standard error instead.
func takeStreams() (in, out *os.File, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	if in, err = take(0, int(null.Fd())); err != nil {
		return nil, nil, err
	}
	out, err = take(1, 2)
	return in, out, err
}

// take duplicates a descriptor, and puts another in its place. Child processes do not inherit the duplicate.
func take(fd, replacement int) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	own, err := syscall.Dup(fd)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(own)
	return os.NewFile(uintptr(own), "controller"), syscall.Dup3(replacement, fd, 0)
}
