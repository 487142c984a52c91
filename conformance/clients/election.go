package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 250 * time.Millisecond
)

// ballot records the leader, and whether there were ever two.
type ballot struct {
	mutex    sync.Mutex
	leading  map[string]bool
	together bool
}

func (b *ballot) set(name string, leads bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if leads {
		b.leading[name] = true
	} else {
		delete(b.leading, name)
	}
	b.together = b.together || len(b.leading) > 1
}

func (b *ballot) leader(ctx context.Context, name string) error {
	return eventually(ctx, name+" to lead", func(context.Context) error {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		if b.together {
			return fmt.Errorf("two led at once")
		}
		if !b.leading[name] {
			return fmt.Errorf("%v lead", b.leading)
		}
		return nil
	})
}

// candidate is a running candidate.
type candidate struct {
	name   string
	ballot *ballot
	stop   context.CancelFunc
	ended  chan struct{}
}

// leave stops a candidate's work, then its candidacy: client-go reports the end only after the lease is released.
func (c *candidate) leave() {
	c.ballot.set(c.name, false)
	c.stop()
	<-c.ended
}

func election(ctx context.Context, t *target) error {
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: t.client.CoreV1().Events(t.namespace)})
	ballot := &ballot{leading: map[string]bool{}}
	run := func(name string, release bool) (*candidate, error) {
		return stand(ctx, t, broadcaster, ballot, name, release)
	}

	first, err := run("first", true)
	if err != nil {
		return err
	}
	defer first.stop()
	if err := ballot.leader(ctx, "first"); err != nil {
		return err
	}
	second, err := run("second", false)
	if err != nil {
		return err
	}
	defer second.stop()
	// The second candidate tries at least twice, and must not lead.
	time.Sleep(3 * retryPeriod)
	if err := ballot.leader(ctx, "first"); err != nil {
		return err
	}

	// A leader that releases its lease is followed at once.
	first.leave()
	released := time.Now()
	if err := ballot.leader(ctx, "second"); err != nil {
		return err
	}
	if waited := time.Since(released); waited >= leaseDuration {
		return fmt.Errorf("a released lease was taken after %s", waited)
	}

	// A leader that crashes is followed when its lease has expired.
	third, err := run("third", true)
	if err != nil {
		return err
	}
	defer third.stop()
	second.leave()
	died := time.Now()
	if err := ballot.leader(ctx, "third"); err != nil {
		return err
	}
	if waited := time.Since(died); waited < leaseDuration-renewDeadline {
		return fmt.Errorf("the lease of one that died was taken after %s", waited)
	}

	lease, err := t.client.CoordinationV1().Leases(t.namespace).Get(ctx, "election", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get lease election: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != "third" || lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions < 2 {
		return fmt.Errorf("the lease says %v", lease.Spec)
	}
	third.leave()
	return eventually(ctx, "the events of the election", func(ctx context.Context) error {
		events, err := t.client.CoreV1().Events(t.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Lease,involvedObject.name=election,reason=LeaderElection",
		})
		if err != nil {
			return err
		}
		said := map[string]bool{}
		for _, event := range events.Items {
			said[event.Message] = true
		}
		for _, message := range []string{"first became leader", "first stopped leading", "second became leader", "third became leader"} {
			if !said[message] {
				return fmt.Errorf("%q is not among %v", message, said)
			}
		}
		return nil
	})
}

// stand starts a candidate. With release, it releases the lease when it leaves.
func stand(ctx context.Context, t *target, broadcaster record.EventBroadcaster, ballot *ballot, name string, release bool) (*candidate, error) {
	// Each has its own connection and clientset, as in a separate process.
	client, err := kubernetes.NewForConfig(t.config)
	if err != nil {
		return nil, fmt.Errorf("making a clientset for %s: %w", name, err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, t.namespace, "election", client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{
			Identity:      name,
			EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: name}),
		})
	if err != nil {
		return nil, fmt.Errorf("making a lock for %s: %w", name, err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { ballot.set(name, true) },
			OnStoppedLeading: func() { ballot.set(name, false) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making an elector for %s: %w", name, err)
	}
	running, stop := context.WithCancel(ctx)
	candidate := &candidate{name: name, ballot: ballot, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(candidate.ended)
		elector.Run(running)
	}()
	return candidate, nil
}
