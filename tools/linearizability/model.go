package main

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// The kinds of operations.
const (
	// read is a get of the current state.
	read = "read"
	// create needs an absent object.
	create = "create"
	// put is an update with the resource version of the expected object.
	put = "put"
	// overwrite is an update of any existing object, without a resource version.
	overwrite = "overwrite"
	// remove is a deletion with the UID and the resource version of the expected object.
	remove = "delete"
)

// The outcomes of operations.
const (
	ok = "ok"
	// exists rejects a create.
	exists = "exists"
	// conflict rejects an operation that expects another object than the current one.
	conflict = "conflict"
	// missing reports that there is no object.
	missing = "missing"
	// unknown operations have been executed, will be, or never are.
	unknown = "unknown"
)

// operation is an operation of a client with its outcome. Each write has another value.
type operation struct {
	Client   int    `json:"client"`
	Register string `json:"register"`
	Kind     string `json:"kind"`
	Outcome  string `json:"outcome"`
	// Call and Return are times of one clock. An unknown operation has no return.
	Call   int64 `json:"call"`
	Return int64 `json:"return,omitempty"`
	// Expect and ExpectVersion are the object that a put or a deletion expects.
	Expect        string `json:"expect,omitempty"`
	ExpectVersion uint64 `json:"expectVersion,omitempty"`
	// Value and Version are those that were written or read.
	Value   string `json:"value,omitempty"`
	Version uint64 `json:"version,omitempty"`
	// Message is the reason of an unknown outcome, for people.
	Message string `json:"message,omitempty"`
}

// outcomes are the possible outcomes of each kind.
var outcomes = map[string][]string{
	read:      {ok, missing},
	create:    {ok, exists, unknown},
	put:       {ok, conflict, missing, unknown},
	overwrite: {ok, missing, unknown},
	remove:    {ok, conflict, missing, unknown},
}

func (o operation) validate() error {
	possible := false
	for _, outcome := range outcomes[o.Kind] {
		possible = possible || outcome == o.Outcome
	}
	expects := o.Kind == put || o.Kind == remove
	writes := o.Kind == create || o.Kind == put || o.Kind == overwrite
	reads := o.Kind == read && o.Outcome == ok
	switch {
	case !possible:
		return fmt.Errorf("operation %q has outcome %q", o.Kind, o.Outcome)
	case o.Outcome != unknown && o.Return < o.Call:
		return fmt.Errorf("operation %q returns before its call", o.Kind)
	case expects != (o.Expect != "" && o.ExpectVersion != 0):
		return fmt.Errorf("operation %q expects %q at version %d", o.Kind, o.Expect, o.ExpectVersion)
	case (writes || reads) != (o.Value != ""):
		return fmt.Errorf("operation %q has value %q", o.Kind, o.Value)
	case (o.Outcome == ok && o.Kind != remove) != (o.Version != 0):
		return fmt.Errorf("operation %q with outcome %q has version %d", o.Kind, o.Outcome, o.Version)
	}
	return nil
}

// state is the state of a register. The value is empty if the object does not exist.
type state struct {
	value string
	// version is that of the value, or 0 as long as only an unknown operation has reported it.
	version uint64
	// newest is the newest version that the register is known to have had.
	newest uint64
}

var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, input, _ any) (bool, any) {
		return before.(state).step(input.(operation))
	},
	DescribeOperation: func(input, _ any) string {
		o := input.(operation)
		return fmt.Sprintf("%s(%s@%d) %s %s@%d", o.Kind, o.Expect, o.ExpectVersion, o.Outcome, o.Value, o.Version)
	},
	DescribeState: func(any any) string {
		s := any.(state)
		return fmt.Sprintf("%q@%d", s.value, s.version)
	},
}

// step reports whether an operation can have its outcome in this state, and returns the next state.
func (s state) step(o operation) (bool, state) {
	switch o.Outcome {
	case unknown:
		// An operation that is never executed is one that is executed last, when no other operation sees its effect, so
		// there is no other case for it.
		return true, s.apply(o)
	case ok:
		return s.succeed(o)
	case exists:
		return s.value != "", s
	case conflict:
		return !s.is(o), s
	default: // missing
		return s.value == "", s
	}
}

// is reports whether the state is the object that an operation expects.
func (s state) is(o operation) bool {
	return s.value == o.Expect && (s.version == 0 || s.version == o.ExpectVersion)
}

// permits reports whether an operation has an effect in this state.
func (s state) permits(o operation) bool {
	switch o.Kind {
	case create:
		return s.value == ""
	case overwrite:
		return s.value != ""
	default: // put, delete
		return s.is(o)
	}
}

// apply returns the state after an operation whose outcome is unknown, if it is executed now.
func (s state) apply(o operation) state {
	if !s.permits(o) {
		return s
	}
	s.newest = max(s.newest, o.ExpectVersion)
	s.value, s.version = o.Value, 0
	return s
}

// succeed returns the state after an operation that has succeeded, if it can.
func (s state) succeed(o operation) (bool, state) {
	if o.Kind == read {
		if s.value != o.Value || s.version == 0 && o.Version <= s.newest || s.version != 0 && s.version != o.Version {
			return false, s
		}
		return true, state{o.Value, o.Version, o.Version}
	}
	newest := max(s.newest, o.ExpectVersion)
	if !s.permits(o) || o.Kind != remove && o.Version <= newest {
		return false, s
	}
	if o.Kind == remove {
		return true, state{newest: newest}
	}
	return true, state{o.Value, o.Version, o.Version}
}
