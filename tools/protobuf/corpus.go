package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	stdjson "encoding/json"
	"fmt"
	"io"
	"math/rand"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// cases are objects that Go does not write in this form.
var cases = []string{
	// Quantities that are not canonical, numbers as quantities, and null as a quantity.
	`{"apiVersion":"v1","kind":"LimitRange","spec":{"limits":[{"max":{"b":"1000m","a":"0.5Gi","c":5,"d":null,"e":" 1e3 ","f":"1024Ki"}}]}}`,
	// Null and absent elements, empty bytes, line breaks in base64, and unused bits.
	`{"apiVersion":"v1","kind":"Secret","data":{"z":null,"y":"","x":"YQ==","w":"Y\r\nQ==","v":"YR=="},"stringData":{"a":null}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"finalizers":[null,"a"],"ownerReferences":[null,{}],"labels":{}},"spec":{"containers":[],"volumes":[null]}}`,
	// Equal keys of maps, keys with escapes, keys out of order.
	`{"kind":"ConfigMap","data":{"b":"1","\u0061":"2","c":"3","b":"4","":"5","é":"\ud83d\ude00\ud83d"},"apiVersion":"v1"}`,
	// Times of other zones and precisions, and Go's zero time.
	`{"apiVersion":"v1","kind":"Namespace","metadata":{"creationTimestamp":"2026-01-01T01:00:00.75+02:00","deletionTimestamp":"0001-01-01T00:00:00Z"}}`,
	`{"apiVersion":"v1","kind":"Namespace","metadata":{"creationTimestamp":"0001-01-01T00:00:00.5Z","deletionTimestamp":null}}`,
	`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"acquireTime":"1969-12-31T23:59:59.000001-01:00","renewTime":"0001-01-01T00:00:00.000000Z"}}`,
	// JSON in bytes keeps its spaces and its order.
	`{"apiVersion":"apps/v1","kind":"ControllerRevision","data": {"b" : [1, "<a> ` + "\u2028" + `"], "a":null } ,"revision":-1}`,
	`{"apiVersion":"apps/v1","kind":"ControllerRevision","data":null,"revision":9223372036854775807}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{"fieldsV1": { "f:a":{} },"time":null},{"fieldsV1":null}]}}`,
	// Integers and strings, also with escapes.
	`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"targetPort":-1},{"targetPort":"a\u0062"},{"targetPort":null},{}]}}`,
	// Schemas with booleans, arrays and numbers.
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":false,` +
		`"items":[{"maximum":1e21},{"minimum":-1.5e-7,"enum":[1,null,{"a": 1}]}],"default":null,"example": "x","dependencies":{"b":["c"],"a":{"type":"string"}},` +
		`"properties":{"a":{"items":{},"additionalItems":true}}}}}]}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":[],"dependencies":{"a":[]}}}}]}}`,
	// Unknown fields, keys in other letters, and the kind of an item.
	`{"apiVersion":"v1","kind":"PodList","unknown":{"a":[1]},"items":[{"kind":"Pod","apiVersion":"v1","Spec":{"nodeName":"a"},"metadata":{"Name":"b"}}],"metadata":{"resourceVersion":"1"}}`,
}

// A filler fills objects with values.
type filler struct {
	*rand.Rand
	// The probability of optional values, and the greatest number of elements.
	chance float64
	most   int
	// The number of open values of each struct, some of which contain themselves.
	open map[reflect.Type]int
}

// corpus prints the minor version, and for each kind an object with all fields, one with few, and more random ones. Each is a line
// with the JSON, the protobuf in base64, and the JSON after decoding if it differs.
func corpus(out io.Writer, seedText, countText string) {
	seed, err := strconv.ParseInt(seedText, 10, 64)
	if err != nil {
		fail("%v", err)
	}
	count, err := strconv.Atoi(countText)
	if err != nil {
		fail("%v", err)
	}
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		fail("%v", err)
	}
	fmt.Fprintln(compressed, minor())
	types := map[string]reflect.Type{}
	for gvk, typ := range kinds() {
		types[gvk.GroupVersion().String()+" "+gvk.Kind] = typ
	}
	for kind, object := range everywhere {
		// Watch events have no kind in JSON.
		if kind != "WatchEvent" {
			types["apps/v1 "+kind] = reflect.TypeOf(object)
		}
	}
	scheme := newScheme()
	for _, name := range sortedKeys(types) {
		gv, kind, _ := strings.Cut(name, " ")
		random := rand.New(rand.NewSource(seed))
		fillers := []filler{{random, 1, 1, map[reflect.Type]int{}}, {random, 0.1, 2, map[reflect.Type]int{}}}
		if strings.HasSuffix(kind, "List") {
			// The kind of the items has the full one.
			fillers = fillers[1:]
		}
		for range count {
			fillers = append(fillers, filler{random, 0.2 + 0.5*random.Float64(), 3, map[reflect.Type]int{}})
		}
		for _, filler := range fillers {
			value := reflect.New(types[name])
			filler.fill(value.Elem())
			object := value.Interface().(runtime.Object)
			object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(gv, kind))
			text, err := stdjson.Marshal(object)
			if err != nil {
				fail("%s: %v", name, err)
			}
			convert(compressed, scheme, string(text))
		}
	}
	for _, text := range cases {
		convert(compressed, scheme, text)
	}
	if err := compressed.Close(); err != nil {
		fail("%v", err)
	}
}

// convert prints an object and its conversions.
func convert(out io.Writer, scheme *runtime.Scheme, text string) {
	object, _, err := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}).Decode([]byte(text), nil, nil)
	if err != nil {
		fail("%v in %s", err, text)
	}
	serializer := protobuf.NewSerializer(scheme, scheme)
	var encoded bytes.Buffer
	if err := serializer.Encode(object, &encoded); err != nil {
		fail("%v in %s", err, text)
	}
	decoded, _, err := serializer.Decode(encoded.Bytes(), nil, nil)
	if err != nil {
		fail("%v in %s", err, text)
	}
	result, err := stdjson.Marshal(decoded)
	if err != nil {
		fail("%v in %s", err, text)
	}
	fmt.Fprintf(out, "%s\t%s", text, base64.StdEncoding.EncodeToString(encoded.Bytes()))
	if string(result) != text {
		fmt.Fprintf(out, "\t%s", result)
	}
	fmt.Fprintln(out)
}

func (f *filler) pick(values ...string) string {
	return values[f.Intn(len(values))]
}

func (f *filler) text() string {
	if f.Intn(8) == 0 {
		return f.pick("", "<a>&", "\"\\\n\x01", "é\u2028😀", strings.Repeat("long ", 60))
	}
	return f.pick("a", "b", "c", "d", "e") + f.pick("", "f", "g")
}

func (f *filler) json() string {
	return f.pick(`{"a":1}`, `[]`, `"<b>"`, `1.50`, `true`, `{"c":[{"d":null}]}`)
}

func (f *filler) number() int64 {
	switch f.Intn(6) {
	case 0:
		return 0
	case 1:
		return -f.Int63n(1000)
	case 2:
		return f.Int63() >> f.Intn(32)
	default:
		return f.Int63n(200)
	}
}

func (f *filler) present() bool {
	return f.Float64() < f.chance
}

// length returns the number of elements of a list or map; -1 for nil.
func (f *filler) length() int {
	if !f.present() {
		return -1
	}
	if f.chance == 1 {
		return f.most
	}
	return f.Intn(f.most + 1)
}

func (f *filler) fill(v reflect.Value) {
	typ := v.Type()
	switch name := special[id(typ)]; name {
	case "Quantity":
		text := f.pick("0", "1", "100m", "1500m", "1Gi", "128Mi", "1e3", "5k", "0.1", "123456789012345678901234", "-3", "1n")
		set(v, `"`+text+`"`)
		return
	case "IntOrString":
		if f.Intn(2) == 0 {
			set(v, fmt.Sprint(int32(f.number())))
		} else {
			set(v, f.pick(`"50%"`, `"a"`, `""`))
		}
		return
	case "Time":
		if f.present() {
			set(v, f.pick(`"2026-01-02T03:04:05Z"`, `"1970-01-01T00:00:00Z"`, `"1969-12-31T23:59:59Z"`, `"9999-12-31T23:59:59Z"`))
		}
		return
	case "MicroTime":
		if f.present() {
			set(v, f.pick(`"2026-01-02T03:04:05.123456Z"`, `"1960-01-01T00:00:00.000001Z"`, `"2000-02-29T00:00:00.000000Z"`))
		}
		return
	case "FieldsV1", "RawExtension", "JSON":
		if f.present() {
			set(v, f.json())
		}
		return
	case "JSONSchemaPropsOrBool":
		set(v, f.pick(`true`, `false`, `{"type":"string"}`, `{}`))
		return
	case "JSONSchemaPropsOrArray":
		set(v, f.pick(`{}`, `{"type":"string"}`, `[{},{"maxLength":1}]`))
		return
	case "JSONSchemaPropsOrStringArray":
		set(v, f.pick(`{"type":"string"}`, `["a","b"]`))
		return
	}
	switch typ.Kind() {
	case reflect.String:
		if f.chance == 1 || f.present() {
			v.SetString(f.text())
		}
	case reflect.Bool:
		v.SetBool(f.present())
	case reflect.Int32, reflect.Int64:
		if f.present() {
			v.SetInt(int64(int32(f.number())))
			if typ.Kind() == reflect.Int64 {
				v.SetInt(f.number())
			}
		}
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1.5, 1e21, 1e-7, 0.1, 123456789}[f.Intn(7)])
	case reflect.Pointer:
		if f.present() {
			v.Set(reflect.New(typ.Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		length := f.length()
		if length < 0 {
			return
		}
		if typ.Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.text()))
			return
		}
		v.Set(reflect.MakeSlice(typ, length, length))
		for i := range length {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		length := f.length()
		if length < 0 {
			return
		}
		v.Set(reflect.MakeMap(typ))
		for range length {
			key, value := reflect.New(typ.Key()).Elem(), reflect.New(typ.Elem()).Elem()
			key.SetString(f.text())
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if typ.Name() == "TypeMeta" {
			return
		}
		if f.open[typ] == 2 {
			return
		}
		f.open[typ]++
		defer func() { f.open[typ]-- }()
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	default:
		fail("cannot fill a %s", typ)
	}
}

// set calls UnmarshalJSON.
func set(v reflect.Value, text string) {
	result := v.Addr().MethodByName("UnmarshalJSON").Call([]reflect.Value{reflect.ValueOf([]byte(text))})
	if err, _ := result[0].Interface().(error); err != nil {
		fail("%s of %s: %v", text, v.Type(), err)
	}
}
