package fencepost

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// fakeLock does what the key says.
type fakeLock struct {
	env    *Env
	closed chan uint64
}

func (l *fakeLock) Acquire(ctx context.Context, key string, ttl time.Duration) (*Grant, error) {
	switch key {
	case "taken":
		return nil, NotAcquired("by another")
	case "refused":
		return nil, nil
	case "certain":
		return nil, Certain("unreachable: nothing was sent")
	case "unsure":
		return nil, errors.New("no answer")
	case "panic":
		panic("a defect")
	case "slow":
		time.Sleep(100 * time.Millisecond)
	case "stuck":
		<-ctx.Done()
		return nil, ctx.Err()
	case "early-lost":
		l.env.Lost(key, "session expired")
	case "stated":
		return &Grant{Token: 33, Validity: 60 * time.Second, GrantedBy: []string{"n1"}}, nil
	case "polled":
		begun := time.Now()
		return l.env.Poll(ctx, func(context.Context) (*Grant, error) {
			if time.Since(begun) > 60*time.Millisecond {
				return &Grant{}, nil
			}
			return nil, nil
		})
	case "zero":
		return &Grant{}, nil
	case "never":
		return l.env.Poll(ctx, func(context.Context) (*Grant, error) { return nil, nil })
	}
	return &Grant{Token: 33, Unique: "u-1"}, nil
}

func (l *fakeLock) Release(ctx context.Context, key string) (Removal, error) {
	switch key {
	case "removed":
		return Removed, nil
	case "nothing":
		return NothingRemoved, nil
	case "not-held":
		return Unknown, NotHeld("another's")
	case "unsure-release":
		return Unknown, io.ErrUnexpectedEOF
	}
	return Unknown, nil
}

func (l *fakeLock) Holds(key string) bool { return key != "unheld" }

func (l *fakeLock) Close() error {
	l.closed <- l.env.Process
	return nil
}

// talk is the controller's end.
type talk struct {
	t      *testing.T
	to     io.WriteCloser
	from   chan string
	ended  chan error
	closed chan uint64
	env    chan *Env
	id     int
}

func begin(t *testing.T, hello string) *talk {
	theirInput, to := io.Pipe()
	output, theirOutput := io.Pipe()
	k := &talk{t: t, to: to, from: make(chan string, 100), ended: make(chan error, 1), closed: make(chan uint64, 9), env: make(chan *Env, 9)}
	newLock := func(env *Env) (Lock, error) {
		if env.Process == 99 {
			return nil, errors.New("no configuration")
		}
		k.env <- env
		return &fakeLock{env, k.closed}, nil
	}
	go func() { k.ended <- Serve(theirInput, theirOutput, newLock, Lost, Extend) }()
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			k.from <- lines.Text()
		}
	}()
	k.say(hello)
	return k
}

// greet says hello with these extra fields and reads the answer.
func greet(t *testing.T, extra string) *talk {
	k := begin(t, `{"hello":1,"client":"c1","lock":"fake","servers":[{"name":"n1","address":"[::1]:6379"}],"seed":18446744073709551615,"ttl_ms":2000,"lease":"ttl"`+extra+`}`)
	if back := k.next(); !strings.Contains(back, `"hello":1`) {
		t.Fatal(back)
	}
	return k
}

func (k *talk) say(line string) { fmt.Fprintln(k.to, line) }

func (k *talk) next() string {
	k.t.Helper()
	select {
	case line := <-k.from:
		return line
	case <-time.After(5 * time.Second):
		k.t.Fatal("the client says nothing")
		return ""
	}
}

// op sends an operation and returns the next line, without its id.
func (k *talk) op(process int, f, key, extra string) string {
	k.t.Helper()
	k.send(process, f, key, extra)
	return strings.Replace(k.next(), fmt.Sprintf(`"id":%d,`, k.id), "", 1)
}

func (k *talk) send(process int, f, key, extra string) {
	k.id++
	k.say(fmt.Sprintf(`{"id":%d,"process":%d,"f":"%s","key":"%s"%s}`, k.id, process, f, key, extra))
}

func (k *talk) acquire(process int, key string) string {
	k.t.Helper()
	return k.op(process, "acquire", key, `,"ttl_ms":2000,"timeout_ms":300`)
}

func (k *talk) expect(got, want string) {
	k.t.Helper()
	if got != want {
		k.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// validity is that of an ok.
func validity(line string) int {
	var answer struct {
		Value struct {
			Validity *int `json:"validity_ms"`
		}
	}
	json.Unmarshal([]byte(line), &answer)
	if answer.Value.Validity == nil {
		return -1
	}
	return *answer.Value.Validity
}

func TestHello(t *testing.T) {
	k := begin(t, `{"hello":1,"client":"c1","servers":[],"seed":7,"lease":"session","claims":["token","lost"],"news":1}`)
	if back := k.next(); !strings.Contains(back, `"can":["token","lost","extend"]`) {
		t.Error(back)
	}
	for line, sentence := range map[string]string{
		"what?":                      "no hello",
		`{"hello":2}`:                "version 1",
		`{"hello":1,"servers":[{}]}`: "address",
	} {
		if err := <-begin(t, line).ended; err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestEndOfInputAndGarbage(t *testing.T) {
	k := greet(t, "")
	k.send(1, "acquire", "stuck", `,"ttl_ms":2000,"timeout_ms":60000`)
	k.to.Close()
	if err := <-k.ended; err != nil {
		t.Error(err)
	}
	k = greet(t, "")
	k.say(`{"event":"news"}`)
	k.say("nonsense")
	if err := <-k.ended; err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Error(err)
	}
}

func TestAcquire(t *testing.T) {
	k := greet(t, "")
	k.expect(k.acquire(1, "taken"), `{"type":"fail","error":"taken: by another"}`)
	k.expect(k.acquire(1, "refused"), `{"type":"fail","error":"refused-by-library: Acquire returned no grant"}`)
	k.expect(k.acquire(1, "certain"), `{"type":"fail","error":"unreachable: nothing was sent"}`)
	k.expect(k.acquire(1, "never"), `{"type":"fail","error":"refused-by-library: Acquire returned no grant"}`)
	k.expect(k.acquire(99, "a"), `{"type":"fail","error":"unreachable: the lock could not be made: no configuration"}`)
	k.expect(k.acquire(2, "panic"), `{"type":"info","error":"raised: *errors.errorString: panic: a defect"}`)
	k.expect(k.acquire(1, "stated"), `{"type":"ok","value":{"token":33,"validity_ms":60000,"granted_by":["n1"]}}`)
	if granted := k.acquire(1, "slow"); validity(granted) < 1000 || validity(granted) > 1900 {
		t.Error("the time counts from the begin of the call:", granted)
	}
	if granted := k.acquire(1, "polled"); validity(granted) < 1980 {
		t.Error("the time counts from the granted attempt:", granted)
	}
	for _, extra := range []string{"", `,"ttl_ms":1,"value":{"mode":"shared"}`} {
		if refused := k.op(1, "acquire", "a", extra); !strings.Contains(refused, `"fail","error":"bad-command`) {
			t.Error(refused)
		}
	}
	if granted := greet(t, `,"lease":"session","claims":["token"]`).acquire(1, "zero"); !strings.Contains(granted, `"token":0`) {
		t.Error("a token of 0 is one of a lock that announces tokens:", granted)
	}
	if granted := greet(t, `,"lease":"session"`).acquire(1, "a"); validity(granted) != -1 {
		t.Error("a session has no validity:", granted)
	}
}

func TestBeliefLastsFromAcquireToRelease(t *testing.T) {
	k := greet(t, "")
	k.expect(k.op(1, "holds", "a", ""), `{"type":"ok","value":false}`)
	k.acquire(1, "a")
	k.expect(k.op(1, "holds", "a", ""), `{"type":"ok","value":true}`)
	k.expect(k.op(2, "holds", "a", ""), `{"type":"ok","value":false}`)
	k.expect(k.op(1, "release", "a", ""), `{"type":"ok","value":{"believed":true}}`)
	k.expect(k.op(1, "release", "a", ""), `{"type":"fail","value":{"believed":false},"error":"not-held: this process has not acquired the lock"}`)
	k.acquire(1, "unheld")
	k.expect(k.op(1, "holds", "unheld", ""), `{"type":"ok","value":true}`)
	for _, release := range []struct{ key, answer string }{
		{"removed", `{"type":"ok","value":{"believed":true,"removed":true}}`},
		{"nothing", `{"type":"fail","value":{"believed":true,"removed":false},"error":"not-held: the release removed nothing"}`},
		{"not-held", `{"type":"fail","value":{"believed":true,"removed":false},"error":"not-held: another's"}`},
		{"unsure-release", `{"type":"info","value":{"believed":true},"error":"raised: *errors.errorString: unexpected EOF"}`},
	} {
		k.acquire(1, release.key)
		k.expect(k.op(1, "release", release.key, ""), release.answer)
	}
}

func TestCarefulProcessesAskTheLockAndTheirClock(t *testing.T) {
	k := greet(t, `,"careful":true`)
	k.acquire(1, "unheld")
	k.expect(k.op(1, "holds", "unheld", ""), `{"type":"ok","value":false}`)
	for careful, believes := range map[string]string{"": "true", `,"careful":true`: "false"} {
		k := greet(t, careful)
		k.op(1, "acquire", "a", `,"ttl_ms":30`)
		env := <-k.env
		time.Sleep(50 * time.Millisecond)
		k.expect(k.op(1, "holds", "a", ""), `{"type":"ok","value":`+believes+`}`)
		env.Renewed("a", 10*time.Millisecond)
		k.expect(k.next(), `{"age_ms":10,"event":"renewed","key":"a","process":1}`)
		k.expect(k.op(1, "holds", "a", ""), `{"type":"ok","value":true}`)
	}
}

func TestLostEndsTheBelief(t *testing.T) {
	k := greet(t, "")
	k.acquire(1, "a")
	(<-k.env).Lost("a", "gone")
	k.expect(k.next(), `{"event":"lost","key":"a","process":1,"reason":"gone"}`)
	k.expect(k.op(1, "release", "a", ""), `{"type":"ok","value":{"believed":false}}`)
	if granted := k.acquire(1, "early-lost"); !strings.Contains(granted, `"ok"`) {
		t.Error("the answer comes before the notice:", granted)
	}
	k.expect(k.next(), `{"event":"lost","key":"early-lost","process":1,"reason":"session expired"}`)
	k.expect(k.op(1, "holds", "early-lost", ""), `{"type":"ok","value":false}`)
}

func TestAProcessIsOverAfterAnInfoOrByTheControllersWord(t *testing.T) {
	k := greet(t, "")
	k.acquire(1, "a")
	k.send(1, "acquire", "stuck", `,"ttl_ms":2000,"timeout_ms":50`)
	k.send(1, "holds", "a", "")
	if unsure := k.next(); !strings.Contains(unsure, `"info","error":"raised: context.deadlineExceededError`) {
		t.Error(unsure)
	}
	k.expect(k.next(), `{"id":3,"type":"fail","error":"process-over: an operation before it was indeterminate"}`)
	if over := <-k.closed; over != 1 {
		t.Error(over)
	}
	env := <-k.env
	env.Lost("a", "too late")
	k.expect(k.op(1, "holds", "a", ""), `{"type":"ok","value":false}`)
	k.acquire(5, "a")
	k.send(5, "acquire", "stuck", `,"ttl_ms":2000,"timeout_ms":60000`)
	time.Sleep(20 * time.Millisecond) // it is under way
	k.say(`{"event":"over","process":5}`)
	if unsure := k.next(); !strings.Contains(unsure, "canceled") {
		t.Error("the operation under way ends:", unsure)
	}
	if over := <-k.closed; over != 5 {
		t.Error(over)
	}
}

func TestProcessesDoNotWaitForEachOther(t *testing.T) {
	k := greet(t, "")
	k.send(1, "acquire", "slow", `,"ttl_ms":2000`)
	k.send(1, "holds", "slow", "")
	k.send(2, "holds", "slow", "")
	for _, id := range []string{`"id":3,`, `"id":1,`, `"id":2,`} {
		if line := k.next(); !strings.Contains(line, id) {
			t.Error(line, "instead of", id)
		}
	}
}

func TestWaitGivesBackWhatComesTooLate(t *testing.T) {
	never := func() { t.Error("it was given back") }
	if granted, err := Wait(context.Background(), func() error { return nil }, never); !granted || err != nil {
		t.Errorf("a grant: %v, %v", granted, err)
	}
	if granted, err := Wait(context.Background(), func() error { return errors.New("no") }, never); granted || err == nil {
		t.Errorf("an error: %v, %v", granted, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	comes, back := make(chan error), make(chan bool)
	if granted, err := Wait(ctx, func() error { return <-comes }, func() { close(back) }); granted || err != nil {
		t.Errorf("too late: %v, %v", granted, err)
	}
	comes <- nil
	<-back
}

func TestAddressesAreThoseOfTheServers(t *testing.T) {
	env := Env{Servers: []Server{{Address: "198.18.0.2:6379"}, {Address: "198.18.0.3:6379"}}}
	if got := env.Addresses(); len(got) != 2 || got[1] != "198.18.0.3:6379" {
		t.Errorf("addresses: %v", got)
	}
}
