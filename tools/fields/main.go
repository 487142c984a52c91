// Command fields prints the type table of the Kubernetes API's Go types. For every field it has the properties that determine
// its encoding in JSON and protobuf, and its strategic merge patch. windlass-server compiles its codec plans from this table.
//
//	go run ./fields > ../crates/windlass-api/data/types.tsv
//
// Three kinds of lines, columns separated by tabs:
//
//	K group version kind struct          a served kind and the struct that it decodes into
//	R group version kind,kind,...        kinds in the scheme that are not served
//	S struct                             a struct; its fields follow, one per line:
//	name flags number type strategy key  trailing empty columns are omitted
//
// A struct is named path.Name, the path without its k8s.io/ prefix. Flags: o omitempty, z omitzero, i inline (the name
// is then the embedded Go field's). The number is that of the protobuf field, 0 if it has none; a p after it means packed.
// Types:
//
//	s b i l u f y      string bool int32 int64 uint8 float64 []byte
//	*T [T {T           pointer, slice, map with string keys
//	@struct            a struct of this table
//	<name>T            a named type, with the name that Go prints in errors; {<name>T a map with such keys
//	%T                 a named slice that protobuf wraps into a message
//	!Name              a type with its own encoding (Quantity, Time, ...)
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	admission "k8s.io/api/admission/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// served are the group versions that kube-apiserver serves by default, and the two that only occur in bodies.
var served = map[string]bool{
	"v1": true, "apps/v1": true, "batch/v1": true, "autoscaling/v1": true, "autoscaling/v2": true,
	"networking.k8s.io/v1": true, "policy/v1": true, "rbac.authorization.k8s.io/v1": true, "storage.k8s.io/v1": true,
	"admissionregistration.k8s.io/v1": true, "apiextensions.k8s.io/v1": true, "apiregistration.k8s.io/v1": true,
	"coordination.k8s.io/v1": true, "discovery.k8s.io/v1": true, "events.k8s.io/v1": true, "node.k8s.io/v1": true,
	"scheduling.k8s.io/v1": true, "certificates.k8s.io/v1": true, "resource.k8s.io/v1": true,
	"flowcontrol.apiserver.k8s.io/v1": true, "authentication.k8s.io/v1": true, "authorization.k8s.io/v1": true,
	"admission.k8s.io/v1": true, "meta.k8s.io/v1": true,
	// Since 1.37.
	"storagemigration.k8s.io/v1": true,
}

// Types in requests and responses that are in no scheme under these names.
var extra = map[string]any{
	"DeleteOptions": metav1.DeleteOptions{}, "CreateOptions": metav1.CreateOptions{},
	"UpdateOptions": metav1.UpdateOptions{}, "PatchOptions": metav1.PatchOptions{},
	"GetOptions": metav1.GetOptions{}, "ListOptions": metav1.ListOptions{},
	"Status": metav1.Status{}, "Table": metav1.Table{}, "TableOptions": metav1.TableOptions{},
	"PartialObjectMetadata": metav1.PartialObjectMetadata{}, "PartialObjectMetadataList": metav1.PartialObjectMetadataList{},
	"WatchEvent": metav1.WatchEvent{},
}

// Types with their own JSON code in Go. Any other such type is an error, because the codec does not support it.
var special = map[string]string{
	"apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"apimachinery/pkg/apis/meta/v1.Duration":                                         "Duration",
	"apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "FieldsV1",
	"apimachinery/pkg/runtime.RawExtension":                                          "RawExtension",
	"apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "JSON",
	"apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStringArray",
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	marshaler   = reflect.TypeFor[json.Marshaler]()
	message     = reflect.TypeFor[interface{ Unmarshal([]byte) error }]()
	// The only interfaces in the data: a table's object, which is encoded as a RawExtension, and table cells.
	anyType = reflect.TypeFor[any]()
)

type table struct {
	structs map[string]reflect.Type
	queue   []reflect.Type
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, admission.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(scheme); err != nil {
			fail("%v", err)
		}
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	t := table{structs: map[string]reflect.Type{}}
	unserved := map[schema.GroupVersion][]string{}
	var kinds []string
	for gvk, typ := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || typ.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" {
			continue
		}
		if !served[gvk.GroupVersion().String()] {
			unserved[gvk.GroupVersion()] = append(unserved[gvk.GroupVersion()], gvk.Kind)
			continue
		}
		kinds = append(kinds, fmt.Sprintf("K\t%s\t%s\t%s\t%s", gvk.Group, gvk.Version, gvk.Kind, t.reference(typ)))
	}
	for kind, object := range extra {
		kinds = append(kinds, fmt.Sprintf("K\tmeta.k8s.io\tv1\t%s\t%s", kind, t.reference(reflect.TypeOf(object))))
	}
	t.reference(reflect.TypeFor[apiextensions.JSONSchemaProps]())
	for gv, names := range unserved {
		sort.Strings(names)
		kinds = append(kinds, fmt.Sprintf("R\t%s\t%s\t%s", gv.Group, gv.Version, strings.Join(names, ",")))
	}
	sort.Strings(kinds)
	for _, line := range kinds {
		fmt.Fprintln(out, line)
	}
	bodies := map[string][]string{}
	for len(t.queue) > 0 {
		typ := t.queue[0]
		t.queue = t.queue[1:]
		bodies[id(typ)] = t.fields(typ)
	}
	names := make([]string, 0, len(bodies))
	for name := range bodies {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(out, "S\t%s\n", name)
		for _, line := range bodies[name] {
			fmt.Fprintln(out, line)
		}
	}
}

func id(t reflect.Type) string {
	return strings.TrimPrefix(t.PkgPath(), "k8s.io/") + "." + t.Name()
}

// reference returns the name of a struct, and queues a new struct.
func (t *table) reference(typ reflect.Type) string {
	name := id(typ)
	if known, ok := t.structs[name]; !ok {
		t.structs[name] = typ
		t.queue = append(t.queue, typ)
	} else if known != typ {
		fail("two structs are called %s", name)
	}
	return name
}

func (t *table) fields(typ reflect.Type) []string {
	var lines []string
	seen := map[string]bool{}
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag, tagged := field.Tag.Lookup("json")
		if !field.IsExported() || tag == "-" {
			continue
		}
		options := strings.Split(tag, ",")
		name, flags := options[0], ""
		for _, option := range options[1:] {
			switch option {
			case "omitempty":
				flags += "o"
			case "omitzero":
				flags += "z"
			case "inline", "":
			default:
				fail("%s.%s: json option %q", id(typ), field.Name, option)
			}
		}
		if name == "" {
			name = field.Name
			if field.Anonymous {
				flags = "i"
				if field.Type.Kind() != reflect.Struct {
					fail("%s embeds the %s %s", id(typ), field.Type.Kind(), field.Name)
				}
			} else if !tagged {
				fail("%s.%s has no json tag", id(typ), field.Name)
			}
		}
		if seen[name] {
			fail("%s has two fields %s", id(typ), name)
		}
		seen[name] = true
		number := "0"
		if proto := strings.Split(field.Tag.Get("protobuf"), ","); len(proto) > 1 {
			number = proto[1]
			for _, option := range proto[2:] {
				if option == "packed" {
					number += "p"
				}
			}
		}
		line := strings.Join([]string{
			name, flags, number, t.typ(field.Type), field.Tag.Get("patchStrategy"), field.Tag.Get("patchMergeKey"),
		}, "\t")
		lines = append(lines, strings.TrimRight(line, "\t"))
	}
	return lines
}

func (t *table) typ(typ reflect.Type) string {
	if typ == anyType {
		return "!RawExtension"
	}
	if typ.Name() != "" && typ.PkgPath() != "" {
		if name, ok := special[id(typ)]; ok {
			return "!" + name
		}
		pointer := reflect.PointerTo(typ)
		if pointer.Implements(unmarshaler) || pointer.Implements(marshaler) {
			fail("%s has its own JSON encoding", typ)
		}
		if typ.Kind() == reflect.Struct {
			return "@" + t.reference(typ)
		}
		wrapped := ""
		if pointer.Implements(message) {
			wrapped = "%"
		}
		return wrapped + "<" + typ.String() + ">" + t.unnamed(typ)
	}
	return t.unnamed(typ)
}

func (t *table) unnamed(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32:
		return "i"
	case reflect.Int64:
		return "l"
	case reflect.Uint8:
		return "u"
	case reflect.Float64:
		return "f"
	case reflect.Pointer:
		return "*" + t.typ(typ.Elem())
	case reflect.Slice:
		if typ.Elem() == reflect.TypeFor[byte]() {
			return "y"
		}
		return "[" + t.typ(typ.Elem())
	case reflect.Map:
		if key := typ.Key(); key.PkgPath() != "" && key.Kind() == reflect.String {
			return "{<" + key.String() + ">" + t.typ(typ.Elem())
		} else if key.Kind() != reflect.String {
			fail("a map with keys of type %s", key)
		}
		// The empty name distinguishes a named string as the element from a named key.
		return "{<>" + t.typ(typ.Elem())
	default:
		fail("%s: no code for this kind of type", typ)
		return ""
	}
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "fields: "+format+"\n", arguments...)
	os.Exit(1)
}
