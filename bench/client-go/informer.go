package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var widgets = schema.GroupVersionResource{Group: "bench.windlass.dev", Version: "v1", Resource: "widgets"}

// informerOf makes the informer that a program would use: typed for what is built in, dynamic for custom resources.
func informerOf(resource string, config *rest.Config) (cache.SharedIndexInformer, error) {
	if resource == widgets.Resource {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicinformer.NewDynamicSharedInformerFactory(client, 0).ForResource(widgets).Informer(), nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
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
