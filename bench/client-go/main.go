// Command client-go is the equivalent of `windlass-bench informer`: one shared informer, a handler that produces keys, and the
// same output. With --encode it converts objects from JSON to protobuf, for the replay.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"windlass.dev/bench/client-go/figures"
)

// settling is the time that all clients wait before their memory is measured.
const settling = 200 * time.Millisecond

func main() {
	server := flag.String("server", "", "a server that asks for no credentials")
	kubeconfig := flag.String("kubeconfig", "", "a server, by a kubeconfig")
	resource := flag.String("resource", "pods", "pods, secrets, configmaps or widgets")
	mediaType := flag.String("accept", "application/json", "the media type to ask for")
	updates := flag.Int64("updates", 0, "how many updates to wait for after the sync")
	encoded := flag.String("encode", "", "instead: read objects of this kind from stdin, a line of JSON each, write their protobuf")
	flag.Parse()
	err := error(nil)
	if *encoded != "" {
		err = encode(*encoded, os.Stdin, os.Stdout)
	} else {
		err = run(*server, *kubeconfig, *resource, *mediaType, *updates)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(server, kubeconfig, resource, mediaType string, updates int64) error {
	config, err := configure(server, kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = mediaType
	config.QPS = -1
	informer, err := informerOf(context.Background(), resource, config)
	if err != nil {
		return err
	}
	var seen atomic.Int64
	done := make(chan struct{})
	key := func(object any) {
		key, _ := cache.MetaNamespaceKeyFunc(object)
		runtime.KeepAlive(key)
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: key,
		UpdateFunc: func(_, object any) {
			key(object)
			if seen.Add(1) == updates {
				close(done)
			}
		},
		DeleteFunc: key,
	})
	if err != nil {
		return err
	}

	debug.FreeOSMemory()
	before, cpuBefore, started := figures.Memory("VmRSS:"), figures.CPU(), time.Now()
	go informer.Run(context.Background().Done())
	// cache.WaitForCacheSync polls every 100 ms.
	for !registration.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	took, used, peak := time.Since(started), figures.CPU()-cpuBefore, figures.Memory("VmHWM:")
	time.Sleep(settling)
	objects := int64(len(informer.GetStore().ListKeys()))
	collect()
	after := figures.Memory("VmRSS:")
	figures.Print(map[string]any{
		"bench": "informer", "objects": objects, "sync_seconds": took.Seconds(), "cpu_seconds": used,
		"rss_bytes": after, "rss_bytes_per_object": (after - before) / max(objects, 1), "peak_rss_bytes": peak,
	})
	if updates > 0 {
		cpuBefore, already := figures.CPU(), seen.Load()
		for seen.Load() == already {
			time.Sleep(time.Millisecond)
		}
		started := time.Now()
		<-done
		took, used := time.Since(started).Seconds(), figures.CPU()-cpuBefore
		time.Sleep(settling)
		untrimmed := figures.Memory("VmRSS:")
		collect()
		events := float64(updates - already)
		figures.Print(map[string]any{
			"bench": "updates", "events": events, "seconds": took, "cpu_us_per_event": used * 1e6 / events,
			"events_per_second": events / took, "rss_bytes": figures.Memory("VmRSS:"), "untrimmed_rss_bytes": untrimmed,
		})
	}
	return nil
}

// collect returns unused memory to the system. It collects twice: the second run returns the pools that the first one clears.
func collect() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

func configure(server, kubeconfig string) (*rest.Config, error) {
	if server != "" {
		return &rest.Config{Host: server}, nil
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
