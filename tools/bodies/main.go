// Command bodies prints request bodies of every served kind, as protobuf and as Go's JSON of the same object. They are test data
// for windlass-server's codec:
//
//	go run ./bodies > ../crates/windlass-server/testdata/bodies.tsv
//
// Each line has group, version, kind, the protobuf body in base64, and the JSON. Every field of every type is set once; pod
// templates are only filled in outside of other types.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// The maximum nesting of a struct in itself.
const maxRecursion = 2

var served = map[string]bool{
	"v1": true, "apps/v1": true, "batch/v1": true, "autoscaling/v1": true, "autoscaling/v2": true,
	"networking.k8s.io/v1": true, "policy/v1": true, "rbac.authorization.k8s.io/v1": true, "storage.k8s.io/v1": true,
	"admissionregistration.k8s.io/v1": true, "apiextensions.k8s.io/v1": true, "apiregistration.k8s.io/v1": true,
	"coordination.k8s.io/v1": true, "discovery.k8s.io/v1": true, "events.k8s.io/v1": true, "node.k8s.io/v1": true,
	"scheduling.k8s.io/v1": true, "certificates.k8s.io/v1": true, "resource.k8s.io/v1": true,
	"flowcontrol.apiserver.k8s.io/v1": true, "authentication.k8s.io/v1": true, "authorization.k8s.io/v1": true,
}

type filler struct {
	count int
	open  map[reflect.Type]int
	root  string
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		check(add(scheme))
	}
	var lines []string
	for gvk, typ := range scheme.AllKnownTypes() {
		if !served[gvk.GroupVersion().String()] || strings.HasSuffix(gvk.Kind, "List") || typ.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" {
			continue
		}
		lines = append(lines, line(scheme, gvk, typ))
	}
	// Registered in every group, but part of meta.k8s.io.
	options := schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}
	lines = append(lines, metav1.GroupName+line(scheme, options, reflect.TypeFor[metav1.DeleteOptions]()))
	sort.Strings(lines)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
}

func line(scheme *runtime.Scheme, gvk schema.GroupVersionKind, typ reflect.Type) string {
	value := reflect.New(typ)
	f := filler{open: map[reflect.Type]int{}, root: gvk.Kind}
	f.fill(value.Elem())
	object := value.Interface().(runtime.Object)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	var proto, text bytes.Buffer
	check(protobuf.NewSerializer(scheme, scheme).Encode(object, &proto))
	// Protobuf does not distinguish some values, so the object is decoded again first.
	again := reflect.New(typ).Interface().(runtime.Object)
	_, _, err := protobuf.NewSerializer(scheme, scheme).Decode(proto.Bytes(), &gvk, again)
	check(err)
	again.GetObjectKind().SetGroupVersionKind(gvk)
	check(json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}).Encode(again, &text))
	return strings.Join([]string{
		gvk.Group, gvk.Version, gvk.Kind, base64.StdEncoding.EncodeToString(proto.Bytes()), strings.TrimSpace(text.String()),
	}, "\t")
}

func (f *filler) fill(v reflect.Value) {
	f.count++
	t := v.Type()
	switch v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse([]string{"1500m", "2Gi", "0", "1e3", "0.5"}[f.count%5])))
		return
	case *intstr.IntOrString:
		v.Set(reflect.ValueOf([]intstr.IntOrString{intstr.FromInt32(int32(f.count)), intstr.FromString("25%")}[f.count%2]))
		return
	case *metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(1700000000+int64(f.count), 0)))
		return
	case *metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.UnixMicro(1700000000, int64(f.count)*1000)))
		return
	case *metav1.Duration:
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(f.count) * time.Second}))
		return
	case *runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"b":[1,"x"],"a":null}`)}))
		return
	case *metav1.FieldsV1:
		v.Set(reflect.ValueOf(metav1.FieldsV1{Raw: []byte(`{"f:a":{}}`)}))
		return
	case *apiextensions.JSON:
		v.Set(reflect.ValueOf(apiextensions.JSON{Raw: []byte(`{"a":[1,"x"],"b":true}`)}))
		return
	case *apiextensions.JSONSchemaPropsOrBool:
		if f.count%2 == 0 {
			v.Set(reflect.ValueOf(apiextensions.JSONSchemaPropsOrBool{Allows: true}))
			return
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		// With neither of its two fields set, it would change in a round trip.
		if f.count%2 == 0 || f.deep(reflect.TypeFor[apiextensions.JSONSchemaProps]()) {
			v.Set(reflect.ValueOf(apiextensions.JSONSchemaPropsOrArray{JSONSchemas: []apiextensions.JSONSchemaProps{{Type: "a"}, {}}}))
			return
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		v.Set(reflect.ValueOf(apiextensions.JSONSchemaPropsOrStringArray{Property: []string{"a", "b"}}))
		return
	case *core.PodTemplateSpec:
		if f.root != "PodTemplate" {
			return
		}
	}
	switch t.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.count))
	case reflect.Uint8:
		v.SetUint(uint64(f.count % 256))
	case reflect.Float64:
		v.SetFloat(float64(f.count) / 2)
	case reflect.Pointer:
		if f.deep(t.Elem()) {
			return
		}
		v.Set(reflect.New(t.Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		if f.deep(t.Elem()) {
			return
		}
		v.Set(reflect.MakeSlice(t, 2, 2))
		f.fill(v.Index(0))
		if t.Elem().Kind() != reflect.Struct {
			f.fill(v.Index(1))
		} else {
			v.Set(v.Slice(0, 1))
		}
	case reflect.Map:
		if f.deep(t.Elem()) {
			return
		}
		v.Set(reflect.MakeMap(t))
		for _, key := range []string{"z", "a"} {
			element := reflect.New(t.Elem()).Elem()
			f.fill(element)
			v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), element)
		}
	case reflect.Struct:
		f.open[t]++
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() && field.Tag.Get("protobuf") != "-" {
				f.fill(v.Field(i))
			}
		}
		f.open[t]--
	}
}

func (f *filler) deep(t reflect.Type) bool {
	return f.open[t] >= maxRecursion
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bodies:", err)
		os.Exit(1)
	}
}
