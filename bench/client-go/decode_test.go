package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/watch"
	kjson "sigs.k8s.io/json"
)

// Benchmarks of the decoding part of an informer's update: the same event repeatedly, without network, informer and garbage.

// BenchmarkValid reads the text once.
func BenchmarkValid(b *testing.B) {
	event, _ := events(b)
	for b.Loop() {
		json.Valid(event)
	}
}

// BenchmarkPod decodes only the pod, from its bytes.
func BenchmarkPod(b *testing.B) {
	_, pod := events(b)
	for b.Loop() {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(pod, &corev1.Pod{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvent does the work of a watch: framing, and decoding of the event, the kind and the object.
func BenchmarkEvent(b *testing.B) {
	event, _ := events(b)
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(&again{text: event}))
	decoder := scheme.Codecs.UniversalDeserializer()
	watch := watch.NewDecoder(streaming.NewDecoder(frames, decoder), decoder)
	for b.Loop() {
		if _, object, err := watch.Decode(); err != nil || object.(*corev1.Pod).Name == "" {
			b.Fatal(err)
		}
	}
}

// events returns an event of about the size of the uniform pods, and its object.
func events(b *testing.B) (event, pod []byte) {
	object := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	object.Name, object.Namespace, object.ResourceVersion = "app-1", "default", "1000000001"
	container := corev1.Container{Name: "app"}
	for at := range 45 {
		env := corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", at), Value: fmt.Sprintf("value-%d-for-app", at)}
		container.Env = append(container.Env, env)
	}
	object.Spec.Containers = []corev1.Container{container, container}
	owned := fmt.Sprintf(`{"f:spec":{"f:containers":{%s}}}`, strings.TrimSuffix(strings.Repeat(`"k:{\"name\":\"SETTING\"}":{".":{},"f:name":{},"f:value":{}},`, 68), ","))
	object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: &metav1.FieldsV1{Raw: []byte(owned)}}}
	pod, err := json.Marshal(&object)
	if err != nil {
		b.Fatal(err)
	}
	event = fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", pod)
	b.SetBytes(int64(len(event)))
	return event, pod
}

// again is a stream that repeats a text.
type again struct {
	text []byte
	rest bytes.Reader
}

func (a *again) Read(into []byte) (int, error) {
	if a.rest.Len() == 0 {
		a.rest.Reset(a.text)
	}
	return a.rest.Read(into)
}
