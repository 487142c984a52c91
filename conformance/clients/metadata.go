package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
)

func metadataProgram(ctx context.Context, t *target) error {
	boats, err := build(ctx, t)
	if err != nil {
		return err
	}
	defer boats.sink(ctx)
	resource, err := boats.resource(ctx, t)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(t.config)
	if err != nil {
		return fmt.Errorf("making a dynamic client: %w", err)
	}
	client, err := metadata.NewForConfig(t.config)
	if err != nil {
		return fmt.Errorf("making a metadata client: %w", err)
	}
	boat := boats.boat("blue", "kiel")
	boat.SetLabels(map[string]string{"colour": "blue"})
	if _, err := objects.Resource(resource).Namespace(t.namespace).Create(ctx, boat, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create boat blue: %w", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{"colour": "blue"}}, Data: map[string]string{"a": "b"}}
	if _, err := t.client.CoreV1().ConfigMaps(t.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create configmap blue: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, t.namespace, nil)
	boatStory, mapStory := newJournal(), newJournal()
	if _, err := factory.ForResource(resource).Informer().AddEventHandler(boatStory); err != nil {
		return fmt.Errorf("adding a handler of boats: %w", err)
	}
	if _, err := factory.ForResource(configMaps).Informer().AddEventHandler(mapStory); err != nil {
		return fmt.Errorf("adding a handler of configmaps: %w", err)
	}
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the informer of %v does not sync", resource)
		}
	}
	for _, path := range []string{"/boats", "/configmaps"} {
		path = "/namespaces/" + t.namespace + path
		if err := asked(t.wire, path); err != nil {
			return err
		}
		for _, request := range t.wire.of("GET", path) {
			if !strings.Contains(request.accept, "as=PartialObjectMetadata") {
				return fmt.Errorf("the client asked for more than metadata: %v, %s", request, request.accept)
			}
		}
	}

	found, err := factory.ForResource(resource).Lister().List(labels.SelectorFromSet(labels.Set{"colour": "blue"}))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the lister finds %d blue boats, %w", len(found), err)
	}
	if _, ok := found[0].(*metav1.PartialObjectMetadata); !ok {
		return fmt.Errorf("the lister's boat is a %T", found[0])
	}
	for _, one := range []struct {
		what   string
		client metadata.ResourceInterface
		story  *journal
	}{
		{"boat", client.Resource(resource).Namespace(t.namespace), boatStory},
		{"configmap", client.Resource(configMaps).Namespace(t.namespace), mapStory},
	} {
		if err := metadataVerbs(ctx, one.client); err != nil {
			return fmt.Errorf("%s blue: %w", one.what, err)
		}
		if err := one.story.becomes(ctx, "blue", "add update delete"); err != nil {
			return fmt.Errorf("%s: %w", one.what, err)
		}
	}
	cancel()
	factory.Shutdown()
	return nil
}

// metadataVerbs tests get, list, patch and delete, without the objects' bodies.
func metadataVerbs(ctx context.Context, client metadata.ResourceInterface) error {
	got, err := client.Get(ctx, "blue", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if got.Labels["colour"] != "blue" || got.UID == "" {
		return fmt.Errorf("get: %v", got.ObjectMeta)
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "colour=blue"})
	if err != nil || len(list.Items) != 1 || list.ResourceVersion == "" {
		return fmt.Errorf("list: %v, %w", list, err)
	}
	patch := `{"metadata":{"annotations":{"checked":"yes"}}}`
	patched, err := client.Patch(ctx, "blue", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil || patched.Annotations["checked"] != "yes" {
		return fmt.Errorf("patch: %v, %w", patched, err)
	}
	version := got.ResourceVersion
	err = client.Delete(ctx, "blue", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("delete an old version: a conflict is expected, not %v", err)
	}
	if err := client.Delete(ctx, "blue", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if _, err := client.Get(ctx, "blue", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("get: not found is expected, not %v", err)
	}
	return nil
}
