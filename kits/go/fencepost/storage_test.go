package fencepost

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fakeStorage answers as its function says, and keeps what it was asked. An empty answer is none; "close" closes,
// "last" after an answer.
type fakeStorage struct {
	listener net.Listener
	answer   func(asked request) string
	mutex    sync.Mutex
	asked    []string
}

func storageThat(t *testing.T, answer func(asked request) string) *fakeStorage {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &fakeStorage{listener: listener, answer: answer}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *fakeStorage) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var asked request
		json.Unmarshal(lines.Bytes(), &asked)
		answer := `"ok":null`
		if asked.F != "ping" {
			s.mutex.Lock()
			_, text, _ := strings.Cut(lines.Text(), ",")
			s.asked = append(s.asked, text)
			s.mutex.Unlock()
			answer = s.answer(asked)
		}
		switch answer {
		case "":
		case "close":
			return
		case "last":
			fmt.Fprintf(conn, "{\"id\":%d,\"ok\":8}\n", asked.ID)
			return
		default:
			fmt.Fprintf(conn, "{\"id\":0,\"ok\":99}\n{\"id\":%d,%s}\n", asked.ID, answer)
		}
	}
}

func (s *fakeStorage) address() string { return s.listener.Addr().String() }

func (s *fakeStorage) all() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return strings.Join(s.asked, " ")
}

func ok(asked request) string {
	if asked.F == "mark" {
		return `"ok":null`
	}
	return `"ok":8`
}

// stored is a client whose storages these are.
func stored(t *testing.T, extra string, storages ...*fakeStorage) *talk {
	addresses := []string{}
	for _, s := range storages {
		addresses = append(addresses, s.address())
	}
	all, _ := json.Marshal(addresses)
	if len(storages) == 1 {
		all = []byte("[]")
	}
	return greet(t, fmt.Sprintf(`,"storage":"%s","storage_replicas":%s%s`, addresses[0], all, extra))
}

func TestReadsAndWritesCarryWhatTheGrantGave(t *testing.T) {
	s := storageThat(t, ok)
	k := stored(t, "", s)
	k.expect(k.op(1, "read", "a", ""), `{"type":"ok","value":8}`)
	k.acquire(1, "a")
	k.expect(k.op(1, "write", "a", `,"value":8`), `{"type":"ok","value":8}`)
	(<-k.env).Lost("a", "gone")
	k.next()
	k.expect(k.op(1, "write", "a", `,"value":[1,2]`), `{"type":"ok","value":8}`)
	k.op(1, "release", "a", "")
	k.op(1, "write", "a", `,"value":9`)
	k.expect(s.all(), `"f":"read","key":"a","process":1} "f":"write","key":"a","process":1,"value":8,"token":33,"unique":"u-1"} `+
		`"f":"write","key":"a","process":1,"value":[1,2],"token":33,"unique":"u-1"} "f":"write","key":"a","process":1,"value":9}`)
	for _, value := range []string{"", `,"value":1.5`, `,"value":"x"`} {
		if refused := k.op(1, "write", "a", value); !strings.Contains(refused, "bad-command") {
			t.Error(refused)
		}
	}
	k.expect(greet(t, "").op(1, "read", "a", ""), `{"type":"fail","error":"no-storage: the hello names none"}`)
}

func TestMarksOnceAGrant(t *testing.T) {
	s := storageThat(t, ok)
	k := stored(t, `,"marks_first":true`, s)
	k.op(1, "read", "a", "")
	k.acquire(1, "a")
	k.op(1, "read", "a", "")
	k.op(1, "write", "a", `,"value":8`)
	k.expect(s.all(), `"f":"read","key":"a","process":1} "f":"mark","key":"a","process":1,"token":33,"unique":"u-1"} `+
		`"f":"read","key":"a","process":1,"token":33,"unique":"u-1"} "f":"write","key":"a","process":1,"value":8,"token":33,"unique":"u-1"}`)
	refusing := storageThat(t, func(asked request) string { return `"fail":"rejected: stale-epoch: 1 < 2"` })
	k = stored(t, `,"marks_first":true`, refusing)
	k.expect(k.op(1, "write", "a", `,"value":8`), `{"type":"fail","error":"rejected: stale-epoch: 1 < 2"}`)
	k.expect(refusing.all(), `"f":"mark","key":"a","process":1}`)
}

func TestAnswersThatDoNotCome(t *testing.T) {
	mute := storageThat(t, func(request) string { return "" })
	broken := storageThat(t, func(request) string { return "close" })
	gone := storageThat(t, ok)
	gone.listener.Close()
	for _, c := range []struct {
		storage *fakeStorage
		f, kind string
	}{
		{mute, "read", `"fail","error":"timeout`}, {mute, "write", `"info","error":"timeout`},
		{broken, "read", `"fail","error":"disconnected`}, {broken, "write", `"info","error":"disconnected`},
		{gone, "read", `"fail","error":"unreachable`}, {gone, "write", `"fail","error":"unreachable`},
	} {
		if line := stored(t, "", c.storage).op(1, c.f, "a", `,"value":8,"timeout_ms":60`); !strings.Contains(line, c.kind) {
			t.Error(c.f, line)
		}
	}
}

func TestAConnectionThatWasClosedMeanwhileIsReplaced(t *testing.T) {
	var closed atomic.Bool
	s := storageThat(t, func(request) string {
		if closed.CompareAndSwap(false, true) {
			return "last"
		}
		return `"ok":8`
	})
	k := stored(t, "", s)
	k.op(1, "read", "a", "")
	time.Sleep(20 * time.Millisecond)
	k.expect(k.op(1, "write", "a", `,"value":8`), `{"type":"ok","value":8}`)
}

func TestCarefulProcessesGiveUp(t *testing.T) {
	s := storageThat(t, ok)
	k := stored(t, `,"careful":true`, s)
	if gaveUp := k.op(1, "write", "a", `,"value":8`); !strings.Contains(gaveUp, `"fail","error":"gave-up`) || s.all() != "" {
		t.Error(gaveUp, s.all())
	}
	k.acquire(1, "a")
	k.expect(k.op(1, "write", "a", `,"value":8`), `{"type":"ok","value":8}`)
}

func TestAMajorityOfReplicasDecides(t *testing.T) {
	version := func(value, token, number int) *fakeStorage {
		return storageThat(t, func(asked request) string {
			return fmt.Sprintf(`"ok":%d,"version":[%d,%d]`, value, token, number)
		})
	}
	older, newest := version(7, 33, 9), version(8, 34, 1)
	mute := storageThat(t, func(request) string { return "" })
	rejecting := storageThat(t, func(request) string { return `"fail":"rejected: stale-epoch: 1 < 2"` })
	gone := storageThat(t, ok)
	gone.listener.Close()
	const short = `,"value":8,"timeout_ms":100`
	k := stored(t, "", older, newest, gone)
	k.expect(k.op(1, "read", "a", short), `{"type":"ok","value":8}`)
	k.op(1, "write", "a", short)
	k.op(2, "write", "a", short)
	if asked := newest.all(); !strings.Contains(asked, `"number":1`) || !strings.Contains(asked, `"number":2`) {
		t.Error(asked)
	}
	const info = `{"type":"info","error":"no-majority: rejected: stale-epoch: 1 < 2"}`
	const fail = `{"type":"fail","error":"rejected: stale-epoch: 1 < 2"}`
	k.expect(stored(t, "", older, rejecting, gone).op(1, "write", "a", short), info)
	k.expect(stored(t, "", mute, rejecting, gone).op(1, "write", "a", short), info)
	k.expect(stored(t, "", gone, rejecting, rejecting).op(1, "write", "a", short), fail)
	k.expect(stored(t, "", older, rejecting, mute).op(1, "read", "a", short), fail)
}
