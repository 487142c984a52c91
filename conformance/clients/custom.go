package main

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// boats is a custom resource that exists while the program runs.
type boats struct {
	group  string
	client apiextensions.Interface
}

// build creates the CRD and waits until it is served.
func build(ctx context.Context, t *target) (*boats, error) {
	client, err := apiextensions.NewForConfig(t.config)
	if err != nil {
		return nil, fmt.Errorf("making an apiextensions clientset: %w", err)
	}
	boats := &boats{group: t.namespace + ".windlass.dev", client: client}
	definition := boats.definition()
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create customresourcedefinition %s: %w", definition.Name, err)
	}
	err = eventually(ctx, "customresourcedefinition "+definition.Name, func(ctx context.Context) error {
		found, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, definition.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is not established: %v", found.Status.Conditions)
	})
	if err != nil {
		boats.sink(ctx)
		return nil, err
	}
	return boats, nil
}

// sink deletes the CRD and all boats.
func (b *boats) sink(ctx context.Context) {
	// The name of the CRD is unique, so a remaining CRD does not affect other programs.
	_ = b.client.ApiextensionsV1().CustomResourceDefinitions().Delete(context.WithoutCancel(ctx), "boats."+b.group, metav1.DeleteOptions{})
}

func (b *boats) definition() *apiextensionsv1.CustomResourceDefinition {
	str, integer := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	listType, least := "map", 1.0
	berths := apiextensionsv1.JSONSchemaProps{
		Type:         "array",
		XListType:    &listType,
		XListMapKeys: []string{"name"},
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type:       "object",
			Required:   []string{"name"},
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": str, "length": integer},
		}},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "boats." + b.group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: b.group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Singular: "boat", Kind: "Boat", ListKind: "BoatList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {
							Type:     "object",
							Required: []string{"harbour"},
							Properties: map[string]apiextensionsv1.JSONSchemaProps{
								"harbour": str,
								"crew":    {Type: "integer", Minimum: &least, Default: &apiextensionsv1.JSON{Raw: []byte("2")}},
								"berths":  berths,
							},
						},
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"afloat": {Type: "boolean"}}},
					},
				}},
			}},
		},
	}
}

// resource returns the resource of a kind from discovery.
func (b *boats) resource(ctx context.Context, t *target) (schema.GroupVersionResource, error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(t.client.Discovery()))
	var mapping *meta.RESTMapping
	err := eventually(ctx, "the kind Boat in discovery", func(context.Context) (err error) {
		mapping, err = mapper.RESTMapping(schema.GroupKind{Group: b.group, Kind: "Boat"})
		if err != nil {
			mapper.Reset()
		}
		return err
	})
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace || mapping.Resource.Resource != "boats" || mapping.Resource.Version != "v1" {
		return schema.GroupVersionResource{}, fmt.Errorf("discovery maps Boat to %v, %s", mapping.Resource, mapping.Scope.Name())
	}
	return mapping.Resource, nil
}

// boat returns a boat with the default crew.
func (b *boats) boat(name, harbour string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": b.group + "/v1",
		"kind":       "Boat",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"harbour": harbour},
	}}
}
