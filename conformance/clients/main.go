// Command clients contains typical programs that use unmodified client-go. Each makes the requests of controllers and returns
// an error if the API server behaves differently from Kubernetes.
//
//	clients [--kubeconfig PATH] [--timeout DURATION] PROGRAM...
//
// The exit status is 0 if all pass, 1 if one fails, 2 for a wrong command line. Feature gates of client-go are set by
// environment variables such as KUBE_FEATURE_WatchListClient.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"
)

// program is a client program. It gets its own namespace, and returns an error if it fails.
type program struct {
	name  string
	about string
	run   func(context.Context, *target) error
}

// programs lists the programs in order.
var programs = []program{
	{"typed", "the typed clientset, in protobuf: every verb on nine kinds", typed},
	{"informers", "shared informers: order, late handlers, indexers, selectors", informersProgram},
	{"dynamic", "the dynamic client and its informers, on a custom resource and a built-in kind", dynamicProgram},
	{"metadata", "the metadata client and its informers, on a custom resource and a built-in kind", metadataProgram},
	{"apply", "server-side apply with apply configurations", apply},
	{"election", "leader election: two candidates, a release, a death", election},
	{"containers", "commands in a pod over SPDY and WebSockets, and its log, with the answers of pod-answers.yaml", containers},
}

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "the `PATH` of the kubeconfig")
	timeout := flag.Duration("timeout", 90*time.Second, "how long one program may take")
	flag.Usage = usage
	flag.Parse()

	chosen, err := choose(flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "clients: %v\n", err)
		usage()
		os.Exit(2)
	}
	failed := 0
	for _, program := range chosen {
		started := time.Now()
		if err := runOne(program, *kubeconfig, *timeout); err != nil {
			failed++
			fmt.Printf("FAILED %s: %v\n", program.name, err)
			continue
		}
		fmt.Printf("ok %s (%.1f s)\n", program.name, time.Since(started).Seconds())
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintf(os.Stderr, "usage: clients [flags] PROGRAM...\n")
	flag.PrintDefaults()
	fmt.Fprintf(os.Stderr, "programs:\n")
	for _, program := range programs {
		fmt.Fprintf(os.Stderr, "  %-10s %s\n", program.name, program.about)
	}
}

func choose(names []string) ([]program, error) {
	if len(names) == 0 {
		return nil, errors.New("no program is named")
	}
	var chosen []program
	for _, name := range names {
		found := false
		for _, program := range programs {
			if program.name == name {
				chosen, found = append(chosen, program), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no program %q", name)
		}
	}
	return chosen, nil
}

func runOne(program program, kubeconfig string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	target, err := newTarget(ctx, kubeconfig, program.name)
	if err != nil {
		return err
	}
	// The namespace is deleted even after the timeout.
	defer target.close(context.WithoutCancel(ctx))
	return program.run(ctx, target)
}
