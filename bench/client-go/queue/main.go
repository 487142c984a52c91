// Command queue is the equivalent of `windlass-bench queue`: client-go's rate-limiting queue, the same keys and the same output.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// keys is the number of different keys.
const keys = 10_000

func main() {
	adds := flag.Int("adds", 5_000_000, "how many adds")
	workers := flag.Int("workers", 1, "how many workers")
	flag.Parse()
	if err := run(*adds, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "queue:", err)
		os.Exit(1)
	}
}

func run(adds, workers int) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	names := make([]string, keys)
	for key := range names {
		names[key] = fmt.Sprintf("namespace-%d/pod-%d", key%50, key)
	}
	var processed atomic.Int64
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				key, shutdown := queue.Get()
				if shutdown {
					return
				}
				processed.Add(1)
				queue.Done(key)
			}
		})
	}
	started := time.Now()
	for add := range adds {
		queue.Add(names[add%keys])
	}
	queue.ShutDownWithDrain()
	working.Wait()
	seconds := time.Since(started).Seconds()
	text, err := json.Marshal(map[string]any{
		"bench": "queue", "adds": adds, "workers": workers,
		"processed": processed.Load(), "seconds": seconds, "adds_per_second": float64(adds) / seconds,
	})
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return nil
}
