// Command client-go is the peer of `windlass-bench informer`: one shared informer of all pods, a handler that makes keys,
// the same figures in the same lines.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	server := flag.String("server", "", "a server that asks for no credentials")
	kubeconfig := flag.String("kubeconfig", "", "a server, by a kubeconfig")
	resource := flag.String("resource", "pods", "pods, secrets or configmaps")
	updates := flag.Int64("updates", 0, "how many updates to wait for after the sync")
	flag.Parse()
	if err := run(*server, *kubeconfig, *resource, *updates); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run(server, kubeconfig, resource string, updates int64) error {
	config, err := configure(server, kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/json"
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	var informer cache.SharedIndexInformer
	switch resource {
	case "pods":
		informer = factory.Core().V1().Pods().Informer()
	case "secrets":
		informer = factory.Core().V1().Secrets().Informer()
	case "configmaps":
		informer = factory.Core().V1().ConfigMaps().Informer()
	default:
		return fmt.Errorf("no informer of %s here", resource)
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
	before, cpuBefore, started := memory("VmRSS:"), cpu(), time.Now()
	factory.Start(context.Background().Done())
	if !cache.WaitForCacheSync(context.Background().Done(), registration.HasSynced) {
		return fmt.Errorf("the cache did not sync")
	}
	took, used, peak := time.Since(started), cpu()-cpuBefore, memory("VmHWM:")
	time.Sleep(200 * time.Millisecond)
	debug.FreeOSMemory()
	objects := int64(len(informer.GetStore().ListKeys()))
	runtime.GC()
	debug.FreeOSMemory()
	after := memory("VmRSS:")
	report(map[string]any{
		"bench": "informer", "objects": objects, "sync_seconds": took.Seconds(), "cpu_seconds": used,
		"rss_bytes": after, "rss_bytes_per_object": (after - before) / max(objects, 1), "peak_rss_bytes": peak,
	})
	if updates > 0 {
		cpuBefore, already := cpu(), seen.Load()
		for seen.Load() == already {
			time.Sleep(time.Millisecond)
		}
		started := time.Now()
		<-done
		took, used := time.Since(started).Seconds(), cpu()-cpuBefore
		events := float64(updates - already)
		report(map[string]any{
			"bench": "updates", "events": events, "seconds": took, "cpu_us_per_event": used * 1e6 / events,
			"events_per_second": events / took, "rss_bytes": memory("VmRSS:"),
		})
	}
	return nil
}

func configure(server, kubeconfig string) (*rest.Config, error) {
	if server != "" {
		return &rest.Config{Host: server}, nil
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

func report(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// cpu tells the processor time that was used, in seconds.
func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(time syscall.Timeval) float64 { return float64(time.Sec) + float64(time.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// memory tells a field of the process's status, in bytes.
func memory(field string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				panic(err)
			}
			return kilobytes * 1024
		}
	}
	panic("no " + field)
}
