package fencepost

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// Rest after a failed attempt to connect to a storage.
const dialRest = 25 * time.Millisecond

// storage is one process's way to what the lock protects: one storage, or replicas of which a majority decides.
type storage struct {
	client   *client
	replicas []*replica
	process  uint64
}

// credentials are what a request carries of the grant under which it is made.
type credentials struct {
	Token  *uint64 `json:"token,omitempty"`
	Unique string  `json:"unique,omitempty"`
}

type request struct {
	ID      uint64          `json:"id"`
	F       string          `json:"f"`
	Key     string          `json:"key"`
	Process uint64          `json:"process"` // its number in the history, for the storage's log
	Value   json.RawMessage `json:"value,omitempty"`
	credentials
	// With replicas: the write's number among those of the client.
	Number uint64 `json:"number,omitempty"`
}

type response struct {
	ID      uint64          `json:"id"`
	OK      json.RawMessage `json:"ok"`
	Fail    string          `json:"fail"`
	Version [2]uint64       `json:"version"`
	lost    string          // why there is no answer
	unsent  bool            // and the request was certainly not sent
}

// result is how an operation ended: ok, fail or info.
type result struct {
	kind  string
	value any
	err   string
}

func newStorage(c *client, process uint64) *storage {
	s := &storage{client: c, process: process}
	for _, address := range c.hello.Replicas {
		s.replicas = append(s.replicas, &replica{address: address, turn: make(chan struct{}, 1)})
	}
	return s
}

func (s *storage) read(ctx context.Context, key string, hold *hold) result {
	return s.perform(ctx, request{F: "read", Key: key, Process: s.process}, hold)
}

func (s *storage) write(ctx context.Context, key string, value json.RawMessage, hold *hold) result {
	write := request{F: "write", Key: key, Process: s.process, Value: value}
	if len(s.replicas) > 1 {
		write.Number = atomic.AddUint64(&s.client.writes, 1)
	}
	return s.perform(ctx, write, hold)
}

// perform sends a request with what the grant gives, after the mark where the guard wants one.
func (s *storage) perform(ctx context.Context, request request, hold *hold) result {
	if len(s.replicas) == 0 {
		return result{"fail", nil, "no-storage: the hello names none"}
	}
	if hold != nil {
		request.credentials = hold.credentials
	}
	if s.client.hello.MarksFirst && (request.F == "write" || request.credentials != credentials{}) {
		if marked := s.mark(ctx, request, hold); marked.kind != "ok" {
			return marked
		}
	}
	return s.ask(ctx, request)
}

// mark marks the storage as this holder's, once a grant.
func (s *storage) mark(ctx context.Context, request request, hold *hold) result {
	if hold != nil && hold.marked {
		return result{kind: "ok"}
	}
	request.F, request.Value, request.Number = "mark", nil, 0
	marked := s.ask(ctx, request)
	if hold != nil {
		hold.marked = marked.kind == "ok"
	}
	return marked
}

// ask asks all replicas at the same time, until a majority agreed or each has answered.
func (s *storage) ask(ctx context.Context, request request) result {
	if len(s.replicas) == 1 {
		return single(request.F, s.replicas[0].ask(ctx, request))
	}
	answers := make(chan response, len(s.replicas))
	for _, r := range s.replicas {
		go func(r *replica) { answers <- r.ask(ctx, request) }(r)
	}
	var agreed, rejected, unanswered, unsent []response
	for range s.replicas {
		switch answer := <-answers; {
		case answer.unsent:
			unsent = append(unsent, answer)
		case answer.lost != "":
			unanswered = append(unanswered, answer)
		case answer.Fail != "":
			rejected = append(rejected, answer)
		default:
			agreed = append(agreed, answer)
		}
		if len(agreed) > len(s.replicas)/2 {
			return result{kind: "ok", value: chosen(request.F, agreed)}
		}
	}
	why := first(rejected, unanswered, unsent)
	if request.F == "write" && len(agreed)+len(unanswered) > 0 {
		// A minority has it, or may have it: a later reader may find it.
		return result{"info", nil, "no-majority: " + why}
	}
	return result{"fail", nil, why}
}

// chosen is the value among the answers of a majority: a read takes the newest.
func chosen(f string, agreed []response) any {
	newest := agreed[0]
	for _, answer := range agreed {
		later := answer.Version[0] > newest.Version[0]
		if f == "read" && (later || answer.Version[0] == newest.Version[0] && answer.Version[1] > newest.Version[1]) {
			newest = answer
		}
	}
	return value(newest.OK)
}

// first is the error that says most.
func first(kinds ...[]response) string {
	for _, answers := range kinds {
		for _, answer := range answers {
			return answer.Fail + answer.lost
		}
	}
	return "no-majority: too few replicas agreed"
}

// single is how an operation ended on the only storage.
func single(f string, answer response) result {
	switch {
	case answer.lost != "" && !answer.unsent && f == "write":
		// It may have been written, or may be yet: its bytes can be under way for any length of time.
		return result{"info", nil, answer.lost}
	case answer.Fail+answer.lost != "":
		return result{"fail", nil, answer.Fail + answer.lost}
	default:
		return result{kind: "ok", value: value(answer.OK)}
	}
}

func value(raw json.RawMessage) any {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

func (s *storage) close() {
	for _, r := range s.replicas {
		go func(r *replica) {
			r.turn <- struct{}{}
			r.disconnect()
		}(r)
	}
}

// replica is a connection to one storage, made when it is first needed.
type replica struct {
	address string
	turn    chan struct{} // has an element while a request is under way
	conn    net.Conn
	lines   *bufio.Reader
	last    uint64 // id
}

// ask sends one request and reads its answer.
func (r *replica) ask(ctx context.Context, request request) response {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return response{unsent: true, lost: "unreachable: no connection to the storage"}
	}
	deadline, _ := ctx.Deadline()
	if !r.connect(ctx, deadline) {
		return response{unsent: true, lost: "unreachable: no connection to the storage"}
	}
	answer, err := r.exchange(request, deadline)
	if err == nil {
		return answer
	}
	r.disconnect()
	if os.IsTimeout(err) {
		return response{lost: "timeout: the storage did not answer in time"}
	}
	return response{lost: "disconnected: the connection to the storage broke before it answered"}
}

// connect makes sure of a connection on which the storage has answered: a stopped one's kernel accepts connections, too.
func (r *replica) connect(ctx context.Context, deadline time.Time) bool {
	if r.conn != nil && isClosed(r.conn) {
		r.disconnect()
	}
	for r.conn == nil {
		dialer := net.Dialer{Deadline: deadline}
		conn, err := dialer.DialContext(ctx, "tcp", r.address)
		if err == nil {
			r.conn, r.lines = conn, bufio.NewReader(conn)
			if _, err = r.exchange(request{F: "ping"}, deadline); err == nil {
				return true
			}
			r.disconnect()
		}
		select {
		case <-time.After(dialRest):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (r *replica) exchange(request request, deadline time.Time) (response, error) {
	r.last++
	request.ID = r.last
	line, err := json.Marshal(request)
	if err != nil {
		return response{}, err
	}
	r.conn.SetDeadline(deadline)
	if _, err := r.conn.Write(append(line, '\n')); err != nil {
		return response{}, err
	}
	for {
		line, err := r.lines.ReadBytes('\n')
		if err != nil {
			return response{}, err
		}
		var answer response
		if err := json.Unmarshal(line, &answer); err != nil {
			return response{}, err
		}
		if answer.ID == request.ID {
			return answer, nil
		}
	}
}

func (r *replica) disconnect() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

// isClosed looks, without waiting, whether the other end has closed the connection.
func isClosed(conn net.Conn) bool {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
		return true
	})
	return closed || err != nil
}
