package main

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func dynamicProgram(ctx context.Context, t *target) error {
	boats, err := build(ctx, t)
	if err != nil {
		return err
	}
	defer boats.sink(ctx)
	resource, err := boats.resource(ctx, t)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(t.config)
	if err != nil {
		return fmt.Errorf("making a dynamic client: %w", err)
	}
	own := client.Resource(resource).Namespace(t.namespace)
	if _, err := own.Create(ctx, boats.boat("early", "kiel"), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create boat early: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, t.namespace, nil)
	boat, maps := newJournal(), newJournal()
	if _, err := factory.ForResource(resource).Informer().AddEventHandler(boat); err != nil {
		return fmt.Errorf("adding a handler of boats: %w", err)
	}
	if _, err := factory.ForResource(configMaps).Informer().AddEventHandler(maps); err != nil {
		return fmt.Errorf("adding a handler of configmaps: %w", err)
	}
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %v does not sync", resource)
		}
	}
	for _, path := range []string{"/boats", "/configmaps"} {
		if err := asked(t.wire, "/namespaces/"+t.namespace+path); err != nil {
			return err
		}
	}

	if err := sail(ctx, boats, own); err != nil {
		return err
	}
	if err := boat.becomes(ctx, "blue", "add update update update delete"); err != nil {
		return err
	}
	if err := boat.becomes(ctx, "early", "add"); err != nil {
		return err
	}
	listed, err := factory.ForResource(resource).Lister().ByNamespace(t.namespace).List(labels.Everything())
	if err != nil || len(listed) != 1 {
		return fmt.Errorf("the lister finds %d boats, %w", len(listed), err)
	}
	// Items of a built-in list have no kind and apiVersion; cached objects have them.
	if kind := listed[0].GetObjectKind().GroupVersionKind(); kind.Kind != "Boat" || kind.Group != boats.group {
		return fmt.Errorf("the lister's boat is a %v", kind)
	}

	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "loose"}, "data": map[string]any{"a": "b"},
	}}
	if _, err := client.Resource(configMaps).Namespace(t.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create configmap loose: %w", err)
	}
	if err := maps.becomes(ctx, "loose", "add"); err != nil {
		return err
	}
	cancel()
	factory.Shutdown()
	return nil
}

// sail tests every verb with a boat: one creation, three changes, one deletion.
func sail(ctx context.Context, boats *boats, client dynamic.ResourceInterface) error {
	created, err := client.Create(ctx, boats.boat("blue", "kiel"), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create boat blue: %w", err)
	}
	if crew, _, _ := unstructured.NestedInt64(created.Object, "spec", "crew"); crew != 2 {
		return fmt.Errorf("create boat blue: the default crew is %d", crew)
	}
	strange := boats.boat("strange", "kiel")
	strange.Object["spec"].(map[string]any)["sails"] = int64(3)
	_, err = client.Create(ctx, strange, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.sails"`) {
		return fmt.Errorf("create a boat with an unknown field: it is to be refused, not %v", err)
	}
	_, err = client.Create(ctx, boats.boat("wrong", "kiel"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("create boat wrong without effect: %w", err)
	}

	if err := unstructured.SetNestedField(created.Object, "oslo", "spec", "harbour"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(created.Object, true, "status", "afloat"); err != nil {
		return err
	}
	updated, err := client.Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update boat blue: %w", err)
	}
	if _, found := updated.Object["status"]; found || updated.GetGeneration() != 2 {
		return fmt.Errorf("update boat blue: status %v, generation %d", updated.Object["status"], updated.GetGeneration())
	}
	if err := unstructured.SetNestedField(updated.Object, true, "status", "afloat"); err != nil {
		return err
	}
	floating, err := client.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update the status of boat blue: %w", err)
	}
	if afloat, _, _ := unstructured.NestedBool(floating.Object, "status", "afloat"); !afloat || floating.GetGeneration() != 2 {
		return fmt.Errorf("update the status of boat blue: %v, generation %d", floating.Object["status"], floating.GetGeneration())
	}
	if _, err := client.Patch(ctx, "blue", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		return fmt.Errorf("patch boat blue strategically: an unsupported media type is expected, not %v", err)
	}
	manned, err := client.Patch(ctx, "blue", types.MergePatchType, []byte(`{"spec":{"crew":5}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch boat blue: %w", err)
	}
	if crew, _, _ := unstructured.NestedInt64(manned.Object, "spec", "crew"); crew != 5 {
		return fmt.Errorf("patch boat blue: the crew is %d", crew)
	}
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=blue"})
	if err != nil || len(list.Items) != 1 || list.GetKind() != "BoatList" {
		return fmt.Errorf("list boats by name: %v, %w", list, err)
	}
	if err := client.Delete(ctx, "blue", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete boat blue: %w", err)
	}
	if _, err := client.Get(ctx, "blue", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("get boat blue: not found is expected, not %v", err)
	}
	return nil
}
