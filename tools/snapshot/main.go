// Command snapshot prints a snapshot of a new etcd with some keys. It is test data for windlass-storage:
//
//	go run ./snapshot ETCD | gzip -9n > ../crates/windlass-storage/testdata/etcd.snapshot.gz
//
// ETCD is the program that "cargo xtask upstream --build" builds.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

var client string

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// address returns a free address.
func address() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

// post calls a method of etcd's JSON gateway. The caller closes the response.
func post(method string, request any) (io.ReadCloser, error) {
	body, err := json.Marshal(request)
	check(err)
	response, err := http.Post(client+"/v3/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", method, response.Status)
	}
	return response.Body, nil
}

func call(method string, request map[string]any) map[string]any {
	body, err := post(method, request)
	check(err)
	defer body.Close()
	response := map[string]any{}
	check(json.NewDecoder(body).Decode(&response))
	return response
}

func put(key string, value []byte, lease any) {
	request := map[string]any{"key": []byte(key), "value": value}
	if lease != nil {
		request["lease"] = lease
	}
	call("kv/put", request)
}

func remove(key string) {
	call("kv/deleterange", map[string]any{"key": []byte(key)})
}

func main() {
	directory, err := os.MkdirTemp("", "etcd")
	check(err)
	defer os.RemoveAll(directory)
	client = address()
	etcd := exec.Command(os.Args[1], "--data-dir", directory, "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", address(), "--log-level", "fatal")
	check(etcd.Start())
	defer etcd.Process.Kill()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		body, err := post("kv/range", map[string]any{"key": []byte("x")})
		if err == nil {
			body.Close()
			break
		}
		if time.Now().After(deadline) {
			check(err)
		}
	}

	put("compact_rev_key", []byte("1"), nil)
	put("/registry/configmaps/default/changed", []byte("first"), nil)
	put("/registry/configmaps/default/deleted", []byte("gone"), nil)
	put("/registry/configmaps/default/changed", []byte("second"), nil)
	remove("/registry/configmaps/default/deleted")
	put("/registry/events/default/event", []byte("short-lived"), call("lease/grant", map[string]any{"TTL": 3600})["ID"])
	large := make([]byte, 20000) // more than a page
	for at := range large {
		large[at] = byte(at % 251)
	}
	put("/registry/secrets/default/large", large, nil)
	put("/registry/pods/default/again", []byte("1"), nil)
	remove("/registry/pods/default/again")
	put("/registry/pods/default/again", []byte("2"), nil)
	for number := range 120 { // more than a page of keys
		put(fmt.Sprintf("/registry/configmaps/many/%03d", number), fmt.Appendf(nil, "value %d", number), nil)
	}
	remove("/registry/configmaps/many/000")

	body, err := post("maintenance/snapshot", struct{}{})
	check(err)
	defer body.Close()
	for parts := json.NewDecoder(body); ; {
		var part struct{ Result struct{ Blob []byte } }
		err := parts.Decode(&part)
		if err == io.EOF {
			return
		}
		check(err)
		_, err = os.Stdout.Write(part.Result.Blob)
		check(err)
	}
}
