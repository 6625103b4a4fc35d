package fencepost

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

type hello struct {
	Hello      int                        `json:"hello"`
	Client     string                     `json:"client"`
	Lock       string                     `json:"lock"`
	Servers    []Server                   `json:"servers"`
	Access     Access                     `json:"access"`
	Storage    string                     `json:"storage"`
	Replicas   []string                   `json:"storage_replicas"`
	MarksFirst bool                       `json:"marks_first"`
	Careful    bool                       `json:"careful"`
	Seed       uint64                     `json:"seed"`
	Options    map[string]json.RawMessage `json:"options"`
	TTL        int64                      `json:"ttl_ms"`
	Lease      string                     `json:"lease"`
	Claims     []string                   `json:"claims"`
	PauseAt    []string                   `json:"pause_at"`
}

// command is a line of the controller: an operation, or an event.
type command struct {
	ID      uint64          `json:"id"`
	Process uint64          `json:"process"`
	F       string          `json:"f"`
	Event   string          `json:"event"`
	Next    uint64          `json:"next"` // of a process that goes on
	Key     string          `json:"key"`
	Value   json.RawMessage `json:"value"`
	TTL     int64           `json:"ttl_ms"`
	Timeout *int64          `json:"timeout_ms"`
}

// also is the names that an acquire or a release has beside its key, and whether it has any such list (rule 27).
func (c *command) also() (names []string, isSet bool, err error) {
	var value struct{ Also json.RawMessage }
	if json.Unmarshal(c.Value, &value) != nil || value.Also == nil || string(value.Also) == "null" {
		return nil, false, nil
	}
	err = json.Unmarshal(value.Also, &names)
	return names, true, err
}

// names is all names that an acquire or a release is of, each once.
func (c *command) names() []string {
	names, also := []string{c.Key}, map[string]bool{c.Key: true}
	others, _, _ := c.also()
	for _, name := range others {
		if !also[name] {
			names = append(names, name)
		}
		also[name] = true
	}
	return names
}

// client is what its processes share.
type client struct {
	hello   hello
	newLock NewLock
	pause   time.Duration // between the look at the validity and the write
	writes  uint64        // numbers of writes to replicas
	mutex   sync.Mutex
	out     io.Writer
	// Whether the hello announced that grants have a token.
	hasTokens bool
}

// Serve serves one controller until its input ends.
func Serve(in io.Reader, out io.Writer, newLock NewLock, can ...string) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	c := &client{newLock: newLock, out: out}
	line, err := lines.ReadBytes('\n')
	if err != nil && len(line) == 0 {
		return errors.New("the input ended before the hello")
	}
	line = bytes.TrimSpace(line)
	if err := json.Unmarshal(line, &c.hello); err != nil {
		return fmt.Errorf("the first line is no hello (%v): `%.80s`", err, line)
	}
	if c.hello.Hello != 1 {
		return fmt.Errorf("the first line is no hello of version 1 of the client protocol: `%.80s`", line)
	}
	if err := c.prepare(); err != nil {
		return err
	}
	announced := c.can(can)
	for _, word := range announced {
		c.hasTokens = c.hasTokens || word == Token
	}
	c.send(map[string]any{"hello": 1, "can": announced, "pid": os.Getpid()})
	processes := map[uint64]*process{}
	for {
		line, err := lines.ReadBytes('\n')
		line = bytes.TrimSpace(line)
		if len(line) == 0 && err != nil {
			return nil
		} else if len(line) == 0 {
			continue
		}
		var command command
		if err := json.Unmarshal(line, &command); err != nil {
			return fmt.Errorf("the controller sent a line that is no command (%v): `%.80s`", err, line)
		}
		p := processes[command.Process]
		switch {
		case command.Event == "over" && p != nil:
			p.over()
			delete(processes, command.Process)
		case command.Event == "cancel" && p != nil:
			p.cancel(command.ID)
		case command.Event == "goes-on" && p != nil:
			delete(processes, command.Process)
			processes[command.Next] = p
			p.goOn(command.Next)
		case command.F != "" && (p == nil || !p.enqueue(command)):
			p = startProcess(c, command.Process)
			processes[command.Process] = p
			p.enqueue(command)
		}
	}
}

// prepare fills in what the hello leaves out.
func (c *client) prepare() error {
	if c.hello.Lease == "" {
		c.hello.Lease = "ttl"
	}
	if len(c.hello.Replicas) == 0 && c.hello.Storage != "" {
		c.hello.Replicas = []string{c.hello.Storage}
	}
	for i := range c.hello.Servers {
		server := &c.hello.Servers[i]
		var err error
		if server.Host, server.Port, err = net.SplitHostPort(server.Address); err != nil {
			return fmt.Errorf("the hello names an address that is no host:port: `%s`", server.Address)
		}
		if server.TLSName == "" {
			server.TLSName = server.Host
		}
	}
	for _, point := range c.hello.PauseAt {
		if name, length, _ := strings.Cut(point, "="); name == betweenCheckAndWrite {
			c.pause, _ = time.ParseDuration(length)
		}
	}
	return nil
}

// can is what the client announces: what lock.toml claims, what the kit does, and what the user declares.
func (c *client) can(declared []string) []string {
	words := append([]string{}, c.hello.Claims...)
	if c.hello.Lease == "ttl" {
		words = append(words, "validity")
	}
	listed := map[string]bool{}
	can := []string{}
	for _, word := range append(words, declared...) {
		if !listed[word] {
			can = append(can, word)
		}
		listed[word] = true
	}
	return can
}

// send writes one line, whole.
func (c *client) send(message any) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // errors are read by people
	if err := encoder.Encode(message); err != nil {
		fmt.Fprintln(os.Stderr, "a message cannot be written:", err)
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.out.Write(line.Bytes())
}
