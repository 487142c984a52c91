// Checks histories of concurrent clients for linearizability, with porcupine.
//
//	linearizability FILE...    checks histories of JSON lines, one operation in each line
//	linearizability --self-test
//
// The self-test checks histories that are correct, and histories that are corrupted in a known way. It fails if the
// verdict about one of them is wrong.
//
// The registers of a history are independent, so each is checked alone. For a register whose operations are not
// linearizable, the visualization of porcupine is written beside the history.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// limit is the time for one register. The usual time is a few milliseconds.
const limit = 2 * time.Minute

func main() {
	arguments := os.Args[1:]
	var err error
	switch {
	case len(arguments) == 0:
		err = errors.New("usage: linearizability FILE... | --self-test")
	case arguments[0] == "--self-test":
		err = selfTest()
	default:
		for _, file := range arguments {
			err = errors.Join(err, checkFile(file))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		os.Exit(1)
	}
}

// checkFile checks all registers of a history.
func checkFile(name string) error {
	operations, err := readFile(name)
	if err != nil {
		return err
	}
	registers := byRegister(operations)
	names := make([]string, 0, len(registers))
	for register := range registers {
		names = append(names, register)
	}
	sort.Strings(names)
	var failed error
	for _, register := range names {
		result, information := porcupine.CheckOperationsVerbose(model, registers[register], limit)
		if result == porcupine.Ok {
			continue
		}
		page := fmt.Sprintf("%s.%s.html", strings.TrimSuffix(name, ".jsonl"), register)
		if err := porcupine.VisualizePath(model, information, page); err != nil {
			return fmt.Errorf("write %s: %w", page, err)
		}
		failed = errors.Join(failed, fmt.Errorf("%s: register %s is %s, see %s", name, register, verdict(result), page))
	}
	if failed == nil {
		fmt.Printf("%s: %d operations on %d registers are linearizable\n", name, len(operations), len(registers))
	}
	return failed
}

func verdict(result porcupine.CheckResult) string {
	if result == porcupine.Illegal {
		return "not linearizable"
	}
	return fmt.Sprintf("not decided within %v", limit)
}

// readFile reads the operations of a history.
func readFile(name string) ([]operation, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var operations []operation
	lines := bufio.NewScanner(file)
	for line := 1; lines.Scan(); line++ {
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.DisallowUnknownFields()
		var read operation
		if err := decoder.Decode(&read); err != nil {
			return nil, fmt.Errorf("read %s, line %d: %w", name, line, err)
		}
		if err := read.validate(); err != nil {
			return nil, fmt.Errorf("read %s, line %d: %w", name, line, err)
		}
		operations = append(operations, read)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(operations) == 0 {
		return nil, fmt.Errorf("read %s: it contains no operation", name)
	}
	return operations, nil
}

// byRegister groups the operations by their registers, for porcupine. An operation with an unknown outcome can take
// effect at any time after its call, so it has no end.
func byRegister(operations []operation) map[string][]porcupine.Operation {
	registers := map[string][]porcupine.Operation{}
	for _, each := range operations {
		end := each.Return
		if each.Outcome == unknown {
			end = math.MaxInt64
		}
		registers[each.Register] = append(registers[each.Register], porcupine.Operation{
			ClientId: each.Client, Input: each, Call: each.Call, Output: each, Return: end,
		})
	}
	return registers
}
