package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// containers runs commands in a pod over SPDY and WebSockets, and reads its log. The answers are those of pod-answers.yaml.
func containers(ctx context.Context, t *target) error {
	container := corev1.Container{Name: "main", Image: "image"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	if _, err := t.client.CoreV1().Pods(t.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a pod: %w", err)
	}
	err := eventually(ctx, "the pod to run", func(ctx context.Context) error {
		found, err := t.client.CoreV1().Pods(t.namespace).Get(ctx, "p", metav1.GetOptions{})
		if err == nil && found.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", found.Status.Phase)
		}
		return err
	})
	if err != nil {
		return err
	}
	executors := []struct {
		name string
		make newExecutor
	}{
		{"SPDY", func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewSPDYExecutor(config, "POST", at)
		}},
		{"WebSocket", func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(config, "GET", at.String())
		}},
	}
	for _, executor := range executors {
		if err := commands(ctx, t, executor.make); err != nil {
			return fmt.Errorf("over %s: %w", executor.name, err)
		}
	}
	return logs(ctx, t)
}

// newExecutor returns the executor of the command at a URL.
type newExecutor func(*rest.Config, *url.URL) (remotecommand.Executor, error)

// commands checks the output and the exit codes of commands.
func commands(ctx context.Context, t *target, executor newExecutor) error {
	large := strings.Repeat("0123456789", 30_000)
	for _, check := range []struct {
		command        []string
		stdin          string
		tty            bool
		stdout, stderr string
		code           int
		failure        string
	}{
		{command: []string{"greet", "you"}, stdout: "hello from p\n", stderr: "careful\n"},
		{command: []string{"greet", "you"}, tty: true, stdout: "hello from p\ncareful\n"},
		{command: []string{"fail"}, stderr: "no\n", code: 3},
		{command: []string{"slow"}, stdout: "done\n"},
		{command: []string{"large"}, stdout: large},
		{command: []string{"greet", "you"}, stdin: large, stdout: "hello from p\n", stderr: "careful\n"},
		{command: []string{"missing"}, failure: "executable file not found in $PATH"},
	} {
		request := t.client.CoreV1().RESTClient().Post().Resource("pods").Name("p").Namespace(t.namespace).SubResource("exec")
		request.VersionedParams(&corev1.PodExecOptions{
			Command: check.command, Stdin: check.stdin != "", Stdout: true, Stderr: true, TTY: check.tty,
		}, scheme.ParameterCodec)
		run, err := executor(rest.CopyConfig(t.config), request.URL())
		if err != nil {
			return fmt.Errorf("making an executor: %w", err)
		}
		var stdout, stderr bytes.Buffer
		options := remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr, Tty: check.tty}
		if check.stdin != "" {
			options.Stdin = strings.NewReader(check.stdin)
		}
		err = run.StreamWithContext(ctx, options)
		var exit exec.CodeExitError
		switch {
		case check.failure != "":
			if err == nil || !strings.Contains(err.Error(), check.failure) {
				return fmt.Errorf("%v: the error is %v, not %q", check.command, err, check.failure)
			}
			continue
		case check.code != 0:
			if !errors.As(err, &exit) || exit.Code != check.code {
				return fmt.Errorf("%v: the error is %v, not exit code %d", check.command, err, check.code)
			}
		case err != nil:
			return fmt.Errorf("%v: %w", check.command, err)
		}
		if stdout.String() != check.stdout || stderr.String() != check.stderr {
			return fmt.Errorf("%v: the output has %d and %d bytes: %.80q, %.80q", check.command, stdout.Len(), stderr.Len(), stdout.String(), stderr.String())
		}
	}
	return nil
}

// logs checks the log of the pod, also while it is followed until the pod is deleted.
func logs(ctx context.Context, t *target) error {
	pods := t.client.CoreV1().Pods(t.namespace)
	one := int64(1)
	for _, check := range []struct {
		options corev1.PodLogOptions
		text    string
	}{
		{corev1.PodLogOptions{}, "first of p\nsecond\n"},
		{corev1.PodLogOptions{TailLines: &one}, "second\n"},
		{corev1.PodLogOptions{LimitBytes: &one}, "f"},
	} {
		text, err := pods.GetLogs("p", &check.options).DoRaw(ctx)
		if err != nil || string(text) != check.text {
			return fmt.Errorf("the log is %q (%v), not %q", text, err, check.text)
		}
	}
	// DoRaw does not read the message of an error.
	err := pods.GetLogs("p", &corev1.PodLogOptions{Previous: true}).Do(ctx).Error()
	if err == nil || !strings.Contains(err.Error(), `previous terminated container "main" in pod "p" not found`) {
		return fmt.Errorf("the previous log: %v", err)
	}
	stream, err := pods.GetLogs("p", &corev1.PodLogOptions{Follow: true, Timestamps: true}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("following the log: %w", err)
	}
	defer stream.Close()
	if err := pods.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the pod: %w", err)
	}
	text, err := io.ReadAll(stream)
	if err != nil {
		return fmt.Errorf("following the log: %w", err)
	}
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		stamp, _, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
			return fmt.Errorf("a line of the followed log: %w", err)
		}
	}
	return nil
}
