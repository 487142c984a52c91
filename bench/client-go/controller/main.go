// The equivalent of `windlass-bench-controller` with controller-runtime, with the same output.
package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"windlass.dev/bench/client-go/figures"
)

// quiet is the time without reconciles after which the work is done.
const quiet = time.Second

type reconciler struct {
	client.Client
	count *count
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	return ctrl.Result{}, r.count.around(func() (bool, error) { return r.reconcile(ctx, request) })
}

// reconcile applies the desired child, and updates the status.
func (r *reconciler) reconcile(ctx context.Context, request ctrl.Request) (bool, error) {
	var widget Widget
	if err := r.Get(ctx, request.NamespacedName, &widget); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	wanted := settingsOf(&widget)
	var found corev1.ConfigMap
	switch err := r.Get(ctx, client.ObjectKeyFromObject(wanted), &found); {
	case errors.IsNotFound(err):
		if err := ctrl.SetControllerReference(&widget, wanted, r.Scheme()); err != nil {
			return false, err
		}
		if err := r.Create(ctx, wanted); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	case !equality.Semantic.DeepEqual(found.Data, wanted.Data):
		found.Data = wanted.Data
		if err := r.Update(ctx, &found); err != nil {
			return false, err
		}
	}
	changed := meta.SetStatusCondition(&widget.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Configured", ObservedGeneration: widget.Generation,
	})
	if !changed && widget.Status.ObservedGeneration == widget.Generation {
		return false, nil
	}
	widget.Status.ObservedGeneration = widget.Generation
	return true, r.Status().Update(ctx, &widget)
}

func main() {
	// controller-runtime defines the flag --kubeconfig. The server has the objects of `windlass-bench populate`.
	objects := flag.Int("objects", 10_000, "how many objects there are")
	concurrency := flag.Int("concurrency", 8, "how many are reconciled at a time")
	inOrder := flag.Bool("in-order", false, "take keys in the order in which they came, and not by priority")
	flag.Parse()

	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig() // without a rate limit
	must(err)
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme(),
		Metrics: server.Options{BindAddress: "0"}, // counted, but not served
	})
	must(err)
	count := &count{}
	must(ctrl.NewControllerManagedBy(manager).
		For(&Widget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: *concurrency, UsePriorityQueue: ptr.To(!*inOrder)}).
		Complete(&reconciler{Client: manager.GetClient(), count: count}))

	cpuBefore, started := figures.CPU(), time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for count.ready() < *objects {
			time.Sleep(10 * time.Millisecond)
		}
		seconds := time.Since(started).Seconds()
		count.quiet(quiet)
		report(count, seconds, cpuBefore)
		cancel()
	}()
	must(manager.Start(ctx))
}

func report(count *count, seconds, cpuBefore float64) {
	used := figures.CPU() - cpuBefore
	untrimmed, peak := figures.Memory("VmRSS:"), figures.Memory("VmHWM:")
	// Twice: the second run returns the pools that the first one clears.
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	median, p99 := count.latency()
	reconciles, objects := float64(count.ended.Load()), float64(count.ready())
	figures.Print(map[string]any{
		"bench": "reconcile", "objects": count.ready(), "reconciles": count.ended.Load(), "failed": count.failed.Load(),
		"seconds": seconds, "objects_per_second": objects / seconds, "reconciles_per_second": reconciles / seconds,
		"p50_ms": median, "p99_ms": p99,
		"cpu_us_per_reconcile": used * 1e6 / reconciles, "cpu_us_per_object": used * 1e6 / objects,
		"untrimmed_rss_bytes": untrimmed, "rss_bytes": figures.Memory("VmRSS:"), "peak_rss_bytes": peak,
	})
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("bench-controller-runtime: %v", err))
	}
}
