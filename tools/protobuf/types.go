package main

import (
	"encoding/json"
	"io"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	admission "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicy "k8s.io/api/imagepolicy/v1alpha1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
)

// Types are the types of one Kubernetes version.
type Types struct {
	Minor int
	// The message of each kind: group version, kind, message.
	Kinds map[string]map[string]string
	// The fields of each message, in the order of the Go struct. A message is named path.Name.
	Messages map[string][]Field
}

// Field is a field of a message.
type Field struct {
	// The JSON name; empty for an embedded struct, whose fields belong to the outer object in JSON.
	Name string
	// The number in protobuf.
	Number int
	// o omitempty, z omitzero, p packed
	Flags string
	// The type, as the table's header describes it, with full message names.
	Type string
}

// everywhere are the kinds that each group version has.
var everywhere = map[string]any{
	"WatchEvent": metav1.WatchEvent{}, "ListOptions": metav1.ListOptions{}, "GetOptions": metav1.GetOptions{},
	"DeleteOptions": metav1.DeleteOptions{}, "CreateOptions": metav1.CreateOptions{},
	"UpdateOptions": metav1.UpdateOptions{}, "PatchOptions": metav1.PatchOptions{},
}

// special are the types with their own encoding. Any other such type is an error, because windlass-protobuf would not know it.
var special = map[string]string{
	"apimachinery/pkg/api/resource.Quantity":             "Quantity",
	"apimachinery/pkg/util/intstr.IntOrString":           "IntOrString",
	"apimachinery/pkg/apis/meta/v1.Time":                 "Time",
	"apimachinery/pkg/apis/meta/v1.MicroTime":            "MicroTime",
	"apimachinery/pkg/apis/meta/v1.Duration":             "Duration",
	"apimachinery/pkg/apis/meta/v1.FieldsV1":             "FieldsV1",
	"apimachinery/pkg/runtime.RawExtension":              "RawExtension",
	"apiextensions/v1.JSON":                              "JSON",
	"apiextensions/v1.JSONSchemaPropsOrBool":             "JSONSchemaPropsOrBool",
	"apiextensions/v1.JSONSchemaPropsOrArray":            "JSONSchemaPropsOrArray",
	"apiextensions/v1.JSONSchemaPropsOrStringArray":      "JSONSchemaPropsOrStringArray",
	"apiextensions/v1beta1.JSON":                         "JSON",
	"apiextensions/v1beta1.JSONSchemaPropsOrBool":        "JSONSchemaPropsOrBool",
	"apiextensions/v1beta1.JSONSchemaPropsOrArray":       "JSONSchemaPropsOrArray",
	"apiextensions/v1beta1.JSONSchemaPropsOrStringArray": "JSONSchemaPropsOrStringArray",
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	marshaler   = reflect.TypeFor[json.Marshaler]()
	message     = reflect.TypeFor[interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
	}]()
)

// newScheme returns the scheme of all built-in kinds.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, admission.AddToScheme, admissionv1beta1.AddToScheme, apidiscovery.AddToScheme, apidiscoveryv2beta1.AddToScheme,
		imagepolicy.AddToScheme,
		apiextensions.AddToScheme, apiextensionsv1beta1.AddToScheme, apiregistration.AddToScheme, apiregistrationv1beta1.AddToScheme,
		metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme,
	} {
		if err := add(scheme); err != nil {
			fail("%v", err)
		}
	}
	return scheme
}

// kinds returns the Go types of all kinds with a protobuf encoding, without those that every group version has.
func kinds() map[schema.GroupVersionKind]reflect.Type {
	found := map[schema.GroupVersionKind]reflect.Type{}
	for gvk, typ := range newScheme().AllKnownTypes() {
		_, common := everywhere[gvk.Kind]
		if gvk.Version == runtime.APIVersionInternal || common || !reflect.PointerTo(typ).Implements(message) {
			continue
		}
		found[gvk] = typ
	}
	return found
}

// minor returns the minor version of Kubernetes that this program is built with.
func minor() int {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if module.Path == "k8s.io/api" {
			number, err := strconv.Atoi(strings.Split(module.Version, ".")[1])
			if err != nil {
				fail("the version %s of k8s.io/api", module.Version)
			}
			return number
		}
	}
	fail("built without k8s.io/api")
	return 0
}

func printTypes(out io.Writer) {
	types := Types{minor(), map[string]map[string]string{}, map[string][]Field{}}
	add := func(gv, kind string, typ reflect.Type) {
		if types.Kinds[gv] == nil {
			types.Kinds[gv] = map[string]string{}
		}
		types.Kinds[gv][kind] = types.message(typ)
	}
	for gvk, typ := range kinds() {
		add(gvk.GroupVersion().String(), gvk.Kind, typ)
	}
	for kind, object := range everywhere {
		add("*", kind, reflect.TypeOf(object))
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(types); err != nil {
		fail("%v", err)
	}
}

func id(t reflect.Type) string {
	path := strings.TrimPrefix(t.PkgPath(), "k8s.io/")
	for _, prefix := range []string{"api/", "apiextensions-apiserver/pkg/apis/", "kube-aggregator/pkg/apis/"} {
		path = strings.TrimPrefix(path, prefix)
	}
	return path + "." + t.Name()
}

// message returns the name of a struct, and adds its fields if they are new.
func (t *Types) message(typ reflect.Type) string {
	name := id(typ)
	if _, known := t.Messages[name]; known {
		return name
	}
	t.Messages[name] = nil
	t.Messages[name] = t.fields(typ)
	return name
}

func (t *Types) fields(typ reflect.Type) []Field {
	fields := []Field{}
	for i := range typ.NumField() {
		goField := typ.Field(i)
		options := strings.Split(goField.Tag.Get("protobuf"), ",")
		name, rest, _ := strings.Cut(goField.Tag.Get("json"), ",")
		if len(options) < 2 {
			if name != "-" && goField.Type != reflect.TypeFor[metav1.TypeMeta]() {
				fail("%s.%s has no number", id(typ), goField.Name)
			}
			continue
		}
		number, err := strconv.Atoi(options[1])
		if err != nil || name == "-" {
			fail("%s.%s: number %q, json name %q", id(typ), goField.Name, options[1], name)
		}
		field := Field{Name: name, Number: number}
		for _, option := range strings.Split(rest, ",") {
			switch option {
			case "omitempty":
				field.Flags += "o"
			case "omitzero":
				field.Flags += "z"
			case "inline", "":
			default:
				fail("%s.%s: json option %q", id(typ), goField.Name, option)
			}
		}
		if slices.Contains(options[2:], "packed") {
			field.Flags += "p"
		}
		field.Type = t.typ(goField.Type)
		if strings.Contains(field.Flags, "z") && field.Type != "Time" {
			fail("%s.%s: omitzero of another type than Time", id(typ), goField.Name)
		}
		if name == "" {
			if goField.Anonymous {
				if goField.Type.Kind() != reflect.Struct || strings.Contains(field.Type, "!") {
					fail("%s embeds a %s", id(typ), goField.Type)
				}
				field.Flags = ""
			} else {
				field.Name = goField.Name
			}
		}
		fields = append(fields, field)
	}
	return fields
}

func (t *Types) typ(typ reflect.Type) string {
	if typ.Name() != "" && typ.PkgPath() != "" {
		if name, ok := special[id(typ)]; ok {
			if strings.HasPrefix(name, "JSONSchemaPropsOr") {
				field, _ := typ.FieldByName("Schema")
				name += ":" + t.message(field.Type.Elem())
			}
			return name
		}
		pointer := reflect.PointerTo(typ)
		if pointer.Implements(unmarshaler) || pointer.Implements(marshaler) {
			fail("%s has its own JSON encoding", typ)
		}
		if typ.Kind() == reflect.Struct {
			return t.message(typ)
		}
		if pointer.Implements(message) {
			return "%" + t.unnamed(typ)
		}
	}
	return t.unnamed(typ)
}

func (t *Types) unnamed(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32:
		return "i"
	case reflect.Int64:
		return "l"
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
		if typ.Key().Kind() != reflect.String {
			fail("a map with keys of type %s", typ.Key())
		}
		return "{" + t.typ(typ.Elem())
	default:
		fail("%s: no code for this kind of type", typ)
		return ""
	}
}
