// Command protobuf prints what windlass-protobuf knows of the Kubernetes API's Go types, and its test data.
//
//	go run ./protobuf types               the types of this module's Kubernetes version, for merge
//	go run ./protobuf merge FILE…         the table of several versions: ../crates/windlass-protobuf/data/messages.txt
//	go run ./protobuf corpus SEED N       objects in JSON and protobuf: ../crates/windlass-protobuf/testdata/corpus.txt.gz
//
// `cargo xtask protobuf` runs all three.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	switch arguments := os.Args[1:]; {
	case len(arguments) == 1 && arguments[0] == "types":
		printTypes(out)
	case len(arguments) > 1 && arguments[0] == "merge":
		merge(out, arguments[1:])
	case len(arguments) == 3 && arguments[0] == "corpus":
		corpus(out, arguments[1], arguments[2])
	default:
		fail("usage: protobuf types | merge FILE… | corpus SEED N")
	}
	if err := out.Flush(); err != nil {
		fail("%v", err)
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "protobuf: "+format+"\n", arguments...)
	os.Exit(1)
}
