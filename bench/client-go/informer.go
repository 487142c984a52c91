package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var widgets = schema.GroupVersionResource{Group: "bench.windlass.dev", Version: "v1", Resource: "widgets"}

// few objects are listed before the measurement, because the program's own pages are not a cost of objects.
var few = metav1.ListOptions{Limit: 4}

// informerOf returns a typed informer for built-in types, and a dynamic one for custom resources.
func informerOf(ctx context.Context, resource string, config *rest.Config) (cache.SharedIndexInformer, error) {
	if resource == widgets.Resource {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		if _, err := client.Resource(widgets).List(ctx, few); err != nil {
			return nil, err
		}
		return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(widgets).Informer(), nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	request := client.CoreV1().RESTClient().Get().Resource(resource).VersionedParams(&few, scheme.ParameterCodec)
	if _, err := request.Do(ctx).Get(); err != nil {
		return nil, err
	}
	core := informers.NewSharedInformerFactory(client, 0).Core().V1()
	switch resource {
	case "pods":
		return core.Pods().Informer(), nil
	case "secrets":
		return core.Secrets().Informer(), nil
	case "configmaps":
		return core.ConfigMaps().Informer(), nil
	}
	return nil, fmt.Errorf("no informer of %s here", resource)
}
