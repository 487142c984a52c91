package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// journal is a handler that records its notifications by object.
type journal struct {
	mutex   sync.Mutex
	entries map[string][]string
	initial int
}

func newJournal() *journal { return &journal{entries: map[string][]string{}} }

func (j *journal) note(what string, object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	name := "?"
	if accessor, err := meta.Accessor(object); err == nil {
		name = accessor.GetName()
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.entries[name] = append(j.entries[name], what)
}

// OnAdd implements cache.ResourceEventHandler.
func (j *journal) OnAdd(object any, initial bool) {
	if initial {
		j.mutex.Lock()
		j.initial++
		j.mutex.Unlock()
	}
	j.note("add", object)
}

// OnUpdate implements cache.ResourceEventHandler.
func (j *journal) OnUpdate(_, object any) { j.note("update", object) }

// OnDelete implements cache.ResourceEventHandler.
func (j *journal) OnDelete(object any) { j.note("delete", object) }

// of returns the notifications of an object, in order.
func (j *journal) of(name string) string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return strings.Join(j.entries[name], " ")
}

// names returns the objects with notifications.
func (j *journal) names() []string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	var names []string
	for name := range j.entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// becomes waits until an object has these notifications.
func (j *journal) becomes(ctx context.Context, name, story string) error {
	return eventually(ctx, "the handler's story of "+name, func(context.Context) error {
		if told := j.of(name); told != story {
			return fmt.Errorf("%q is expected, not %q", story, told)
		}
		return nil
	})
}

const objects = 25

func informersProgram(ctx context.Context, t *target) error {
	client := t.client.CoreV1().ConfigMaps(t.namespace)
	for i := range objects {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%02d", i), Labels: map[string]string{"parity": parity(i)}},
			Data:       map[string]string{"group": strconv.Itoa(i % 5)},
		}
		if _, err := client.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create configmap %s: %w", object.Name, err)
		}
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(t.client, 0, informers.WithNamespace(t.namespace))
	shared := factory.Core().V1().ConfigMaps()
	informer := shared.Informer()
	byGroup := func(object any) ([]string, error) { return []string{object.(*corev1.ConfigMap).Data["group"]}, nil }
	if err := informer.AddIndexers(cache.Indexers{"group": byGroup}); err != nil {
		return fmt.Errorf("adding an indexer: %w", err)
	}
	first := newJournal()
	registration, err := informer.AddEventHandler(first)
	if err != nil {
		return fmt.Errorf("adding a handler: %w", err)
	}
	pods, nodes := factory.Core().V1().Pods(), factory.Core().V1().Nodes()
	pods.Informer()
	nodes.Informer()

	// A second factory has a selector.
	selected := informers.NewSharedInformerFactoryWithOptions(t.client, 0, informers.WithNamespace(t.namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "parity=even" }))
	even := newJournal()
	evenRegistration, err := selected.Core().V1().ConfigMaps().Informer().AddEventHandler(even)
	if err != nil {
		return fmt.Errorf("adding a handler: %w", err)
	}

	factory.StartWithContext(ctx)
	selected.StartWithContext(ctx)
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %v does not sync", kind)
		}
	}
	for kind, synced := range selected.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer with a selector, of %v, does not sync", kind)
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced, evenRegistration.HasSynced) {
		return fmt.Errorf("the handlers do not sync")
	}
	if err := asked(t.wire, "/namespaces/"+t.namespace+"/configmaps"); err != nil {
		return err
	}

	listed, err := shared.Lister().ConfigMaps(t.namespace).List(labels.SelectorFromSet(labels.Set{"parity": "odd"}))
	if err != nil || len(listed) != objects/2 {
		return fmt.Errorf("the lister finds %d odd configmaps, %w", len(listed), err)
	}
	indexed, err := informer.GetIndexer().ByIndex("group", "3")
	if err != nil || len(indexed) != objects/5 {
		return fmt.Errorf("the index finds %d configmaps in group 3, %w", len(indexed), err)
	}
	// The controller manager creates its own ConfigMap in each namespace at some time.
	if told := len(first.names()); told < objects || first.initial < objects {
		return fmt.Errorf("the handler was told of %d configmaps, %d of them from the start", told, first.initial)
	}
	if told := len(even.names()); told != (objects+1)/2 {
		return fmt.Errorf("the handler with a selector was told of %d configmaps", told)
	}

	late := newJournal()
	if _, err := informer.AddEventHandler(late); err != nil {
		return fmt.Errorf("adding a late handler: %w", err)
	}
	if err := late.becomes(ctx, "c-07", "add"); err != nil {
		return err
	}

	// Three writes; every handler is notified in this order.
	relabel := `{"metadata":{"labels":{"parity":"odd"}}}`
	if _, err := client.Patch(ctx, "c-00", types.MergePatchType, []byte(relabel), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch configmap c-00: %w", err)
	}
	if err := client.Delete(ctx, "c-00", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete configmap c-00: %w", err)
	}
	fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "fresh"}, Data: map[string]string{"group": "3"}}
	created, err := client.Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create configmap fresh: %w", err)
	}
	for _, journal := range []*journal{first, late} {
		if err := journal.becomes(ctx, "c-00", "add update delete"); err != nil {
			return err
		}
		if err := journal.becomes(ctx, "fresh", "add"); err != nil {
			return err
		}
	}
	if err := even.becomes(ctx, "c-00", "add delete"); err != nil {
		return fmt.Errorf("leaving a selector: %w", err)
	}
	if err := enters(ctx, t, even); err != nil {
		return err
	}
	err = eventually(ctx, "the version of the store", func(context.Context) error {
		version, err := strconv.ParseUint(informer.LastSyncResourceVersion(), 10, 64)
		if err != nil {
			return err
		}
		if wanted, _ := strconv.ParseUint(created.ResourceVersion, 10, 64); version < wanted {
			return fmt.Errorf("%d, the last write made %d", version, wanted)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if indexed, _ := informer.GetIndexer().ByIndex("group", "3"); len(indexed) != objects/5+1 {
		return fmt.Errorf("the index finds %d configmaps in group 3 after a creation", len(indexed))
	}
	if _, err := nodes.Lister().List(labels.Everything()); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}

	cancel()
	factory.Shutdown()
	selected.Shutdown()
	return nil
}

// enters changes an object so that it matches the selector: its handler gets an add.
func enters(ctx context.Context, t *target, even *journal) error {
	relabel := `{"metadata":{"labels":{"parity":"even"}}}`
	client := t.client.CoreV1().ConfigMaps(t.namespace)
	if _, err := client.Patch(ctx, "c-01", types.StrategicMergePatchType, []byte(relabel), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch configmap c-01: %w", err)
	}
	if err := even.becomes(ctx, "c-01", "add"); err != nil {
		return fmt.Errorf("entering a selector: %w", err)
	}
	return nil
}

// asked returns an error if the requests of the informers do not match the feature gate: client-go falls back silently from a
// streaming list to a list and a watch, which would hide a server without streaming lists.
func asked(wire *wire, path string) error {
	streamed, lists, watches := 0, 0, 0
	for _, request := range wire.of("GET", path) {
		switch {
		case strings.Contains(request.query, "sendInitialEvents=true"):
			streamed++
		case strings.Contains(request.query, "watch=true"):
			watches++
		default:
			lists++
		}
	}
	if clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		if streamed == 0 || lists > 0 {
			return fmt.Errorf("the client fell back from streamed lists: %d of them, %d lists, %v", streamed, lists, wire.of("GET", path))
		}
		return nil
	}
	if streamed > 0 || lists == 0 {
		return fmt.Errorf("the client streamed although it should not: %d times, %d lists, %d watches", streamed, lists, watches)
	}
	return nil
}

func parity(i int) string {
	if i%2 == 0 {
		return "even"
	}
	return "odd"
}
