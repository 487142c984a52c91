package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	kmsservice "k8s.io/kms/pkg/service"
)

// keyID is the name of the plugin's only key.
const keyID = "key-1"

// unseeded is the name of a provider without seeds. kube-apiserver before 1.29 could be configured so.
const unseeded = "unseeded"

// plugin is a KMS plugin without security: a key is encrypted by inverting some of its bits, after the name of the plugin's key.
// The tests of windlass-storage have the same one.
type plugin struct{}

// annotation belongs to every key that the plugin encrypts. The plugin cannot decrypt the key without it.
const annotation, annotated = "local-kek.kms.example", "1"

func inverted(text string) string {
	bytes := []byte(text)
	for at := range bytes {
		bytes[at] ^= 0x5a
	}
	return string(bytes)
}

func (plugin) Status(context.Context) (*kmsservice.StatusResponse, error) {
	return &kmsservice.StatusResponse{Version: "v2", Healthz: "ok", KeyID: keyID}, nil
}

func (plugin) Encrypt(_ context.Context, _ string, data []byte) (*kmsservice.EncryptResponse, error) {
	return &kmsservice.EncryptResponse{
		Ciphertext:  []byte(keyID + ":" + inverted(string(data))),
		KeyID:       keyID,
		Annotations: map[string][]byte{annotation: []byte(annotated)},
	}, nil
}

func (plugin) Decrypt(_ context.Context, _ string, request *kmsservice.DecryptRequest) ([]byte, error) {
	rest, found := strings.CutPrefix(string(request.Ciphertext), request.KeyID+":")
	if !found || request.KeyID != keyID || string(request.Annotations[annotation]) != annotated {
		return nil, errors.New("this key was encrypted by another plugin")
	}
	return []byte(inverted(rest)), nil
}

// startPlugin serves the plugin on a socket, and returns the endpoint.
func startPlugin(socket string) string {
	encryptionconfig.SetKDFForTests(unseeded, false)
	go func() { check(kmsservice.NewGRPCService(socket, time.Second, plugin{}).ListenAndServe()) }()
	return "unix://" + socket
}
