package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// target is the API server, with a namespace for the program.
type target struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	// wire records every request of config.
	wire *wire
}

func newTarget(ctx context.Context, kubeconfig, name string) (*target, error) {
	if kubeconfig == "" {
		return nil, errors.New("no kubeconfig is named, neither by --kubeconfig nor by KUBECONFIG")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// The default rate limit is not part of the test.
	config.QPS = -1
	wire := &wire{}
	config.Wrap(wire.wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a clientset: %w", err)
	}
	target := &target{config: config, client: client, namespace: "clients-" + name + "-" + rand.String(5), wire: wire}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: target.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating namespace %s: %w", target.namespace, err)
	}
	// With service account admission, pods need their account.
	err = eventually(ctx, "the namespace's default service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(target.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		target.close(ctx)
		return nil, err
	}
	return target, nil
}

// close deletes the namespace without waiting.
func (t *target) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	// The server is stopped afterwards, so a remaining namespace does not matter.
	_ = t.client.CoreV1().Namespaces().Delete(ctx, t.namespace, metav1.DeleteOptions{})
}

// eventually retries until there is no error. It returns the error of the last attempt after the timeout.
func eventually(ctx context.Context, what string, attempt func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		last = attempt(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, last)
	}
	return nil
}

// request is a recorded request.
type request struct {
	method, path, query string
	// contentType is that of the body, accept is the Accept header.
	contentType, accept string
	// answerType is the Content-Type of the response, status its code.
	answerType string
	status     int
}

// wire is a round tripper that records requests.
type wire struct {
	mutex    sync.Mutex
	requests []request
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(sent)
		seen := request{
			method:      sent.Method,
			path:        sent.URL.Path,
			query:       sent.URL.RawQuery,
			contentType: sent.Header.Get("Content-Type"),
			accept:      sent.Header.Get("Accept"),
		}
		if err == nil {
			seen.answerType, seen.status = answer.Header.Get("Content-Type"), answer.StatusCode
		}
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.requests = append(w.requests, seen)
		return answer, err
	})
}

// of returns the requests whose path has this suffix.
func (w *wire) of(method, pathEnd string) []request {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var found []request
	for _, request := range w.requests {
		if request.method == method && strings.HasSuffix(request.path, pathEnd) {
			found = append(found, request)
		}
	}
	return found
}

// all returns all requests so far.
func (w *wire) all() []request {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return append([]request(nil), w.requests...)
}

func (r request) String() string {
	return fmt.Sprintf("%s %s?%s (%s) -> %d %s", r.method, r.path, r.query, r.contentType, r.status, r.answerType)
}
