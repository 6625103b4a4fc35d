package fencepost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

const betweenCheckAndWrite = "between-check-and-write"

// process is one process of the client: its operations, one at a time, and what it believes to hold.
type process struct {
	client  *client
	number  uint64
	inbox   chan command
	storage *storage
	// ctx ends when the process is over, and with it what is still under way.
	ctx  context.Context
	stop context.CancelFunc
	lock Lock

	// Guards what follows, together with the line that reports its change: no notice overtakes the answer it belongs to.
	mutex   sync.Mutex
	isOver  bool
	held    map[string]*hold
	pending *pending
	// The operation that is carried out, how its caller gives it up, and the latest that was given up.
	operation uint64
	giveUp    context.CancelFunc
	cancelled uint64
}

// hold is a grant, until its release begins.
type hold struct {
	credentials
	believed bool
	ttl      time.Duration
	until    time.Time // zero: no validity
	marked   bool      // on the storage
}

// pending is an acquire that is under way.
type pending struct {
	names     []string
	asked     time.Time // the acquire
	begun     time.Time // the attempt that may be granted
	renewedAt time.Time
	lost      map[string]string // of these names, with the reasons
}

func (p *pending) asksFor(key string) bool {
	if p != nil {
		for _, name := range p.names {
			if name == key {
				return true
			}
		}
	}
	return false
}

func startProcess(c *client, number uint64) *process {
	p := &process{client: c, number: number, inbox: make(chan command, 64), held: map[string]*hold{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.storage = newStorage(c, number)
	go p.run()
	return p
}

// enqueue hands the process an operation. False if the process is over.
func (p *process) enqueue(op command) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.isOver {
		p.inbox <- op
	}
	return !p.isOver
}

// over ends the process: its user is no more, as if it had crashed.
func (p *process) over() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.isOver {
		p.isOver = true
		p.held = map[string]*hold{}
		p.stop()
		close(p.inbox)
	}
}

// cancel gives up the call that runs (rule 28).
func (p *process) cancel(operation uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.operation == operation && p.giveUp != nil {
		p.cancelled = operation
		p.giveUp()
	}
}

// goOn lets the program go on under another number, with the lock that it has.
func (p *process) goOn(number uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.number, p.storage.process = number, number
}

func (p *process) isCancelled(op command) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.cancelled == op.ID
}

func (p *process) run() {
	for op := range p.inbox {
		if p.ctx.Err() != nil {
			p.answer(op, "fail", nil, "process-over: an operation before it was indeterminate")
			continue
		}
		p.perform(op)
	}
	p.storage.close()
	if closer, ok := p.lock.(Closer); ok {
		if err := guard(closer.Close); err != nil {
			fmt.Fprintf(os.Stderr, "process %d: close: %v\n", p.number, err)
		}
	}
}

func (p *process) perform(op command) {
	timeout := time.Second
	if op.Timeout != nil {
		timeout = time.Duration(*op.Timeout) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	p.mutex.Lock()
	p.operation, p.giveUp = op.ID, cancel
	p.mutex.Unlock()
	switch op.F {
	case "holds":
		p.answer(op, "ok", p.believes(op.Key), "")
	case "acquire":
		p.acquire(ctx, op)
	case "release":
		p.release(ctx, op)
	case "prolong", "reenter":
		p.prolong(ctx, op)
	case "leave":
		p.leave(ctx, op)
	case "leader":
		p.leader(ctx, op)
	case "read":
		p.finish(op, p.storage.read(ctx, op.Key, p.hold(op.Key)))
	case "write":
		p.write(ctx, op)
	default:
		p.answer(op, "fail", nil, "bad-command: this client does not know `"+op.F+"`")
	}
}

// makeLock calls the user's factory, unless that has succeeded before. Without the lock nothing is begun.
func (p *process) makeLock() error {
	if p.lock != nil {
		return nil
	}
	hello := &p.client.hello
	env := &Env{
		Client: hello.Client, Lock: hello.Lock, Process: p.number, Servers: hello.Servers, Access: hello.Access, Options: map[string]string{},
		TTL: time.Duration(hello.TTL) * time.Millisecond, Lease: hello.Lease, Seed: int64(hello.Seed), process: p,
		random: rand.New(rand.NewSource(int64(hello.Seed ^ p.number<<32))),
	}
	for name, value := range hello.Options {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		env.Options[name] = text
	}
	err := guard(func() (err error) {
		p.lock, err = p.client.newLock(env)
		return err
	})
	if err != nil {
		p.lock = nil
		return fmt.Errorf("unreachable: the lock could not be made: %w", err)
	}
	return nil
}

func (p *process) acquire(ctx context.Context, op command) {
	asked := time.Now()
	if op.TTL <= 0 {
		p.answer(op, "fail", nil, "bad-command: an acquire needs a ttl_ms greater than 0")
		return
	}
	if err := p.makeLock(); err != nil {
		p.answer(op, "fail", nil, err.Error())
		return
	}
	acquire, refusal := p.share(op)
	if refusal != "" {
		p.answer(op, "fail", nil, "bad-command: "+refusal)
		return
	}
	ttl := time.Duration(op.TTL) * time.Millisecond
	p.mutex.Lock()
	p.pending = &pending{names: op.names(), asked: asked, begun: time.Now(), lost: map[string]string{}}
	p.mutex.Unlock()
	var grant *Grant
	err := guard(func() (err error) {
		grant, err = acquire(ctx, op.Key, ttl)
		return err
	})
	p.mutex.Lock()
	pending := p.pending
	p.pending = nil
	if err == nil && grant != nil {
		p.granted(op, *grant, pending, ttl)
	}
	p.mutex.Unlock()
	if err == nil && grant != nil && p.ctx.Err() != nil {
		p.giveBack(op)
	}
	switch taken := NotAcquired(""); {
	case errors.As(err, &taken):
		p.answer(op, "fail", nil, "taken: "+string(taken))
	case err != nil:
		p.failed(op, nil, err)
	case grant == nil:
		p.answer(op, "fail", nil, "refused-by-library: Acquire returned no grant")
	}
}

type acquireFunction func(ctx context.Context, key string, ttl time.Duration) (*Grant, error)

// share is the user's function for what an acquire asks for, or why there is none (rules 10 and 27).
func (p *process) share(op command) (acquireFunction, string) {
	wish := struct {
		Mode     string
		Capacity json.RawMessage
	}{Mode: "exclusive"}
	json.Unmarshal(op.Value, &wish)
	if wish.Mode != "exclusive" && wish.Mode != "shared" {
		return nil, "unknown mode " + wish.Mode + ": expected shared or exclusive"
	}
	if wish.Capacity != nil {
		permits, err := strconv.Atoi(string(wish.Capacity))
		if err != nil || permits < 1 {
			return nil, "a semaphore needs a capacity greater than 0"
		}
		semaphore, ok := p.lock.(Semaphore)
		if !ok {
			return nil, "this lock has no AcquirePermit"
		}
		return func(ctx context.Context, key string, ttl time.Duration) (*Grant, error) {
			return semaphore.AcquirePermit(ctx, key, permits, ttl)
		}, ""
	}
	if _, isSet, err := op.also(); err != nil {
		return nil, "the names of a set are a list of texts: " + err.Error()
	} else if isSet {
		several, ok := p.lock.(Several)
		if !ok {
			return nil, "this lock has no AcquireAll"
		}
		return func(ctx context.Context, _ string, ttl time.Duration) (*Grant, error) {
			return several.AcquireAll(ctx, op.names(), ttl)
		}, ""
	}
	if wish.Mode == "exclusive" {
		return p.lock.Acquire, ""
	}
	if lock, ok := p.lock.(ReadWriteLock); ok {
		return lock.AcquireShared, ""
	}
	return nil, "this lock has no AcquireShared"
}

type grantValue struct {
	Token     *uint64  `json:"token,omitempty"`
	Validity  *int64   `json:"validity_ms,omitempty"`
	Waited    int64    `json:"waited_ms,omitempty"`
	GrantedBy []string `json:"granted_by,omitempty"`
}

// granted records the hold and answers. The mutex is held.
func (p *process) granted(op command, grant Grant, pending *pending, ttl time.Duration) {
	var token *uint64
	// Of a lock that announces tokens, 0 is one, too: of a counter that lost its memory, say.
	if grant.Token != 0 || p.client.hasTokens {
		token = &grant.Token
	}
	granted := hold{credentials: credentials{token, grant.Unique}, believed: true, ttl: ttl}
	value := grantValue{Token: token, GrantedBy: grant.GrantedBy}
	if p.client.hello.Lease == "ttl" {
		now := time.Now()
		since := pending.begun
		if pending.renewedAt.After(since) {
			since = pending.renewedAt
		}
		granted.until = since.Add(ttl)
		validity := granted.until.Sub(now)
		if validity < 0 {
			validity = 0
		}
		if grant.Validity != 0 {
			validity = grant.Validity
			granted.until = now.Add(validity)
		}
		millis := validity.Milliseconds()
		value.Validity = &millis
		value.Waited = now.Sub(pending.asked).Milliseconds()
	}
	p.answer(op, "ok", value, "")
	for _, name := range pending.names {
		if p.isOver {
			return
		}
		hold := granted
		p.held[name] = &hold
		if reason, lost := pending.lost[name]; lost {
			hold.believed = false
			p.notice("lost", name, map[string]any{"reason": reason})
		}
	}
}

// giveBack releases a lock that was granted when the process was over already, or it would stay taken.
func (p *process) giveBack(op command) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	guard(func() error {
		_, err := p.released(ctx, op)
		return err
	})
}

// released calls the user's function for this release.
func (p *process) released(ctx context.Context, op command) (Removal, error) {
	if _, isSet, _ := op.also(); !isSet {
		return p.lock.Release(ctx, op.Key)
	}
	several, ok := p.lock.(Several)
	if !ok {
		return Unknown, Certain("bad-command: this lock has no ReleaseAll")
	}
	return several.ReleaseAll(ctx, op.names())
}

func (p *process) release(ctx context.Context, op command) {
	believed, wasGranted := true, true
	for _, name := range op.names() {
		believed = p.believes(name) && believed
		wasGranted = p.hold(name) != nil && wasGranted
	}
	value := map[string]any{"believed": believed}
	p.mutex.Lock()
	held := map[string]*hold{}
	for _, name := range op.names() {
		held[name] = p.held[name]
		delete(p.held, name)
	}
	p.mutex.Unlock()
	if !wasGranted {
		p.answer(op, "fail", value, "not-held: this process has not acquired the lock")
		return
	}
	removal := Unknown
	err := guard(func() (err error) {
		removal, err = p.released(ctx, op)
		return err
	})
	switch notHeld := NotHeld(""); {
	case errors.As(err, &notHeld):
		value["removed"] = false
		p.answer(op, "fail", value, "not-held: "+string(notHeld))
	case err != nil:
		if p.isCancelled(op) { // the program may release it once more
			p.mutex.Lock()
			for name, hold := range held {
				p.held[name] = hold
			}
			p.mutex.Unlock()
		}
		p.failed(op, value, err)
	case removal == NothingRemoved:
		value["removed"] = false
		p.answer(op, "fail", value, "not-held: the release removed nothing")
	default:
		if removal == Removed {
			value["removed"] = true
		}
		p.answer(op, "ok", value, "")
	}
}

// leave releases once what the process acquired more than once (rule 26).
func (p *process) leave(ctx context.Context, op command) {
	value := map[string]any{"believed": p.believes(op.Key)}
	if err := p.makeLock(); err != nil {
		p.answer(op, "fail", value, err.Error())
		return
	}
	lock, ok := p.lock.(Reentrant)
	hold := p.hold(op.Key)
	if !ok {
		p.answer(op, "fail", value, "bad-command: this lock has no Leave")
		return
	} else if hold == nil {
		p.answer(op, "fail", value, "not-held: this process has not acquired the lock")
		return
	}
	removal := Unknown
	err := guard(func() (err error) {
		removal, err = lock.Leave(ctx, op.Key)
		return err
	})
	notHeld := NotHeld("")
	isGone := errors.As(err, &notHeld)
	if isGone || err == nil && removal != Unknown {
		value["removed"] = err == nil && removal == Removed
	}
	switch {
	case isGone:
		p.mutex.Lock()
		hold.believed = false
		p.mutex.Unlock()
		p.answer(op, "fail", value, "not-held: "+string(notHeld))
	case err != nil:
		p.failed(op, value, err)
	default:
		p.answer(op, "ok", value, "")
	}
}

// prolong prolongs what the process holds, or acquires it once more (rules 25 and 26).
func (p *process) prolong(ctx context.Context, op command) {
	ttl := time.Duration(op.TTL) * time.Millisecond
	if ttl <= 0 {
		p.answer(op, "fail", nil, "bad-command: a "+op.F+" needs a ttl_ms greater than 0")
		return
	}
	if err := p.makeLock(); err != nil {
		p.answer(op, "fail", nil, err.Error())
		return
	}
	prolonger, canProlong := p.lock.(Prolonger)
	reentrant, canReenter := p.lock.(Reentrant)
	if op.F == "prolong" && !canProlong {
		p.answer(op, "fail", nil, "bad-command: this lock has no Prolong")
		return
	} else if op.F == "reenter" && !canReenter {
		p.answer(op, "fail", nil, "bad-command: this lock has no Reenter")
		return
	}
	hold := p.hold(op.Key)
	if hold == nil {
		p.answer(op, "fail", nil, "not-held: this process has not acquired the lock")
		return
	}
	begun := time.Now()
	var grant *Grant
	err := guard(func() (err error) {
		if op.F == "prolong" {
			return prolonger.Prolong(ctx, op.Key, ttl)
		}
		grant, err = reentrant.Reenter(ctx, op.Key, ttl)
		return err
	})
	notHeld, notAcquired := NotHeld(""), NotAcquired("")
	isGone := errors.As(err, &notHeld)
	var value any
	p.mutex.Lock()
	if isGone {
		hold.believed = false
	} else if err == nil && !hold.until.IsZero() && op.F == "prolong" {
		hold.ttl, hold.until = ttl, begun.Add(ttl)
	} else if err == nil && !hold.until.IsZero() && grant != nil && grant.Validity != 0 {
		hold.ttl, hold.until = ttl, time.Now().Add(grant.Validity)
		millis := grant.Validity.Milliseconds()
		value = grantValue{Validity: &millis}
	}
	p.mutex.Unlock()
	switch {
	case isGone:
		p.answer(op, "fail", nil, "not-held: "+string(notHeld))
	case errors.As(err, &notAcquired):
		p.answer(op, "fail", nil, "taken: "+string(notAcquired))
	case err != nil:
		p.failed(op, nil, err)
	default:
		p.answer(op, "ok", value, "")
	}
}

// leader asks who leads (rule 29). That changes nothing, so no answer is an info.
func (p *process) leader(ctx context.Context, op command) {
	if err := p.makeLock(); err != nil {
		p.answer(op, "fail", nil, err.Error())
		return
	}
	election, ok := p.lock.(Election)
	if !ok {
		p.answer(op, "fail", nil, "bad-command: this lock has no Leader")
		return
	}
	var number *uint64 // nil is null in the answer: no leader is known
	err := guard(func() error {
		leader, known, err := election.Leader(ctx, op.Key)
		if known {
			number = &leader
		}
		return err
	})
	switch certain := Certain(""); {
	case errors.As(err, &certain):
		p.answer(op, "fail", nil, string(certain))
	case err != nil:
		p.answer(op, "fail", nil, fmt.Sprintf("raised: %T: %v", err, err))
	default:
		p.answer(op, "ok", number, "")
	}
}

func (p *process) write(ctx context.Context, op command) {
	if _, err := strconv.ParseInt(string(op.Value), 10, 64); err != nil && !strings.HasPrefix(string(op.Value), "[") {
		p.answer(op, "fail", nil, "bad-command: a write needs a value, a whole number or a list")
		return
	}
	if p.client.hello.Careful {
		if !p.believes(op.Key) {
			p.answer(op, "fail", nil, "gave-up: the lock is no longer valid by this client's own knowledge")
			return
		}
		if p.client.pause > 0 {
			p.notice("at", op.Key, map[string]any{"point": betweenCheckAndWrite})
			time.Sleep(p.client.pause)
		}
	}
	p.finish(op, p.storage.write(ctx, op.Key, op.Value, p.hold(op.Key)))
}

// believes is what the process believes without asking a server: a careful one also looks at its clock, and asks the lock.
func (p *process) believes(key string) bool {
	p.mutex.Lock()
	hold := p.held[key]
	believed := hold != nil && hold.believed
	if believed && p.client.hello.Careful && !hold.until.IsZero() {
		believed = time.Now().Before(hold.until)
	}
	p.mutex.Unlock()
	holder, ok := p.lock.(Holder)
	if !believed || !ok || !p.client.hello.Careful {
		return believed
	}
	err := guard(func() error {
		believed = holder.Holds(key)
		return nil
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "process %d: holds: %v\n", p.number, err)
	}
	return believed
}

// hold is what this process holds of the key, also where it no longer believes in it.
func (p *process) hold(key string) *hold {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.held[key]
}

// begin notes when the latest attempt of an acquire began.
func (p *process) begin(now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.pending != nil {
		p.pending.begun = now
	}
}

func (p *process) lost(key, reason string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if hold := p.held[key]; hold != nil && hold.believed {
		hold.believed = false
		p.notice("lost", key, map[string]any{"reason": reason})
	} else if p.pending.asksFor(key) {
		p.pending.lost[key] = reason
	}
}

func (p *process) renewed(key string, age time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	sent := time.Now().Add(-age)
	if hold := p.held[key]; hold != nil && hold.believed {
		if !hold.until.IsZero() {
			hold.until = sent.Add(hold.ttl)
		}
		p.notice("renewed", key, map[string]any{"age_ms": age.Milliseconds()})
	} else if p.pending.asksFor(key) {
		p.pending.renewedAt = sent
	}
}

func (p *process) notice(event, key string, more map[string]any) {
	more["event"], more["process"], more["key"] = event, p.number, key
	p.client.send(more)
}

// failed answers an operation that the lock ended with an error.
func (p *process) failed(op command, value any, err error) {
	if certain := Certain(""); errors.As(err, &certain) {
		p.finish(op, result{"fail", value, string(certain)})
	} else if p.isCancelled(op) {
		p.answer(op, "info", value, fmt.Sprintf("cancelled: %T: %v", err, err))
	} else {
		p.finish(op, result{"info", value, fmt.Sprintf("raised: %T: %v", err, err)})
	}
}

// finish answers. After an indeterminate operation the process is over.
func (p *process) finish(op command, result result) {
	if result.kind == "info" {
		p.over()
	}
	p.answer(op, result.kind, result.value, result.err)
}

type answer struct {
	ID    uint64 `json:"id"`
	Type  string `json:"type"`
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

func (p *process) answer(op command, kind string, value any, err string) {
	p.client.send(answer{op.ID, kind, value, err})
}

// guard calls a function of the user's. A panic is an error, too.
func guard(call func() error) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n%s", panicked, debug.Stack())
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return call()
}
