package main

import (
	"errors"
	"fmt"

	"github.com/anishathalye/porcupine"
)

// sample is a history of one register with its verdict.
type sample struct {
	name       string
	isCorrect  bool
	operations []operation
}

// at sets the times of an operation.
func at(call, end int64, o operation) operation {
	o.Register, o.Call, o.Return = "r", call, end
	return o
}

func reads(value string, version uint64) operation {
	return operation{Kind: read, Outcome: ok, Value: value, Version: version}
}

func creates(value string, version uint64) operation {
	return operation{Kind: create, Outcome: ok, Value: value, Version: version}
}

func puts(expect string, expected uint64, outcome, value string, version uint64) operation {
	return operation{
		Kind: put, Outcome: outcome, Expect: expect, ExpectVersion: expected, Value: value, Version: version,
	}
}

func overwrites(outcome, value string, version uint64) operation {
	return operation{Kind: overwrite, Outcome: outcome, Value: value, Version: version}
}

func deletes(expect string, expected uint64, outcome string) operation {
	return operation{Kind: remove, Outcome: outcome, Expect: expect, ExpectVersion: expected}
}

var absent = operation{Kind: read, Outcome: missing}

var samples = []sample{
	{"sequential operations", true, []operation{
		at(0, 1, absent), at(2, 3, creates("a", 5)), at(4, 5, operation{Kind: create, Outcome: exists, Value: "b"}),
		at(6, 7, puts("a", 5, ok, "c", 6)), at(8, 9, puts("a", 5, conflict, "d", 0)), at(10, 11, reads("c", 6)),
		at(12, 13, overwrites(ok, "e", 8)), at(14, 15, deletes("e", 8, ok)), at(16, 17, overwrites(missing, "f", 0)),
	}},
	{"concurrent puts, of which one succeeds", true, []operation{
		at(0, 1, creates("a", 5)), at(2, 9, puts("a", 5, ok, "b", 6)), at(2, 9, puts("a", 5, conflict, "c", 0)),
		at(3, 4, reads("a", 5)), at(5, 6, reads("b", 6)),
	}},
	{"an unknown put that is executed later", true, []operation{
		at(0, 1, creates("a", 5)), at(2, 0, puts("a", 5, unknown, "b", 0)), at(10, 11, reads("a", 5)),
		at(12, 13, reads("b", 7)),
	}},
	{"an unknown put that is never executed", true, []operation{
		at(0, 1, creates("a", 5)), at(2, 0, puts("a", 5, unknown, "b", 0)), at(10, 11, reads("a", 5)),
		at(12, 13, puts("a", 5, ok, "c", 6)), at(14, 15, reads("c", 6)),
	}},
	{"an unknown put that explains a conflict", true, []operation{
		at(0, 1, creates("a", 5)), at(2, 0, puts("a", 5, unknown, "b", 0)), at(10, 11, puts("a", 5, conflict, "c", 0)),
		at(12, 13, overwrites(ok, "d", 9)),
	}},
	{"a stale read", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, puts("a", 5, ok, "b", 6)), at(4, 5, reads("a", 5)),
	}},
	{"a stale read of a deleted object", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, deletes("a", 5, ok)), at(4, 5, reads("a", 5)),
	}},
	{"a lost update: two puts replace one version", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 9, puts("a", 5, ok, "b", 6)), at(2, 9, puts("a", 5, ok, "c", 7)),
	}},
	{"a lost update: an acknowledged put is not read", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, overwrites(ok, "b", 6)), at(4, 5, absent),
	}},
	{"an update that is applied twice", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 0, overwrites(unknown, "b", 0)), at(3, 4, reads("b", 6)),
		at(5, 6, puts("b", 6, ok, "c", 7)), at(7, 8, reads("b", 8)),
	}},
	{"a conflict of an update that was executed", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, puts("a", 5, conflict, "b", 0)), at(4, 5, reads("b", 6)),
	}},
	{"reads that go back", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 20, overwrites(ok, "b", 6)), at(3, 4, reads("b", 6)), at(5, 6, reads("a", 5)),
	}},
	{"a version that goes back", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, overwrites(ok, "b", 4)),
	}},
	{"one value with two versions", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, reads("a", 6)),
	}},
	{"a conflict without a cause", false, []operation{
		at(0, 1, creates("a", 5)), at(2, 3, deletes("a", 5, conflict)), at(4, 5, reads("a", 5)),
	}},
}

// selfTest checks the verdict about each sample.
func selfTest() error {
	var failed error
	for _, sample := range samples {
		for _, operation := range sample.operations {
			if err := operation.validate(); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", sample.name, err))
			}
		}
		result, _ := porcupine.CheckOperationsVerbose(model, byRegister(sample.operations)["r"], limit)
		if (result == porcupine.Ok) != sample.isCorrect || result == porcupine.Unknown {
			failed = errors.Join(failed, fmt.Errorf("%s: the verdict is %s", sample.name, result))
		}
	}
	if failed == nil {
		fmt.Printf("%d histories have the right verdict\n", len(samples))
	}
	return failed
}
