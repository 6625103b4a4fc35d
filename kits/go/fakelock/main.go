// The lock of kits/tests/conversation.py, which asks no server: kits/tests/fake-lock.md says what it does.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"fencepost.example/kits/go/fencepost"
)

type fakeLock struct {
	env   *fencepost.Env
	token uint64
}

func (l *fakeLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	l.token++
	grant := &fencepost.Grant{Token: l.token, Unique: fmt.Sprintf("u-%d", l.env.Process)}
	word, other, _ := strings.Cut(key, ":")
	switch word {
	case "taken":
		return nil, fencepost.NotAcquired("by another")
	case "nothing":
		return nil, nil
	case "unsure":
		return nil, errors.New("no answer")
	case "certain":
		return nil, fencepost.Certain("unreachable: refused")
	case "slow":
		time.Sleep(500 * time.Millisecond)
	case "polled", "never":
		attempts := 0
		return l.env.Poll(ctx, func(context.Context) (*fencepost.Grant, error) {
			attempts++
			if word == "polled" {
				time.Sleep(100 * time.Millisecond)
			}
			if word == "never" || attempts < 3 {
				return nil, nil
			}
			return grant, nil
		})
	case "short", "short-still":
		grant.Validity = 150 * time.Millisecond
	case "long":
		grant.Validity = time.Minute
	case "print":
		fmt.Println("printed by the library")
	case "access":
		access, files := l.env.Access, fencepost.TLSFiles{}
		if access.TLS != nil {
			files = *access.TLS
		}
		parts := []string{access.User, access.Password, files.CA, files.Certificate, files.Key, l.env.Servers[0].TLSName}
		for at, part := range parts {
			if part == "" {
				parts[at] = "-"
			}
		}
		return &fencepost.Grant{Token: 1, Unique: strings.Join(parts, " ")}, nil
	case "lost", "lost-taken":
		l.env.Lost(key, "session expired")
		if word == "lost-taken" {
			return nil, fencepost.NotAcquired("by another")
		}
	case "lose":
		l.env.Lost(other, "session expired")
		return nil, nil
	case "renew":
		l.env.Renewed(other, 5*time.Millisecond)
		return nil, nil
	}
	return grant, nil
}

// lockOfKinds is the lock with the option kinds.
type lockOfKinds struct{ fakeLock }

func (l *lockOfKinds) AcquireShared(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	return &fencepost.Grant{Unique: "shared"}, nil
}

func (l *lockOfKinds) AcquirePermit(ctx context.Context, key string, permits int, ttl time.Duration) (*fencepost.Grant, error) {
	return &fencepost.Grant{Unique: fmt.Sprintf("one of %d", permits)}, nil
}

func (l *lockOfKinds) Reenter(ctx context.Context, key string, ttl time.Duration) (*fencepost.Grant, error) {
	switch key {
	case "shut-out":
		return nil, fencepost.NotAcquired("by another")
	case "short":
		return &fencepost.Grant{Validity: time.Minute}, nil
	}
	return nil, l.Prolong(ctx, key, ttl)
}

func (l *lockOfKinds) Leave(ctx context.Context, key string) (fencepost.Removal, error) {
	return l.Release(ctx, key)
}

func (l *lockOfKinds) AcquireAll(ctx context.Context, keys []string, ttl time.Duration) (*fencepost.Grant, error) {
	grant, err := l.Acquire(ctx, keys[len(keys)-1], ttl)
	if grant != nil {
		grant.Unique = "all of " + strings.Join(keys, " ")
	}
	return grant, err
}

func (l *lockOfKinds) ReleaseAll(ctx context.Context, keys []string) (fencepost.Removal, error) {
	return l.Release(ctx, keys[len(keys)-1])
}

func (l *lockOfKinds) Prolong(ctx context.Context, key string, ttl time.Duration) error {
	switch key {
	case "unsure-prolong":
		return errors.New("no answer")
	case "not-held", "gone":
		return fencepost.NotHeld("of another")
	case "certain-prolong":
		return fencepost.Certain("unreachable: refused")
	case "lose":
		l.env.Lost(key, "session expired")
	}
	return nil
}

func (l *lockOfKinds) Leader(ctx context.Context, key string) (uint64, bool, error) {
	switch key {
	case "unsure-leader":
		return 0, false, errors.New("no answer")
	case "certain-leader":
		return 0, false, fencepost.Certain("unreachable: refused")
	case "vacant":
		return 0, false, nil
	case "first":
		return 0, true, nil
	case "digits", "stranger":
		number, err := strconv.ParseUint(map[string]string{"digits": "12", "stranger": "someone"}[key], 10, 64)
		return number, true, err
	}
	return l.env.Process, true, nil
}

func (l *fakeLock) Release(ctx context.Context, key string) (fencepost.Removal, error) {
	switch key {
	case "slow":
		fmt.Fprintln(os.Stderr, "released slow")
	case "gone":
		return fencepost.NothingRemoved, nil
	case "removed":
		return fencepost.Removed, nil
	case "not-held":
		return fencepost.Unknown, fencepost.NotHeld("of another")
	case "certain-release":
		return fencepost.Unknown, fencepost.Certain("unreachable: refused")
	case "unsure-release":
		return fencepost.Unknown, errors.New("no answer")
	}
	return fencepost.Unknown, nil
}

func (l *fakeLock) Holds(key string) bool {
	if key == "confused" {
		panic("the lock does not know")
	}
	return key != "doubted"
}

func (l *fakeLock) Close() error {
	fmt.Fprintln(os.Stderr, "closed", l.env.Process)
	return nil
}

func main() {
	fencepost.Main(func(env *fencepost.Env) (fencepost.Lock, error) {
		if _, broken := env.Options["broken"]; broken {
			return nil, errors.New("broken")
		}
		if _, kinds := env.Options["kinds"]; kinds {
			return &lockOfKinds{fakeLock{env, 32}}, nil
		}
		return &fakeLock{env, 32}, nil
	})
}
