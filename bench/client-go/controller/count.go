package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// count has the statistics of the reconciles, as in windlass-bench-controller.
type count struct {
	ended, failed atomic.Int64

	lock sync.Mutex
	// took has the durations of reconciles that wrote a status.
	took []time.Duration
}

// around counts one reconcile, which reports whether it has written the status.
func (c *count) around(reconcile func() (bool, error)) error {
	start := time.Now()
	wrote, err := reconcile()
	if err != nil {
		c.failed.Add(1)
	} else if wrote {
		c.lock.Lock()
		c.took = append(c.took, time.Since(start))
		c.lock.Unlock()
	}
	c.ended.Add(1)
	return err
}

func (c *count) ready() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return len(c.took)
}

// quiet waits until no reconcile has ended for a while.
func (c *count) quiet(while time.Duration) {
	for before := int64(-1); before != c.ended.Load(); time.Sleep(while) {
		before = c.ended.Load()
	}
}

// latency returns the median and the 99th percentile, in milliseconds.
func (c *count) latency() (median, p99 float64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	took := slices.Sorted(slices.Values(c.took))
	at := func(percent int) float64 { return took[len(took)*percent/100].Seconds() * 1e3 }
	return at(50), at(99)
}
